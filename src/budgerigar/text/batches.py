"""Batches of windows for training, and every token once for evaluation.

B batch, T positions. A window of T inputs has as targets the same tokens one place on. With
documents, `document_ids` say which inputs belong together (attention does not cross documents)
and `positions` count from what opens each document: the `<end>` before it, or an imported
tokenizer's `<s>`, which is never a target.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from budgerigar.errors import UserError
from budgerigar.text.store import TokenStore

NOT_SCORED = -100  # torch's `ignore_index`
ORDERS = ("random", "shuffled")


class Batch(NamedTuple):
    """tokens (B,T) int64; targets (B,T) int64, -100 where nothing is scored; document_ids (B,T)
    int32 and positions (B,T) int64, both None where there are no documents."""

    tokens: torch.Tensor
    targets: torch.Tensor
    document_ids: torch.Tensor | None
    positions: torch.Tensor | None

    def inputs(self) -> dict[str, torch.Tensor | None]:
        """The keyword arguments of a model's `forward`."""
        return {
            "tokens": self.tokens,
            "document_ids": self.document_ids,
            "positions": self.positions,
        }


class WindowBatches:
    """An endless row of training batches from `store`, the same for the same seed.

    order "random": each window starts anywhere, with replacement (nanoGPT's way). order "shuffled":
    epochs of windows that do not overlap, in a new order and from a new first token each time, so
    that nearly every token is learnt from once an epoch.

    Draws come from a generator of its own, whose state `state_dict` holds (plain numbers and
    strings); a copy that loads it goes on with exactly the same batches.
    """

    def __init__(
        self,
        store: TokenStore,
        context_length: int,
        batch_size: int,
        seed: int,
        order: str = "random",
    ) -> None:
        if order not in ORDERS:
            raise UserError(f"order {order!r} of batches: choose one of {', '.join(ORDERS)}.")
        if batch_size < 1 or context_length < 1:
            raise UserError("batch_size and context_length must be at least 1.")
        if context_length >= store.n_tokens:
            raise UserError(
                f"a context of {context_length:,} tokens needs a text of {context_length + 1:,}, "
                f"and this one has {store.n_tokens:,}. Use a shorter context or more text."
            )
        self._store, self._length, self._batch_size = store, context_length, batch_size
        self._order = order
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._starts = np.empty(0, dtype=np.int64)  # of this epoch's windows
        self._epoch_state: dict[str, Any] | None = None  # the generator before they were drawn
        self._cursor = 0  # windows of this epoch that were given out

    def next(self) -> Batch:
        """The next batch."""
        return gather_windows(self._store, self._next_starts(), self._length)

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as JSON-able values."""
        return {
            "order": self._order,
            "context_length": self._length,
            "batch_size": self._batch_size,
            "n_tokens": self._store.n_tokens,
            "cursor": self._cursor,
            "generator": self._epoch_state or self._generator_state(),
            "epoch_begun": self._epoch_state is not None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from the same text and settings."""
        mine = self.state_dict()
        for name in ("order", "context_length", "batch_size", "n_tokens"):
            if state[name] != mine[name]:
                raise UserError(
                    f"these batches were saved with {name} {state[name]}, here it is {mine[name]}: "
                    "the run cannot go on where it stopped."
                )
        self._random.bit_generator.state = copy.deepcopy(state["generator"])
        self._epoch_state, self._starts = None, np.empty(0, dtype=np.int64)
        if state["epoch_begun"]:
            self._begin_epoch()
        self._cursor = state["cursor"]

    def _next_starts(self) -> np.ndarray:
        if self._order == "random":
            n_places = self._store.n_tokens - self._length
            return self._random.integers(0, n_places, size=self._batch_size)
        found: list[np.ndarray] = []
        missing = self._batch_size
        while missing:
            if self._cursor == len(self._starts):
                self._begin_epoch()
            part = self._starts[self._cursor : self._cursor + missing]
            found.append(part)
            self._cursor += len(part)
            missing -= len(part)
        return np.concatenate(found)

    def _begin_epoch(self) -> None:
        self._epoch_state = self._generator_state()
        spare = self._store.n_tokens - 1 - self._length  # targets beyond the first window's
        offset = int(self._random.integers(0, min(self._length, spare + 1)))
        n_windows = (self._store.n_tokens - 1 - offset) // self._length
        self._starts = offset + self._length * self._random.permutation(n_windows)
        self._cursor = 0

    def _generator_state(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self._random.bit_generator.state))


def evaluation_windows(store: TokenStore, context_length: int, batch_size: int) -> Iterator[Batch]:
    """Consecutive windows of `context_length` targets: every token but the first is a target once.

    The last window is short: padded on the right, its padding not scored. The last batch may have
    fewer rows. Draws nothing, and so disturbs no generator.
    """
    starts = np.arange(0, store.n_tokens - 1, context_length)
    for first in range(0, len(starts), batch_size):
        yield gather_windows(store, starts[first : first + batch_size], context_length)


def gather_windows(store: TokenStore, starts: np.ndarray, length: int) -> Batch:
    """The windows of `length` inputs from `starts` (B,)."""
    places = starts[:, None] + np.arange(length + 1)  # (B, T+1)
    beyond = places >= store.n_tokens
    padded = bool(beyond[-1, -1] or beyond.any())
    windows = store.tokens[np.minimum(places, store.n_tokens - 1) if padded else places]
    windows = windows.astype(np.int64)
    tokens, targets = windows[:, :-1], windows[:, 1:]
    if padded:
        tokens = np.where(beyond[:, :-1], 0, tokens)
        targets = np.where(beyond[:, 1:], NOT_SCORED, targets)
    if store.start_ids:
        targets = np.where(store.only_open(targets), NOT_SCORED, targets)
    if store.end_id is None:
        return Batch(_tensor(tokens), _tensor(targets), None, None)
    documents, positions = _documents(tokens == store.opens_id)
    return Batch(_tensor(tokens), _tensor(targets), _tensor(documents), _tensor(positions))


def _documents(opens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(document_ids, positions) of inputs, given where an `<end>` opens a document (B,T)."""
    documents = np.cumsum(opens, axis=1, dtype=np.int32)
    index = np.arange(opens.shape[1])
    begun = np.maximum.accumulate(np.where(opens, index, 0), axis=1)
    return documents, index - begun


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
