"""Cutting a text into pieces to score: overlapping windows, and where states are reset."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np
import torch

from budgerigar.text.batches import NOT_SCORED, Batch, gather_windows
from budgerigar.text.store import TokenStore


def streaming_windows(store: TokenStore, context_length: int, batch_size: int) -> Iterator[Batch]:
    """Windows that advance by half a context; each target is scored in the first that holds it.

    So every target but those at the very start has at least context_length // 2 tokens before it
    (of its document). Rows are right-padded; targets scored elsewhere or not there are -100.
    """
    windows = _windows(store.n_tokens - 1, context_length, overlapping=True)
    while rows := list(islice(windows, batch_size)):
        begins = np.array([begin for begin, _, _ in rows])
        batch = gather_windows(store, begins, context_length)
        done = torch.tensor([[scored - begin] for begin, scored, _ in rows])
        early = torch.arange(context_length) < done
        yield batch._replace(targets=batch.targets.masked_fill(early, NOT_SCORED))


def segments(
    store: TokenStore, context_length: int | None, overlapping: bool = False
) -> list[tuple[int, int, int]]:
    """Stretches of inputs that a state reads from its start: (begin, first scored, stop).

    Cut at every document, and at every window of `context_length` if one is given; `overlapping`
    windows advance by half, and only what is new in them is scored.
    """
    n_inputs = store.n_tokens - 1
    opens = np.zeros(0, dtype=np.int64)
    if store.end_id is not None:
        opens = np.flatnonzero(np.asarray(store.tokens[:n_inputs]) == store.opens_id)
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
