"""Counted n-grams in sorted arrays, without a dictionary and without packed powers.

An n-gram of length k gets a number (its id, 0 … N_k - 1) among all of its length. It is found by
the *id of the n-gram one token shorter* and its last token: `key = id * V + token`. Keys stay under
N * V, so order 8 over 70,000 tokens fits 64 bits, where `token ** 8` does not. Keys are sorted, so
all continuations of one context lie side by side, and ids are in the order of the tokens.

Shapes: n tokens of the stream, V vocab_size, N_k distinct n-grams of length k. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgerigar.models.ngram_arrays import roomy_empty

Ints = NDArray[np.int64]

BLOCK = 1 << 16
"""Entries that are worked on at once: half a megabyte an array, which stays in a core's cache."""

SORTED_FIRST = 1 << 12
"""From so many searches on it pays to sort them: neighbours then touch the same memory."""


@dataclass
class CountedLevel:
    """All n-grams of one length k: how often each was seen, after how many different tokens."""

    keys: Ints
    """(N_k,) sorted; id of the first k - 1 tokens times V plus the last token"""
    counts: NDArray[Any]
    """(N_k,) int32 or int64, occurrences"""
    suffixes: NDArray[Any]
    """(N_k,) int32 or int64: id, among length k - 1, of the n-gram without its first token"""
    adjusted: NDArray[Any] | None = None
    """(N_k,) Kneser-Ney's count: different tokens seen before it, plus the occurrences that open a
    document and so have none; None where length k + 1 was not counted"""


def whole_numbers(largest: int) -> np.dtype[Any]:
    """The smaller of int32 and int64 that holds `largest`."""
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)


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
    found = _search(keys, wanted)
    found[found == len(keys)] = 0
    result: Ints = np.where((parents >= 0) & (keys[found] == wanted), found, -1)
    return result


def _search(keys: Ints, wanted: Ints) -> Ints:
    if wanted.ndim != 1 or min(len(wanted), len(keys)) < SORTED_FIRST:
        return np.searchsorted(keys, wanted)
    order = np.argsort(wanted, kind="stable")  # quick where parts are in order already
    found = np.empty(len(wanted), dtype=np.int64)
    found[order] = np.searchsorted(keys, wanted[order])
    return found


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


def suffix_ids(
    keys: Ints,
    shorter_keys: Ints,
    shorter_suffixes: NDArray[Any],
    vocab_size: int,
    folder: Path | None = None,
) -> NDArray[Any]:
    """For each n-gram of length k, the id (among length k - 1) of it without its first token.

    `folder`: for the result where it is large, see `roomy_empty`.
    """
    result = roomy_empty(len(keys), whole_numbers(len(shorter_keys)), folder)
    for begin in range(0, len(keys), BLOCK):
        parents, tokens = np.divmod(keys[begin : begin + BLOCK], vocab_size)
        shorter = shorter_suffixes[parents].astype(np.int64)
        result[begin : begin + BLOCK] = look_up(shorter_keys, shorter, tokens, vocab_size)
    return result


def context_blocks(keys: Ints, vocab_size: int) -> Iterator[tuple[int, int]]:
    """(begin, stop) of about `BLOCK` entries each, which never part the continuations of a context.

    A context has at most V of them, so a block has at most the larger of `BLOCK` and V entries.
    """
    begin = 0
    while begin < len(keys):
        stop = min(begin + BLOCK, len(keys))
        if stop < len(keys):
            stop = int(np.searchsorted(keys, keys[stop] // vocab_size * vocab_size))
        if stop <= begin:
            stop = int(np.searchsorted(keys, (keys[begin] // vocab_size + 1) * vocab_size))
        yield begin, stop
        begin = stop
