"""Counting the n-grams of a stream of any length in bounded memory.

Places of the stream are taken in the order of the tokens that follow: a pass over the stream picks
those whose next tokens lie between two bounds, sorts them and writes each length's n-grams to the
end of its arrays. So nothing has to be merged, and how many places a pass takes is what fits the
memory that it was given; the arrays lie in files once they are large (`ngram_arrays.py`).

Shapes: n tokens of the stream, V vocab_size, N_k distinct n-grams of length k, W words of a place,
M places. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.models.ngram_arrays import GrowingArray, roomy_empty
from budgerigar.models.ngram_counts import (
    BLOCK,
    CountedLevel,
    Ints,
    look_up,
    suffix_ids,
    whole_numbers,
)
from budgerigar.models.ngram_packing import ALL, Packing, Words, distinct, merged

MEMORY = 1 << 29
"""Bytes that sorting may take (512 MB); the tables of what was counted come on top."""

BYTES_A_PLACE = 32
"""What sorting needs for a place besides 24 bytes for each of its words."""


class NgramCounter:
    """Counts the n-grams of one stream up to any length; shorter ones are counted with them."""

    def __init__(
        self,
        tokens: NDArray,
        vocab_size: int,
        end_id: int | None = None,
        *,
        memory: int = MEMORY,
        folder: Path | None = None,
    ) -> None:
        """`tokens` (n,), ids below `vocab_size`; `end_id` opens documents: `usable_context`.

        memory: bytes to sort with; folder: where large arrays lie (None: the system's place for
        temporary files).
        """
        self.tokens = np.asarray(tokens)
        self.vocab_size, self.end_id = vocab_size, end_id
        self.memory, self.folder = memory, folder
        if len(self.tokens) and not 0 <= self.tokens.min() <= self.tokens.max() < vocab_size:
            raise UserError(
                f"token {self.tokens.max()} does not fit a vocabulary of {vocab_size}: "
                "the text was encoded with another tokenizer; encode it with this model's"
            )
        self.levels: list[CountedLevel] = []

    def count_to(self, order: int) -> list[CountedLevel]:
        """The counts of lengths 1 … `order`, all anew where fewer were counted before."""
        if len(self.levels) < order:
            self.levels = self._count(order)
        return self.levels[:order]

    def _count(self, order: int) -> list[CountedLevel]:
        packing = Packing(self.tokens, self.vocab_size, order, self.end_id)
        tables = _Tables(packing, self.vocab_size, whole_numbers(len(self.tokens)), self.folder)
        room = max(self.memory // (BYTES_A_PLACE + 24 * packing.n_words), 1)
        what = f"counting n-grams up to {order}"
        with progress.track(what, len(self.tokens), "tokens") as job:
            for low, high, n_places in self._shares(packing, room):
                words, counts = _gather(packing, low, high, min(n_places, room))
                tables.add(words, counts)
                job.advance(int(counts.sum()))
        levels = self._with_suffixes(tables.finish())
        for level, adjusted in zip(levels, self._left_neighbours(levels, packing), strict=False):
            level.adjusted = adjusted
        return levels

    def _shares(self, packing: Packing, room: int) -> Iterator[tuple[int, int, int]]:
        """(low, high, places) of each pass: bounds of `tops` that hold at most `room` places, but for
        a top that is more common than that."""
        if len(self.tokens) <= room:
            yield from [(0, ALL, len(self.tokens))] if len(self.tokens) else []
            return
        often = np.zeros(ALL, dtype=np.int64)
        for codes in packing.blocks(BLOCK):
            _count_into(often, packing.tops(packing.words(codes)))
        upto = np.cumsum(often)
        low = 0
        while low < ALL:
            before = int(upto[low - 1]) if low else 0
            high = max(int(np.searchsorted(upto, before + room, side="right")), low + 1)
            n_places = int(upto[high - 1]) - before
            if n_places:
                yield low, high, n_places
            low = high

    def _with_suffixes(self, tables: list[tuple[Ints, NDArray[Any]]]) -> list[CountedLevel]:
        levels: list[CountedLevel] = []
        for keys, counts in tables:
            if levels:
                below = levels[-1]
                suffixes = suffix_ids(
                    keys, below.keys, below.suffixes, self.vocab_size, self.folder
                )
            else:
                suffixes = np.zeros(len(keys), dtype=np.int32)
                if self._opens_with_end():
                    # The `<end>` that opens the stream is given, never predicted.
                    counts[np.searchsorted(keys, int(self.tokens[0]))] -= 1
            levels.append(CountedLevel(keys, counts, suffixes))
        return levels

    def _left_neighbours(self, levels: list[CountedLevel], packing: Packing) -> list[NDArray[Any]]:
        """`adjusted` of each length but the longest."""
        found = []
        with progress.track("counting left neighbours", max(len(levels) - 1, 1), "lengths") as job:
            for shorter, longer in pairwise(levels):
                adjusted = roomy_empty(len(shorter.keys), shorter.counts.dtype, self.folder)
                adjusted[:] = 0
                for begin in range(0, len(longer.suffixes), BLOCK):
                    _count_into(adjusted, longer.suffixes[begin : begin + BLOCK])
                found.append(adjusted)
                job.advance()
        self._add_openings(levels, found, packing)
        return found

    def _add_openings(
        self, levels: list[CountedLevel], adjusted: list[NDArray[Any]], packing: Packing
    ) -> None:
        """Count as a left neighbour what has none: the n-grams that open a document."""
        opens = len(self.tokens) > 0 and not self._opens_with_end()  # without an `<end>`
        for codes in packing.blocks(BLOCK):
            places = codes[: len(codes) - packing.order + 1]
            at = np.flatnonzero(places == -1 if self.end_id is None else places - 1 == self.end_id)
            at = np.insert(at, 0, 0) if opens else at
            ids = np.zeros(len(at), dtype=np.int64)
            for length, counts in enumerate(adjusted, start=1):
                tokens = codes[at + length - 1] - 1
                there = tokens >= 0
                at, tokens = at[there], tokens[there]
                ids = look_up(levels[length - 1].keys, ids[there], tokens, self.vocab_size)
                if length == 1:  # an `<end>` is itself preceded by something, or given
                    counts[ids[:1]] += int(opens)
                    continue
                _count_into(counts, ids)
                if self.end_id is not None:
                    at, ids = at[tokens != self.end_id], ids[tokens != self.end_id]
            if self.end_id is None:
                return
            opens = False

    def _opens_with_end(self) -> bool:
        return len(self.tokens) > 0 and self.tokens[0] == self.end_id


def _count_into(counts: NDArray[Any], ids: NDArray[Any]) -> None:
    """Add 1 to the entries `ids`, which may recur. Of equal types numpy does it 25 times faster."""
    np.add.at(counts, ids.astype(np.intp), counts.dtype.type(1))


def _gather(packing: Packing, low: int, high: int, room: int) -> tuple[Words, Ints]:
    """Distinct words of the places with tops from `low` to below `high`, sorted, and their counts.

    At most `room` places are held at once, besides what is distinct among those before.
    """
    held = np.empty((packing.n_words, room), dtype=np.uint64)
    runs = []
    n_held = 0
    for codes in packing.blocks(min(BLOCK, room)):
        words = packing.words(codes, low, high)
        upto = n_held + words.shape[1]
        if upto > room:
            runs.append(distinct(held[:, :n_held]))
            n_held, upto = 0, words.shape[1]
        held[:, n_held:upto] = words
        n_held = upto
    return merged([*runs, distinct(held[:, :n_held])])


class _Tables:
    """Keys and counts of each length, made from the sorted distinct words of all places."""

    def __init__(
        self, packing: Packing, vocab_size: int, count_type: np.dtype[Any], folder: Path | None
    ) -> None:
        self._packing, self._vocab_size = packing, vocab_size
        self._columns = [
            (GrowingArray(np.int64, folder), GrowingArray(count_type, folder))
            for _ in range(packing.order)
        ]
        self._last: Words | None = None  # (W, 1)

    def add(self, words: Words, counts: Ints) -> None:
        """Take sorted distinct words (W, M), all of which come after those before."""
        for begin in range(0, words.shape[1], BLOCK):
            self._add_block(words[:, begin : begin + BLOCK], counts[begin : begin + BLOCK])

    def finish(self) -> list[tuple[Ints, NDArray[Any]]]:
        """(keys, counts) of each length."""
        return [(keys.finish(), counts.finish()) for keys, counts in self._columns]

    def _add_block(self, words: Words, counts: Ints) -> None:
        n = words.shape[1]
        begins = np.zeros(
            n, dtype=bool
        )  # an n-gram of the length begins that the place before lacks
        begins[0] = self._last is None
        parents = np.zeros(n, dtype=np.int64)
        for place, (keys, column) in enumerate(self._columns):
            code = self._packing.code(words, place)
            if self._last is not None:
                begins[0] |= code[0] != self._packing.code(self._last, place)[0]
            begins[1:] |= code[1:] != code[:-1]
            heads = np.flatnonzero(begins)
            went_on = int(heads[0]) if len(heads) else n  # places of the n-gram before these words
            if went_on and code[0]:
                column.add_to_last(int(counts[:went_on].sum()))
            before = len(keys)
            if len(heads):
                sums = np.add.reduceat(counts, heads)
                real = code[heads] > 0
                heads, sums = heads[real], sums[real]
                keys.extend(parents[heads] * self._vocab_size + code[heads] - 1)
                column.extend(sums)
            steps = np.zeros(n, dtype=np.int64)
            steps[heads] = 1
            parents = before - 1 + np.cumsum(steps)
        self._last = words[:, -1:].copy()
