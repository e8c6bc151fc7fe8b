"""Batches of parallel streams, for models that carry a state from window to window.

The text is cut into B equal streams, a row each; each batch holds the next window of every one, so
that a row goes on where it stopped (truncated back-propagation: Williams & Peng 1990, Zaremba et al.
2014). B rows, T positions.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from budgerigar.errors import UserError
from budgerigar.text.batches import Batch
from budgerigar.text.store import TokenStore

SAME = ("order", "context_length", "batch_size", "n_tokens", "reset_share")


class StreamBatches:
    """An endless row of batches from `store`, the same for the same seed; an epoch is one pass.

    A batch's `positions` are 0 where nothing before counts: where a document begins, where a stream
    does, and at the first token of a share `reset_share` of the windows, so that a model also learns
    to begin in the middle of a text. Each epoch starts a little further into the text.

    `rows`: streams; fewer than `batch_size` for a very short text. Windows are of equal size, at most
    `length`. Draws come from a generator of its own, whose state `state_dict` holds.
    """

    carries = True  # the model's state goes from each batch to the next

    def __init__(
        self,
        store: TokenStore,
        length: int,
        batch_size: int,
        seed: int,
        reset_share: float = 0.0,
    ) -> None:
        if batch_size < 1 or length < 1:
            raise UserError("batch_size and the length of a window must be at least 1.")
        if store.n_tokens < 2:
            raise UserError("Streams need a text of at least 2 tokens.")
        self._store, self._length, self._batch_size = store, length, batch_size
        self._reset_share = reset_share
        self.rows = min(batch_size, store.n_tokens - 1)
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._epoch_state: dict[str, Any] | None = None  # the generator before the epoch was drawn
        self._cursor = 0  # windows of this epoch that were given out
        self._starts = np.zeros(0, dtype=np.int64)  # (B,) where the streams begin
        self._resets = np.zeros((0, self.rows), dtype=bool)  # (windows, B)
        self._size = 0  # tokens of a window

    def next(self) -> Batch:
        """The next batch."""
        if self._cursor == len(self._resets):
            self._begin_epoch()
        inside = np.arange(self._size + 1)
        places = (self._starts + self._cursor * self._size)[:, None] + inside
        tokens = torch.from_numpy(self._store.tokens[places].astype(np.int64))
        positions = self._positions(tokens[:, :-1])
        self._cursor += 1
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), None, positions)

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as JSON-able values."""
        return {
            "order": "streams",
            "context_length": self._length,
            "batch_size": self._batch_size,
            "n_tokens": self._store.n_tokens,
            "reset_share": self._reset_share,
            "cursor": self._cursor,
            "generator": self._epoch_state or self._generator_state(),
            "epoch_begun": self._epoch_state is not None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from the same text and settings."""
        mine = self.state_dict()
        for name in SAME:
            if state.get(name) != mine[name]:
                raise UserError(
                    f"these batches were saved with {name} {state.get(name)}, here it is "
                    f"{mine[name]}: the run cannot go on where it stopped."
                )
        self._random.bit_generator.state = copy.deepcopy(state["generator"])
        self._epoch_state, self._resets = None, self._resets[:0]
        if state["epoch_begun"]:
            self._begin_epoch()
        self._cursor = state["cursor"]

    def _begin_epoch(self) -> None:
        self._epoch_state = self._generator_state()
        inputs = self._store.n_tokens - 1
        spare = min(self._length, inputs // 10 + 1, inputs - self.rows + 1)
        offset = int(self._random.integers(0, spare))
        stream = (inputs - offset) // self.rows
        windows = -(-stream // self._length)
        self._size = stream // windows
        self._starts = offset + stream * np.arange(self.rows)
        self._resets = self._random.random((windows, self.rows)) < self._reset_share
        self._resets[0] = True
        self._cursor = 0

    def _positions(self, tokens: torch.Tensor) -> torch.Tensor:
        """(B,T): tokens since the last beginning, or at least since that of the stream."""
        index = torch.arange(self._size)[None]
        reset = torch.from_numpy(self._resets[self._cursor])[:, None]
        before = self._cursor * self._size
        positions = torch.where(reset, index, index + before)
        start = self._store.opens_id
        if start is None:
            return positions
        opens = tokens == start
        begun = torch.where(opens, index, -1).cummax(1).values
        return torch.where(begun >= 0, index - begun, positions)

    def _generator_state(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self._random.bit_generator.state))
