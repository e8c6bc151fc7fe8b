"""Batches of pairs: every pair once an epoch, within the budget, the same after resuming."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.text.batches import Batch
from budgerigar.text.pair_batches import (
    PADDING,
    PairBatch,
    PairBatches,
    evaluation_pairs,
    gather_pairs,
    pad_rows,
)
from budgerigar.text.pair_store import PairStore, TokenLines

END, SOURCE_END, START = 1, 2, 5


def made_store(n: int, seed: int = 0, longest: int = 30) -> PairStore:
    """Random ids 10 to 999; lengths of a pair's sides go together, 0 included."""
    rng = np.random.default_rng(seed)
    source = np.minimum(rng.poisson(11, n) + rng.integers(0, 3, n) - 1, longest).clip(0)
    target = np.minimum(np.rint(source * rng.normal(1.1, 0.15, n)), longest).clip(0)
    sides = []
    for lengths in (source, target.astype(np.int64)):
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        sides.append(TokenLines(rng.integers(10, 1000, offsets[-1]).astype(np.uint16), offsets))
    ones = np.ones(n, dtype=np.int64)
    return PairStore(sides[0], sides[1], ones, ones, END, SOURCE_END)


def rows_of(batch: PairBatch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(source, target) of each row, with `<end>` and without padding."""
    found = []
    for source, length, targets in zip(
        batch.source, batch.source_lengths, batch.targets, strict=True
    ):
        found.append((tuple(source[:length].tolist()), tuple(targets[targets != -100].tolist())))
    return found


def wanted_rows(store: PairStore) -> Counter:
    return Counter(
        ((*source.tolist(), SOURCE_END), (*target.tolist(), END))
        for source, target in zip(store.source, store.target, strict=True)
    )


def test_a_batch_by_hand() -> None:
    source = TokenLines(np.array([11, 12, 13]), np.array([0, 2, 3]))
    target = TokenLines(np.array([21, 22, 23]), np.array([0, 0, 3]))
    one = np.ones(2, dtype=np.int64)
    store = PairStore(source, target, one, one, END, SOURCE_END)
    batch = gather_pairs(store, np.array([0, 1]), START)
    assert batch.source.tolist() == [[11, 12, SOURCE_END], [13, SOURCE_END, PADDING]]
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.tokens.tolist() == [[START, 0, 0, 0], [START, 21, 22, 23]]
    assert batch.targets.tolist() == [[END, -100, -100, -100], [21, 22, 23, END]]
    assert {tensor.dtype for tensor in batch} == {torch.int64}
    assert set(batch.inputs()) == {"tokens", "source", "source_lengths"}


def test_running_text_has_inputs_too() -> None:
    batch = Batch(torch.zeros(1, 2), torch.ones(1, 2), None, None)
    assert list(batch.inputs()) == ["tokens", "document_ids", "positions"]


def one_epoch(batches: PairBatches, n_pairs: int) -> list[PairBatch]:
    found: list[PairBatch] = []
    while sum(len(batch.tokens) for batch in found) < n_pairs:
        found.append(batches.next())
    return found


def same(one: PairBatch, other: PairBatch) -> bool:
    return all(map(torch.equal, one, other))


@pytest.mark.parametrize("pool", [1, 4, 128])
def test_every_pair_once_an_epoch_within_the_budget(
    pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budgerigar.text.bucketing._POOL_BATCHES", pool)
    store = made_store(700)
    batches = PairBatches(store, 256, seed=3, start_id=START)
    assert batches.n_pairs == 700
    assert batches.left_out == 0
    orders = []
    for epoch in range(3):
        found = one_epoch(batches, 700)
        assert batches.epoch == epoch
        for batch in found:
            assert max(batch.source.numel(), batch.targets.numel()) <= 256
            assert batch.source.shape[1] == batch.source_lengths.max()
            assert (batch.tokens[:, 0] == START).all()
        orders.append([row for batch in found for row in rows_of(batch)])
        assert Counter(orders[-1]) == wanted_rows(store)
    assert orders[0] != orders[1] != orders[2]
    other = PairBatches(store, 256, seed=4, start_id=START)
    assert [row for batch in one_epoch(other, 700) for row in rows_of(batch)] != orders[0]


def test_batches_come_in_mixed_lengths() -> None:
    found = one_epoch(PairBatches(made_store(3000), 512, seed=0, start_id=START), 3000)
    widths = np.array([batch.targets.shape[1] for batch in found])
    assert abs(np.corrcoef(widths[:-1], widths[1:])[0, 1]) < 0.3


@pytest.mark.parametrize("pool", [2, 128])
def test_going_on_from_anywhere_gives_the_same_batches(
    pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budgerigar.text.bucketing._POOL_BATCHES", pool)
    store = made_store(150)
    batches = PairBatches(store, 128, seed=8, start_id=START)
    states, found = [], []
    for _ in range(60):  # more than two epochs
        states.append(json.loads(json.dumps(batches.state_dict())))
        found.append(batches.next())
    assert batches.epoch >= 2
    for at in range(0, 52, 3):
        again = PairBatches(store, 128, seed=8, start_id=START)
        again.next()
        again.load_state_dict(states[at])
        assert again.state_dict() == states[at]
        assert all(same(again.next(), batch) for batch in found[at : at + 8])


def test_going_on_with_other_pairs_is_refused() -> None:
    state = PairBatches(made_store(50), 128, seed=1, start_id=START).state_dict()
    for store, budget, seed in ((made_store(51), 128, 1), (made_store(50), 64, 1)):
        with pytest.raises(UserError, match="cannot go on"):
            PairBatches(store, budget, seed, START).load_state_dict(state)
    with pytest.raises(UserError, match="seed"):
        PairBatches(made_store(50), 128, 2, START).load_state_dict(state)


def test_no_global_generator_is_used() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    batches = PairBatches(made_store(50), 128, seed=1, start_id=START)
    batches.next()
    list(evaluation_pairs(made_store(50), 128, START))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_too_long_pairs_are_left_out_and_counted() -> None:
    store = made_store(400)
    fits = store.within(12, 14)
    batches = PairBatches(store, 256, seed=0, start_id=START, max_source=12, max_target=14)
    assert batches.left_out == int((~fits).sum()) > 50
    rows = [row for batch in one_epoch(batches, batches.n_pairs) for row in rows_of(batch)]
    assert Counter(rows) == wanted_rows(store.subset(np.flatnonzero(fits)))
    tight = PairBatches(store, 8, seed=0, start_id=START)
    assert tight.left_out == int((~store.within(8, 8)).sum())
    assert all(max(b.source.numel(), b.targets.numel()) <= 8 for b in one_epoch(tight, 20))


def test_nothing_that_fits_is_an_error() -> None:
    long = made_store(400).subset(np.flatnonzero(~made_store(400).within(None, 9)))
    with pytest.raises(UserError, match=r"not one of .* the target's 9\).*the shortest has"):
        PairBatches(long, 256, 0, START, max_target=9)
    with pytest.raises(UserError, match="no pair to train on"):
        PairBatches(long.subset([]), 256, 0, START)
    with pytest.raises(UserError, match="at least 1"):
        PairBatches(long, 0, 0, START)


def test_a_line_of_10_000_tokens() -> None:
    store = made_store(30)
    offsets = store.source.offsets.copy()
    offsets[8:] += 10_000
    tokens = np.insert(store.source.tokens, store.source.offsets[8], np.full(10_000, 7, np.uint16))
    long = PairStore(
        TokenLines(tokens, offsets),
        store.target,
        store.line_bytes,
        store.line_characters,
        END,
        SOURCE_END,
    )
    batches = PairBatches(long, 4096, 0, START)
    assert batches.left_out == 1
    assert sum(len(b.tokens) for b in one_epoch(batches, 29)) == 29
    whole = PairBatches(long, 20_000, 0, START)
    assert max(b.source.numel() for b in one_epoch(whole, 30)) <= 20_000
    sizes = [len(rows) for _, rows in evaluation_pairs(long, 256, START)]
    assert sum(sizes) == 30
    assert 1 in sizes


def test_evaluation_reads_every_pair_once() -> None:
    store = made_store(300)
    seen: list[int] = []
    for batch, rows in evaluation_pairs(store, 128, START):
        assert max(batch.source.numel(), batch.targets.numel()) <= 128
        for row, (source, target) in zip(rows.tolist(), rows_of(batch), strict=True):
            assert source == (*store.source[row].tolist(), SOURCE_END)
            assert target == (*store.target[row].tolist(), END)
        seen += rows.tolist()
    assert sorted(seen) == list(range(300))
    assert list(evaluation_pairs(store.subset([]), 128, START)) == []


@pytest.mark.parametrize(("budget", "most"), [(1024, 0.05), (4096, 0.1)])
def test_little_is_padding(budget: int, most: float) -> None:
    store = made_store(8000)
    found = one_epoch(PairBatches(store, budget, 0, START), 8000)
    filled = store.n_tokens + store.n_source_tokens
    padded = sum(batch.source.numel() + batch.targets.numel() for batch in found)
    assert 1 - filled / padded < most


def test_pad_rows() -> None:
    assert pad_rows([[1, 2], [], [3]]).tolist() == [[1, 2], [0, 0], [3, 0]]
    assert pad_rows([[1], [2, 3]], -100).tolist() == [[1, -100], [2, 3]]
    assert pad_rows([]).shape == (0, 0)
