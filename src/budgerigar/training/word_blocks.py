"""A text cut into blocks of pairs for word vectors, by numpy, a span of the text at a time.

A block is 64 places of the thinned-out text. Its pairs are gathered into one small table: how often
each of its words meets each word around them, as the window that each place draws allows. The same
noise words serve the whole block, by weight (Ji et al. 2016, Parallelizing Word2Vec): one is drawn
from each of 64 equal shares of the noise distribution, so that every draw looks like the whole of
it. Then a block is three matrix products (models/word_vectors.py), not hundreds of short ones.

Shapes: N words of a span, L places of a block, M noise words, B blocks, W window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from budgerigar.models.word_vectors_config import WordVectorsConfig
from budgerigar.text.word_text import WordText, thin_out

PLACES = 64  # of a block: more are less like learning word by word, fewer are slower
NOISE_WORDS = 64  # of a block
SPAN = 1 << 18  # words that are prepared at a time: bounds memory

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """One step: which vectors meet which, how often. The shapes are `learn_block`'."""

    inputs: Tensor
    """(A,) int64 rows, each once"""
    outputs: Tensor
    """(O,) int64 rows, each once"""
    positives: Tensor
    noise: Tensor
    mixing: Tensor | None
    """None: skip-gram"""
    loads: tuple[Tensor, Tensor]
    """(A,) and (O,): true pairs and noise that each vector meets in this block, by weight"""
    most: tuple[float, float]
    """the largest of each of `loads`"""
    pairs: float
    """true pairs"""


class SpanBlocks:
    """The blocks of one span of text, ready to be taken one by one."""

    def __init__(
        self,
        text: WordText,
        config: WordVectorsConfig,
        keep: np.ndarray,
        noise_edges: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        """keep (R,): `keep_shares`. noise_edges (R,): cumulated `noise_distribution`."""
        self.config = config
        thinned = thin_out(text, keep, rng)
        n, side = len(thinned), config.window
        self._n_blocks = -(-n // PLACES)
        reach = rng.integers(1, side + 1, n)
        padding = self._n_blocks * PLACES - n + side
        padded = np.pad(thinned.words.astype(np.int64), (side, padding))
        width = PLACES + 2 * side
        around = np.lib.stride_tricks.sliding_window_view(padded, width)[::PLACES]
        around = around[: self._n_blocks] if n else np.zeros((0, width), dtype=np.int64)
        centres = around[:, side : side + PLACES]
        shares = np.arange(NOISE_WORDS) + rng.random((self._n_blocks, NOISE_WORDS))
        drawn = np.searchsorted(noise_edges, shares * (noise_edges[-1] / NOISE_WORDS), "right")
        noise = np.minimum(drawn, len(noise_edges) - 1)
        skip = config.method == "skip-gram"
        self._inputs = _Distinct(centres if skip else around)
        self._outputs = _Distinct(np.concatenate([around if skip else centres, noise], axis=1))
        block, place, other = _pairs(thinned.documents, reach, side)
        if skip:
            row = self._inputs.number[block, place]
            column = self._outputs.number[block, other + side]
        else:
            row, column = place, self._inputs.number[block, other + side]
        across = (self._outputs if skip else self._inputs).many
        self._cells = row * across[block] + column
        self._begins = np.searchsorted(block, np.arange(self._n_blocks + 1))

    def __len__(self) -> int:
        return self._n_blocks

    def __getitem__(self, k: int) -> Block:
        """Block k."""
        cells = self._cells[self._begins[k] : self._begins[k + 1]]
        inputs, outputs = self._inputs.words(k), self._outputs.words(k)
        numbers = self._outputs.number[k]
        drawn = np.bincount(numbers[-NOISE_WORDS:], minlength=len(outputs))
        weights = (drawn * (self.config.negatives / NOISE_WORDS)).astype(np.float32)
        if self.config.method == "skip-gram":
            positives = _table(cells, len(inputs), len(outputs))
            many = positives.sum(1, keepdims=True)
            noise = many * weights
            mixing = None
            met = many[:, 0]
        else:
            mixing = _table(cells, PLACES, len(inputs))
            many = mixing.sum(1, keepdims=True)
            mixing /= np.maximum(many, 1)
            known = (many > 0).astype(np.float32)
            places = np.arange(PLACES) * len(outputs) + numbers[:PLACES]
            positives = _table(places, PLACES, len(outputs)) * known
            noise = known * weights
            met = mixing.sum(0)
        pairs = float(positives.sum())
        meets = (1 + self.config.negatives) * met, positives.sum(0) + pairs * weights
        return Block(
            torch.from_numpy(inputs),
            torch.from_numpy(outputs),
            torch.from_numpy(positives),
            torch.from_numpy(noise),
            None if mixing is None else torch.from_numpy(mixing),
            (torch.from_numpy(meets[0]), torch.from_numpy(meets[1])),
            (float(meets[0].max()), float(meets[1].max())),
            pairs,
        )

    def __iter__(self) -> Iterator[Block]:
        return (self[k] for k in range(len(self)))


class _Distinct:
    """The distinct words of each row of a table (B, n), in order, and each entry's number in it."""

    def __init__(self, table: Ints) -> None:
        few = table.max(initial=0) < 1 << 16  # short numbers are sorted by radix
        order = np.argsort(table.astype(np.uint16) if few else table, axis=1, kind="stable")
        self._sorted = np.take_along_axis(table, order, 1)
        self._first = np.ones_like(self._sorted, dtype=bool)
        self._first[:, 1:] = self._sorted[:, 1:] != self._sorted[:, :-1]
        numbers = np.cumsum(self._first, axis=1) - 1
        self.number = np.empty_like(numbers)
        np.put_along_axis(self.number, order, numbers, 1)
        self.many: Ints = self._first.sum(axis=1)

    def words(self, k: int) -> Ints:
        """Of row k."""
        words: Ints = self._sorted[k][self._first[k]]
        return words


def _table(cells: Ints, n_rows: int, n_columns: int) -> NDArray[np.float32]:
    """How often each cell of a table occurs in `cells` (flat numbers)."""
    counted = np.bincount(cells, minlength=n_rows * n_columns).astype(np.float32)
    return counted.reshape(n_rows, n_columns)


def _pairs(documents: np.ndarray, reach: np.ndarray, window: int) -> tuple[Ints, Ints, Ints]:
    """Every place with every other within its `reach`, block by block.

    -> (block, place in the block, the other's place counted from the block's beginning)
    """
    n = len(documents)
    found = []
    for distance in range(1, window + 1):
        same = documents[distance:] == documents[: n - distance] if n > distance else ()
        left = np.flatnonzero(same)
        for centre, other in ((left, left + distance), (left + distance, left)):
            near = reach[centre] >= distance
            found.append((centre[near], other[near]))
    centres, others = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(centres // PLACES, kind="stable")
    centres, others = centres[order].astype(np.int64), others[order].astype(np.int64)
    block = centres // PLACES
    return block, centres - block * PLACES, others - block * PLACES
