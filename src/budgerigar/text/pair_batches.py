"""Batches of sentence pairs of about equal length, and every pair once for evaluation.

B pairs, T target positions, S source positions. Rows are padded on the right: with 0 in tokens
and source, which nothing looks at, and with -100 in targets, which are not scored there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.text.batches import NOT_SCORED
from budgerigar.text.bucketing import BucketOrder, by_length, cut
from budgerigar.text.pair_store import PairStore, TokenLines

PADDING = 0  # of inputs; no position that counts ever sees it


class PairBatch(NamedTuple):
    """tokens (B,T) int64: the start and the target's ids, which the decoder reads; targets (B,T)
    int64: the target's ids and `<end>`, -100 beyond; source (B,S) int64: the source's ids and
    `<end>`; source_lengths (B,) int64: its tokens of each row."""

    tokens: Tensor
    targets: Tensor
    source: Tensor
    source_lengths: Tensor

    def inputs(self) -> dict[str, Tensor]:
        """The keyword arguments of a model's `forward`."""
        return {
            "tokens": self.tokens,
            "source": self.source,
            "source_lengths": self.source_lengths,
        }


class PairBatches:
    """An endless row of training batches from `store`, the same for the same seed.

    Each epoch gives every pair once, in a new order: pairs are shuffled, sorted by length in large
    pools, cut into batches of at most `batch_tokens` padded tokens a side (rows times the longer of
    the two sides), and these are given out in random order. Order and state depend on (seed, epoch,
    pool) alone; `state_dict` holds plain numbers, and a copy that loads it goes on with exactly the
    same batches.

    start_id: what starts the decoder (`network.config.decoder_start`). max_source, max_target: the
    most tokens of a side, `<end>` included; longer pairs, and those that alone exceed
    `batch_tokens`, are left out and counted in `left_out`.
    """

    def __init__(
        self,
        store: PairStore,
        batch_tokens: int,
        seed: int,
        start_id: int,
        max_source: int | None = None,
        max_target: int | None = None,
    ) -> None:
        if batch_tokens < 1:
            raise UserError(f"batch_tokens {batch_tokens}: at least 1.")
        self._store, self._batch_tokens, self._seed = store, batch_tokens, seed
        self._start_id = start_id
        source, target = store.source.lengths + 1, store.target.lengths + 1
        fits = store.within(max_source, max_target)
        fits &= np.maximum(source, target) <= batch_tokens
        self._kept = np.flatnonzero(fits)
        self.left_out = store.n_pairs - len(self._kept)
        if not len(self._kept):
            raise UserError(_nothing_fits(source, target, batch_tokens, max_source, max_target))
        self._order = BucketOrder(source[fits], target[fits], batch_tokens, seed)

    @property
    def epoch(self) -> int:
        """The epoch, from 0, that the latest batch belongs to."""
        return self._order.epoch

    @property
    def n_pairs(self) -> int:
        """Pairs of an epoch."""
        return len(self._kept)

    def next(self) -> PairBatch:
        """The next batch."""
        return gather_pairs(self._store, self._kept[self._order.next()], self._start_id)

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as JSON-able values."""
        return {
            "batch_tokens": self._batch_tokens,
            "seed": self._seed,
            "n_pairs": len(self._kept),
            "n_tokens": self._store.n_tokens,
            "n_source_tokens": self._store.n_source_tokens,
            **self._order.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from the same pairs and settings."""
        mine = self.state_dict()
        for name in ("batch_tokens", "seed", "n_pairs", "n_tokens", "n_source_tokens"):
            if state[name] != mine[name]:
                raise UserError(
                    f"these batches were saved with {name} {state[name]}, here it is {mine[name]}: "
                    "the run cannot go on where it stopped."
                )
        self._order.load_state_dict(state)


def evaluation_pairs(
    store: PairStore, batch_tokens: int, start_id: int
) -> Iterator[tuple[PairBatch, np.ndarray]]:
    """(batch, the numbers of its pairs in the store): every pair once, sorted by length for speed.

    A pair longer than `batch_tokens` comes alone. Draws nothing, and so disturbs no generator.
    """
    source, target = store.source.lengths + 1, store.target.lengths + 1
    order = by_length(source, target)
    for first, last in cut(np.maximum(source, target)[order], batch_tokens):
        rows = order[first:last]
        yield gather_pairs(store, rows, start_id), rows


def gather_pairs(store: PairStore, rows: np.ndarray, start_id: int) -> PairBatch:
    """The batch of these pairs, one a row."""
    targets, lengths = _gather(store.target, rows, store.end_id, NOT_SCORED)
    tokens = np.empty_like(targets)
    tokens[:, 0] = start_id
    tokens[:, 1:] = targets[:, :-1]
    # An input is what was the target before; <end> is never read, nor is what lies beyond it.
    tokens[np.arange(targets.shape[1]) >= lengths[:, None]] = PADDING
    source, source_lengths = _gather(store.source, rows, store.source_end_id, PADDING)
    arrays = (tokens, targets, source, source_lengths)
    return PairBatch(*(torch.from_numpy(array) for array in arrays))


def pad_rows(rows: Sequence[Sequence[int]], value: int = PADDING) -> Tensor:
    """Lists of ids as one int64 tensor (B,T), padded on the right with `value`."""
    width = max(map(len, rows), default=0)
    padded = np.full((len(rows), width), value, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


def _gather(
    lines: TokenLines, rows: np.ndarray, end_id: int, padding: int
) -> tuple[np.ndarray, np.ndarray]:
    """(ids and <end> of these lines (B,T), tokens of each (B,)), int64."""
    starts = np.asarray(lines.offsets)[rows]
    lengths = np.asarray(lines.offsets)[rows + 1] - starts
    index = np.arange(int(lengths.max(initial=0)) + 1)
    padded = np.full((len(rows), len(index)), padding, dtype=np.int64)
    inside = index < lengths[:, None]
    padded[inside] = lines.tokens[(starts[:, None] + index)[inside]]
    padded[np.arange(len(rows)), lengths] = end_id
    return padded, lengths + 1


def _nothing_fits(
    source: np.ndarray,
    target: np.ndarray,
    batch_tokens: int,
    max_source: int | None,
    max_target: int | None,
) -> str:
    if not len(source):
        return "there is no pair to train on."
    shortest = int(np.maximum(source, target).min())
    limits = [("batch_tokens", batch_tokens), ("the source's", max_source)]
    said = ", ".join(f"{name} {most:,}" for name, most in limits if most is not None)
    if max_target is not None:
        said += f", the target's {max_target:,}"
    return (
        f"not one of {len(source):,} pairs fits (most tokens: {said}): the shortest has "
        f"{shortest:,} tokens on its longer side. Use a longer context or larger batches."
    )
