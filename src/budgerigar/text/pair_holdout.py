"""Which pairs are held out for validation, such that no sentence is on both sides.

Pairs that share a source or a target sentence belong together, and so do pairs that share one with
these: connected components of the graph whose nodes are sentences and whose edges are pairs. Whole
components are held out, chosen at random. Where nearly all pairs hang together (every second
answer is "Yes."), less must do, and what was not reached is said.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_BECAUSE = "because nearly all pairs hang together by equal sentences"
_ENOUGH = 500  # held-out pairs, where a share of them would be more


@dataclass(frozen=True)
class PairHoldout:
    """held_out: bool (n,), by the pairs' order. note: how it was chosen, in words."""

    held_out: np.ndarray
    note: str


@dataclass(frozen=True)
class PairKeys:
    """source, target: uint64 (n,), a hash of each pair's sentences; equal for equal sentences,
    whatever their case and spaces."""

    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.source)


def sentence_keys(pairs: Iterable[tuple[str, str]]) -> PairKeys:
    """Read all pairs once: 16 bytes each."""
    sides = array("Q"), array("Q")
    for pair in pairs:
        for keys, sentence in zip(sides, pair, strict=True):
            tidy = " ".join(sentence.split()).casefold().encode("utf-8", "surrogatepass")
            keys.append(int.from_bytes(hashlib.blake2b(tidy, digest_size=8).digest(), "little"))
    return PairKeys(*(np.frombuffer(keys, dtype=np.uint64) for keys in sides))


def hold_out_pairs(keys: PairKeys, fraction: float, seed: int) -> PairHoldout | None:
    """About `fraction` of the pairs, or None where there are no two different ones.

    Tried in this order, until half of what is wanted (or 500 pairs) can be held out: no sentence
    of either side in both parts; no source sentence; no target sentence; no pair.
    """
    n = len(keys)
    wanted = max(1, round(n * fraction))
    enough = min(wanted / 2, _ENOUGH)
    source, target = _numbers(keys.source), _numbers(keys.target)
    pair = source.astype(np.int64) * (int(target.max(initial=0)) + 1) + target
    ways = (
        (lambda: components(source, target), "no sentence of either side is in both parts"),
        (lambda: source, f"no source sentence is in both parts; target sentences are, {_BECAUSE}"),
        (lambda: target, f"no target sentence is in both parts; source sentences are, {_BECAUSE}"),
        (lambda: _numbers(pair), f"no pair is in both parts; single sentences are, {_BECAUSE}"),
    )
    # Where hardly a sentence occurs once, larger parts than wanted are better than none.
    for most in (2 * wanted, n // 2) if n else ():
        best: PairHoldout | None = None
        for group, words in ways:
            held_out = _choose(group(), wanted, most, seed)
            found = int(held_out.sum())
            if found and (best is None or found > best.held_out.sum()):
                best = PairHoldout(held_out, words)
            if found and found >= enough:
                return best
        if best is not None:
            return best
    return None


def components(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The number (0, 1, …) of each pair's connected component, by union and find.

    source, target: (n,) keys of the sentences. Only sentences that occur twice join anything, so
    the loop is short for an ordinary corpus.
    """
    leads: dict[int, int] = {}  # of pairs that were joined: another of the same component

    def find(pair: int) -> int:
        while (lead := leads.setdefault(pair, pair)) != pair:
            leads[pair] = leads[lead]  # halves the path
            pair = leads[pair]
        return pair

    for keys in (source, target):
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
        for one, other in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
            one, other = find(one), find(other)
            leads[max(one, other)] = min(one, other)
    labels = np.arange(len(source))
    joined = np.fromiter(leads, dtype=np.int64, count=len(leads))
    labels[joined] = [find(pair) for pair in joined.tolist()]
    return _numbers(labels)


def _numbers(values: np.ndarray) -> np.ndarray:
    """Equal values as equal numbers 0, 1, … without a gap."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _choose(group: np.ndarray, wanted: int, most: int, seed: int) -> np.ndarray:
    """bool (n,): whole groups, at random, of at most `wanted` rows in all; else the smallest one,
    if it has at most `most` rows and at most half of all."""
    sizes = np.bincount(group)
    order = np.random.default_rng(seed).permutation(len(sizes))
    # A group that alone is a good part of what is wanted would make a poor sample of the text.
    small = order[sizes[order] <= max(wanted // 4, 1)]
    chosen = small[np.cumsum(sizes[small]) <= wanted]
    if not len(chosen):
        chosen = order[np.argmin(sizes[order])][None]
    held_out = np.isin(group, chosen)
    fits = held_out.sum() <= min(max(most, wanted), len(group) / 2)
    return held_out if fits else np.zeros(len(group), dtype=bool)
