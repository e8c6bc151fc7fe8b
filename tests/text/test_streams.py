"""Streams: every row reads on where it stopped, and a copy goes on exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.text.store import TokenStore
from budgerigar.text.streams import StreamBatches

END = 0


def store(n: int = 503, documents: bool = False) -> TokenStore:
    """Each token says its place, but where an `<end>` opens a document."""
    tokens = np.arange(1, n + 1, dtype=np.uint16)
    if documents:
        tokens[np.random.default_rng(1).random(n) < 0.1] = END
        tokens[0] = END
    return TokenStore(
        tokens, n, n, END if documents else None, np.bincount(tokens, minlength=n + 1)
    )


def test_rows_go_on_through_their_own_part_of_the_text_and_nearly_all_of_it_is_read() -> None:
    batches, n = StreamBatches(store(), 16, 4, seed=3), 503
    assert batches.carries
    for _epoch in range(3):
        first = batches.next()
        windows = [first]
        while True:
            state = batches.state_dict()
            batch = batches.next()
            if bool((batch.tokens[:, 0] != windows[-1].targets[:, -1]).all()):
                batches.load_state_dict(state)  # a new epoch
                break
            windows.append(batch)
        rows = torch.cat([w.tokens for w in windows], dim=1)
        assert rows.shape[0] == batches.rows == 4
        assert torch.equal(rows, rows[:, :1] + torch.arange(rows.shape[1]))
        assert len(set(rows.flatten().tolist())) == rows.numel()  # none twice
        assert rows.numel() > n - 16 - 4 * len(windows) - 4
        for window in windows:
            assert torch.equal(window.targets, window.tokens + 1)
            assert window.tokens.shape == first.tokens.shape
            assert window.tokens.shape[1] <= 16
        assert bool((first.positions[:, 0] == 0).all())  # the state of the last epoch is of no use
        assert not any((w.positions == 0).any() for w in windows[1:])


def test_epochs_begin_at_different_places() -> None:
    batches = StreamBatches(store(), 16, 4, seed=3)
    begins = set()
    for _ in range(60):
        batch = batches.next()
        if bool((batch.positions[:, 0] == 0).all()):
            begins.add(int(batch.tokens[0, 0]))
    assert len(begins) > 3


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_positions_say_where_documents_begin_and_where_windows_start_anew(share: float) -> None:
    batches = StreamBatches(store(documents=True), 16, 4, seed=5, reset_share=share)
    resets = total = 0
    for _ in range(60):
        batch = batches.next()
        opens = batch.tokens == END
        begins = batch.positions == 0
        assert bool(begins[opens].all())
        assert not bool((begins & ~opens)[:, 1:].any())
        for row in range(4):  # counted up from the last beginning
            for place in range(1, batch.tokens.shape[1]):
                if not begins[row, place]:
                    assert batch.positions[row, place] == batch.positions[row, place - 1] + 1
        alone = begins[:, 0] & ~opens[:, 0]
        if not bool(begins[:, 0].all()):
            resets, total = resets + int(alone.sum()), total + 4
    if share:
        assert resets / total == pytest.approx(share, abs=0.1)
    else:
        assert resets == 0


@pytest.mark.parametrize("stop", [0, 1, 5, 8, 20])
def test_a_copy_goes_on_with_exactly_the_same_batches(stop: int) -> None:
    def make(seed: int) -> StreamBatches:
        return StreamBatches(store(documents=True), 16, 4, seed=seed, reset_share=0.2)

    one, other = make(7), make(8)
    for _ in range(stop):
        one.next()
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    for _ in range(20):
        a, b = one.next(), other.next()
        assert all(
            torch.equal(getattr(a, n), getattr(b, n)) for n in ("tokens", "targets", "positions")
        )


def test_other_settings_cannot_go_on() -> None:
    state = StreamBatches(store(), 16, 4, seed=1).state_dict()
    with pytest.raises(UserError, match="reset_share"):
        StreamBatches(store(), 16, 4, seed=1, reset_share=0.5).load_state_dict(state)
    with pytest.raises(UserError, match="order"):
        StreamBatches(store(), 16, 4, seed=1).load_state_dict({**state, "order": "random"})


@pytest.mark.parametrize(("n", "rows"), [(2, 1), (3, 2), (5, 4), (9, 4), (70, 4)])
def test_any_text_of_two_tokens_or_more_streams(n: int, rows: int) -> None:
    batches = StreamBatches(store(n), 16, 4, seed=1)
    assert batches.rows == rows
    for _ in range(10):
        batch = batches.next()
        assert len(batch.tokens) == rows
        assert torch.equal(batch.targets, batch.tokens + 1)
    with pytest.raises(UserError, match="2 tokens"):
        StreamBatches(store(1), 16, 4, seed=1)
