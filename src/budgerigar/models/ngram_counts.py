"""Counting n-grams in sorted arrays, without a dictionary and without packed powers.

An n-gram of length k gets a number (its id, 0 … N_k - 1) among all of its length. It is found by
the *id of the n-gram one token shorter* and its last token: `key = id * V + token`. Keys stay under
N * V, so order 8 over 70,000 tokens fits 64 bits, where `token ** 8` does not. Keys are sorted, so
all continuations of one context lie side by side.

Shapes: n tokens of the stream, V vocab_size, N_k distinct n-grams of length k. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgerigar.errors import UserError

Ints = NDArray[np.int64]


@dataclass
class CountedLevel:
    """All n-grams of one length k: how often each was seen, after how many different tokens."""

    keys: Ints
    """(N_k,) sorted; id of the first k - 1 tokens times V plus the last token"""
    counts: Ints
    """(N_k,) occurrences"""
    suffixes: Ints
    """(N_k,) id, among length k - 1, of the n-gram without its first token"""
    adjusted: Ints | None = None
    """(N_k,) Kneser-Ney's count: different tokens seen before it, plus the occurrences that open a
    document and so have none; None until length k + 1 is counted"""


def usable_context(tokens: NDArray, end_id: int | None, first: Ints | None = None) -> Ints:
    """How many tokens before each position may serve as its context.

    `tokens` (…, T) -> (…, T + 1): the last entry is for the token still to come. An `end_id` opens
    a document: it is context for what follows and nothing before it is. `first` (…,): index of the
    first real token of a row; positions before it get -1 or less.
    """
    width = tokens.shape[-1]
    places = np.arange(width, dtype=np.int64)
    opened = np.zeros(tokens.shape, dtype=np.int64)
    if end_id is not None:
        opened = np.where(tokens == end_id, places, 0)
    if first is not None:
        opened = np.maximum(opened, first[..., None])
    opened = np.maximum.accumulate(opened, axis=-1)
    start = np.zeros(tokens.shape[:-1], dtype=np.int64) if first is None else first
    before = np.concatenate([start[..., None], opened], axis=-1)
    result: Ints = np.arange(width + 1, dtype=np.int64) - before
    return result


def look_up(keys: Ints, parents: Ints, tokens: NDArray, vocab_size: int) -> Ints:
    """Ids of the n-grams `parents` + `tokens` (any equal shape); -1 where there is none."""
    wanted = parents * vocab_size + tokens
    if not len(keys):
        return np.full(wanted.shape, -1, dtype=np.int64)
    found = np.searchsorted(keys, wanted)
    found[found == len(keys)] = 0
    result: Ints = np.where((parents >= 0) & (keys[found] == wanted), found, -1)
    return result


def ngram_ids(keys: Sequence[Ints], tokens: Ints, usable: Ints, vocab_size: int) -> list[Ints]:
    """For each length k = 1 … len(keys), the id of the n-gram that ends at each position.

    `tokens` (n,), `usable` (n,) as from `usable_context`. An entry is -1 where the n-gram was never
    seen or would reach further back than `usable` allows. -> list of (n,)
    """
    found: list[Ints] = []
    parents = np.zeros(len(tokens), dtype=np.int64)
    for length, level_keys in enumerate(keys, start=1):
        if length > 1:
            parents[1:] = found[-1][:-1]
        allowed = np.where(usable >= length - 1, parents, -1)
        found.append(look_up(level_keys, allowed, tokens, vocab_size))
    return found


def suffix_ids(keys: Ints, shorter_keys: Ints, shorter_suffixes: Ints, vocab_size: int) -> Ints:
    """For each n-gram of length k, the id (among length k - 1) of it without its first token."""
    parents, tokens = np.divmod(keys, vocab_size)
    return look_up(shorter_keys, shorter_suffixes[parents], tokens, vocab_size)


class NgramCounter:
    """Counts the n-grams of one stream, one length at a time, so that orders can share them."""

    def __init__(self, tokens: NDArray, vocab_size: int, end_id: int | None = None) -> None:
        """`tokens` (n,), ids below `vocab_size`; `end_id` opens documents: `usable_context`."""
        self.tokens: Ints = np.asarray(tokens, dtype=np.int64)
        self.vocab_size, self.end_id = vocab_size, end_id
        if len(self.tokens) and not 0 <= self.tokens.min() <= self.tokens.max() < vocab_size:
            raise UserError(
                f"token {self.tokens.max()} does not fit a vocabulary of {vocab_size}: "
                "the text was encoded with another tokenizer; encode it with this model's"
            )
        self.levels: list[CountedLevel] = []
        self._usable = usable_context(self.tokens, end_id)[:-1]
        self._ids: Ints = np.zeros(len(self.tokens), dtype=np.int64)

    def count_to(self, order: int) -> list[CountedLevel]:
        """The counts of lengths 1 … `order`; what was counted before is kept."""
        while len(self.levels) < order:
            self._count_next()
        return self.levels[:order]

    def _count_next(self) -> None:
        length = len(self.levels) + 1
        places = np.flatnonzero(self._usable >= length - 1)
        parents = self._ids[places - 1] if length > 1 else np.zeros(len(places), dtype=np.int64)
        keys, counts, which = _distinct(parents * self.vocab_size + self.tokens[places])
        if length == 1:
            suffixes = np.zeros(len(keys), dtype=np.int64)
            if self._opens_with_end():
                # The `<end>` that opens the stream is given, never predicted.
                counts[which[0]] -= 1
        else:
            suffixes = np.empty(len(keys), dtype=np.int64)
            suffixes[which] = self._ids[places]
            self.levels[-1].adjusted = self._adjust(suffixes, length - 1)
        self.levels.append(CountedLevel(keys, counts, suffixes))
        self._ids[places] = which

    def _adjust(self, suffixes: Ints, length: int) -> Ints:
        """Kneser-Ney's counts of length `length`, given the suffixes of the next longer n-grams."""
        size = len(self.levels[length - 1].keys)
        opening = self._usable == length - 1
        if length == 1 and self._opens_with_end():
            opening[0] = False
        alone: Ints = np.bincount(self._ids[opening], minlength=size)
        return np.bincount(suffixes, minlength=size) + alone

    def _opens_with_end(self) -> bool:
        return len(self.tokens) > 0 and self.tokens[0] == self.end_id


def _distinct(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Sorted distinct keys, how often each occurs, and which one each entry is. One sort in all."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    firsts = np.flatnonzero(new)
    which = np.empty(len(keys), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    return ordered[firsts], np.diff(np.append(firsts, len(keys))), which
