from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.text.batches import Batch, WindowBatches, evaluation_windows
from budgerigar.text.store import TokenStore

END = 0


def stream(n: int, end_id: int | None = None) -> TokenStore:
    tokens = np.arange(n, dtype=np.uint16)
    return TokenStore(tokens, n, n, end_id, np.bincount(tokens))


def with_documents() -> TokenStore:
    tokens = np.array([END, 5, 6, END, 7, END, 8, 9, 4, END], dtype=np.uint16)
    return TokenStore(tokens, 10, 10, END, np.bincount(tokens))


def same(a: Batch, b: Batch) -> bool:
    return all(
        x is y is None or (x is not None and y is not None and torch.equal(x, y))
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("order", ["random", "shuffled"])
def test_targets_are_the_next_tokens(order: str) -> None:
    batches = WindowBatches(stream(1000), 7, 4, seed=0, order=order)
    for _ in range(100):
        batch = batches.next()
        assert batch.tokens.shape == batch.targets.shape == (4, 7)
        assert batch.tokens.dtype == batch.targets.dtype == torch.int64
        assert torch.equal(batch.targets, batch.tokens + 1)
        assert torch.equal(batch.tokens, batch.tokens[:, :1] + torch.arange(7))
        assert batch.document_ids is batch.positions is None


def test_random_windows_reach_every_place() -> None:
    batches = WindowBatches(stream(20), 8, 50, seed=1)
    starts = {int(x) for _ in range(20) for x in batches.next().tokens[:, 0]}
    assert starts == set(range(12))  # the last window's last target is the last token


@pytest.mark.parametrize("n", [101, 107, 11])
def test_an_epoch_holds_each_window_once(n: int) -> None:
    length = 10
    batches = WindowBatches(stream(n), length, 1, seed=2, order="shuffled")
    offsets = set()
    for _ in range(100):
        first = int(batches.next().tokens[0, 0])
        offset = first % length
        n_windows = (n - 1 - offset) // length
        starts = {first, *(int(batches.next().tokens[0, 0]) for _ in range(n_windows - 1))}
        assert starts == set(range(offset, offset + n_windows * length, length))
        offsets.add(offset)
    assert len(offsets) == min(length, n - length)


@pytest.mark.parametrize("order", ["random", "shuffled"])
@pytest.mark.parametrize("n_before", [0, 1, 2, 7, 40])
def test_going_on_gives_the_same_batches(order: str, n_before: int) -> None:
    def new(seed: int) -> WindowBatches:
        return WindowBatches(stream(200), 9, 4, seed=seed, order=order)

    batches = new(3)
    for _ in range(n_before):
        batches.next()
    state = json.loads(json.dumps(batches.state_dict()))
    resumed = new(99)
    resumed.load_state_dict(state)
    for i in range(40):
        assert same(batches.next(), resumed.next())
        if i == 10:  # evaluation in between changes nothing
            list(evaluation_windows(stream(200), 9, 4))
    assert batches.state_dict() == resumed.state_dict()
    assert not same(new(3).next(), new(4).next())


def test_other_settings_are_refused() -> None:
    state = WindowBatches(stream(200), 9, 4, seed=0).state_dict()
    with pytest.raises(UserError, match="context_length 9, here it is 8"):
        WindowBatches(stream(200), 8, 4, seed=0).load_state_dict(state)
    with pytest.raises(UserError, match="n_tokens"):
        WindowBatches(stream(201), 9, 4, seed=0).load_state_dict(state)


def test_text_shorter_than_the_context() -> None:
    WindowBatches(stream(10), 9, 2, seed=0, order="shuffled").next()
    with pytest.raises(UserError, match="needs a text of 11, and this one has 10"):
        WindowBatches(stream(10), 10, 2, seed=0)


def test_evaluation_scores_each_token_but_the_first_once() -> None:
    for n in (2, 9, 10, 11, 12, 31):
        batches = list(evaluation_windows(stream(n), 10, 2))
        targets = torch.cat([batch.targets for batch in batches])
        assert targets[targets >= 0].tolist() == list(range(1, n))
        tokens = torch.cat([batch.tokens for batch in batches])
        assert torch.equal(tokens[targets >= 0] + 1, targets[targets >= 0])
        assert tokens.shape[1] == 10
        assert len(tokens) == -(-(n - 1) // 10)


def test_documents_and_positions_restart_at_end_inputs() -> None:
    # One window of all ten tokens' nine inputs, by hand.
    (batch,) = evaluation_windows(with_documents(), 9, 4)
    assert batch.document_ids is not None
    assert batch.positions is not None
    assert batch.tokens.tolist() == [[0, 5, 6, 0, 7, 0, 8, 9, 4]]
    assert batch.targets.tolist() == [[5, 6, 0, 7, 0, 8, 9, 4, 0]]
    assert batch.document_ids.tolist() == [[1, 1, 1, 2, 2, 3, 3, 3, 3]]
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1, 0, 1, 2, 3]]
    assert batch.document_ids.dtype == torch.int32
    # A window that starts inside a document counts from its own start.
    second = next(iter(evaluation_windows(with_documents(), 4, 4)))
    assert second.document_ids is not None
    assert second.positions is not None
    assert second.tokens[1].tolist() == [7, 0, 8, 9]
    assert second.document_ids[1].tolist() == [0, 1, 1, 1]
    assert second.positions[1].tolist() == [0, 0, 1, 2]


def test_wrong_settings() -> None:
    with pytest.raises(UserError, match="order"):
        WindowBatches(stream(10), 2, 2, seed=0, order="sorted")
    with pytest.raises(UserError, match="at least 1"):
        WindowBatches(stream(10), 0, 2, seed=0)
