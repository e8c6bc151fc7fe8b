"""Cutting a text into pieces to score: overlapping windows, and where states are reset."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from budgerigar.text.batches import Batch

NOT_SCORED = -100


class TokenSource(Protocol):
    """What is read of a `TokenStore`."""

    @property
    def tokens(self) -> Any:
        """(n,) integers."""
        ...

    @property
    def n_tokens(self) -> int:
        """n."""
        ...

    @property
    def end_id(self) -> int | None:
        """`<end>`, or None for a text without documents."""
        ...


def streaming_windows(store: TokenSource, context_length: int, batch_size: int) -> Iterator[Batch]:
    """Windows that advance by half a context; each target is scored in the first that holds it.

    So every target but those at the very start has at least context_length // 2 tokens before it
    (of its document). Rows are right-padded; targets scored elsewhere or not there are -100.
    """
    windows = _windows(store.n_tokens - 1, context_length, overlapping=True)
    while rows := list(islice(windows, batch_size)):
        yield _batch(store, rows)


def _batch(store: TokenSource, windows: list[tuple[int, int, int]]) -> Batch:
    width = max(stop - begin for begin, _, stop in windows)
    tokens = np.zeros((len(windows), width), dtype=np.int64)
    targets = np.full((len(windows), width), NOT_SCORED, dtype=np.int64)
    for row, (begin, scored, stop) in enumerate(windows):
        tokens[row, : stop - begin] = store.tokens[begin:stop]
        targets[row, scored - begin : stop - begin] = store.tokens[scored + 1 : stop + 1]
    if store.end_id is None:
        return Batch(torch.from_numpy(tokens), torch.from_numpy(targets), None, None)
    ids, positions = document_fields(tokens, store.end_id)
    return Batch(
        torch.from_numpy(tokens),
        torch.from_numpy(targets),
        torch.from_numpy(ids),
        torch.from_numpy(positions),
    )


def document_fields(
    tokens: NDArray[np.int64], end_id: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Which document each input (B, T) belongs to, and its position there; `end_id` opens one."""
    opens = tokens == end_id
    places = np.arange(tokens.shape[1], dtype=np.int64)
    start = np.maximum.accumulate(np.where(opens, places, 0), axis=1)
    return np.cumsum(opens, axis=1, dtype=np.int32), places - start


def segments(
    store: TokenSource, context_length: int | None, overlapping: bool = False
) -> list[tuple[int, int, int]]:
    """Stretches of inputs that a state reads from its start: (begin, first scored, stop).

    Cut at every document, and at every window of `context_length` if one is given; `overlapping`
    windows advance by half, and only what is new in them is scored.
    """
    n_inputs = store.n_tokens - 1
    opens = np.zeros(0, dtype=np.int64)
    if store.end_id is not None:
        opens = np.flatnonzero(np.asarray(store.tokens[:n_inputs]) == store.end_id)
    found: list[tuple[int, int, int]] = []
    for begin, scored, stop in _windows(n_inputs, context_length, overlapping):
        inside = opens[np.searchsorted(opens, begin, "right") : np.searchsorted(opens, stop)]
        edges = [begin, *inside.tolist(), stop]
        pieces = pairwise(edges)
        found += [(a, max(a, scored), b) for a, b in pieces if b > scored]
    return found


def _windows(
    n_inputs: int, length: int | None, overlapping: bool
) -> Iterator[tuple[int, int, int]]:
    """(begin, first scored, stop) of each window over the inputs, documents aside."""
    if length is None:
        yield 0, 0, n_inputs
        return
    stride = max(1, length // 2) if overlapping else length
    begin = scored = 0
    while scored < n_inputs:
        stop = min(begin + length, n_inputs)
        yield begin, scored, stop
        begin, scored = begin + stride, stop
