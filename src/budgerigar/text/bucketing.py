"""Rows of different lengths in batches of about equal ones, in an order that depends on a seed alone.

Each epoch gives every row once, in a new order: rows are shuffled, sorted by length in large pools, cut
into batches, and these are given out in random order. Order and state depend on (seed, epoch, pool).
"""

from __future__ import annotations

from typing import Any

import numpy as np

_POOL_BATCHES = 128  # about so many batches are sorted by length together


class BucketOrder:
    """An endless row of batches of row numbers. source, target (n,): lengths of the two sides of each.

    A batch has at most `batch_tokens` padded tokens a side (rows times the longer of the two sides) and
    at most `batch_rows` rows.
    """

    def __init__(
        self,
        source: np.ndarray,
        target: np.ndarray,
        batch_tokens: int | None,
        seed: int,
        batch_rows: int | None = None,
    ) -> None:
        assert len(source), "there is something to order"
        assert batch_tokens or batch_rows, "batches have a limit"
        self._source, self._target = source, target
        self._batch_tokens, self._batch_rows, self._seed = batch_tokens, batch_rows, seed
        rows = float(batch_rows or len(source))
        if batch_tokens is not None:
            rows = min(rows, batch_tokens / float(np.maximum(source, target).mean()))
        wanted = max(1, int(_POOL_BATCHES * rows))
        self._n_pools = max(1, round(len(source) / wanted))
        self.epoch = self._pool = self._cursor = 0
        self._order = np.empty(0, dtype=np.int64)  # the rows in this epoch's order
        self._batches: list[np.ndarray] = []  # of this pool
        self._begin_epoch()

    def next(self) -> np.ndarray:
        """The row numbers of the next batch."""
        if self._cursor == len(self._batches):
            self._next_pool()
        rows = self._batches[self._cursor]
        self._cursor += 1
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as JSON-able values."""
        return {"epoch": self.epoch, "pool": self._pool, "cursor": self._cursor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from the same rows and settings."""
        self.epoch, self._pool = state["epoch"], state["pool"]
        self._begin_epoch()
        self._cursor = state["cursor"]

    def _next_pool(self) -> None:
        self._cursor, self._pool = 0, self._pool + 1
        if self._pool == self._n_pools:
            self.epoch, self._pool = self.epoch + 1, 0
            self._begin_epoch()
        else:
            self._fill_pool()

    def _begin_epoch(self) -> None:
        self._order = generator(self._seed, self.epoch).permutation(len(self._source))
        self._fill_pool()

    def _fill_pool(self) -> None:
        edges = np.linspace(0, len(self._order), self._n_pools + 1).astype(np.int64)
        pool = self._order[edges[self._pool] : edges[self._pool + 1]]
        source, target = self._source[pool], self._target[pool]
        pool = pool[by_length(source, target)]
        longest = np.maximum(self._source[pool], self._target[pool])
        batches = cut(longest, self._batch_tokens, self._batch_rows)
        shuffled = generator(self._seed, self.epoch, self._pool + 1).permutation(len(batches))
        self._batches = [pool[slice(*batches[i])] for i in shuffled]


def by_length(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """An order in which neighbours are of about equal length on both sides.

    By the longer side, which decides how many fit into a batch, and within one length by how much
    longer the target is: up in even lengths, down in odd ones, so that where the length changes
    the difference does not jump. (On Multi30k in batches of 4,096: 3 % padding and 119 batches; by
    the target first 4.5 % and 126.) Ties keep their order.
    """
    longer = np.maximum(source, target)
    difference = target - source
    return np.lexsort((np.where(longer % 2, -difference, difference), longer))


def cut(
    longest: np.ndarray, batch_tokens: int | None, batch_rows: int | None = None
) -> list[tuple[int, int]]:
    """(first, last + 1) of batches: rows times the longest row at most `batch_tokens`, and at most
    `batch_rows` rows."""
    found = []
    first = most = 0
    for place, length in enumerate(longest.tolist()):
        most = max(most, length)
        rows = place + 1 - first
        too_large = batch_tokens is not None and most * rows > batch_tokens
        if place > first and (too_large or (batch_rows is not None and rows > batch_rows)):
            found.append((first, place))
            first, most = place, length
    if len(longest):
        found.append((first, len(longest)))
    return found


def generator(*key: int) -> np.random.Generator:
    """Random numbers that depend on `key` alone."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
