"""Corrupted spans: the figure of the paper, sizes, rows of documents, resuming, every token once."""

from __future__ import annotations

import numpy as np
import pytest

from budgerigar.text.batches import NOT_SCORED
from budgerigar.text.fill_in_tokens import CORRUPTED_SPANS, SENTINELS, sentinel_ids
from budgerigar.text.pair_batches import PairBatch, PairBatches
from budgerigar.text.pair_store import store_from_pairs
from budgerigar.text.span_corruption import (
    MixedBatches,
    SpanBatches,
    SpanRule,
    evaluation_spans,
    row_ids,
    span_rule,
    text_rows,
)
from budgerigar.text.store import TokenStore, store_from_documents
from budgerigar.text.tokenizer import Tokenizer
from budgerigar.text.tokenizers import build_tokenizer, draw_sample

END = 99
RULE = SpanRule(tuple(range(100, 200)), END, END)
DOCUMENTS = [f"document {n}: " + "a line of words, and another one. " * (n % 5) for n in range(20)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    sample = draw_sample(DOCUMENTS, 100_000, 0)
    return build_tokenizer(sample, "word", None, end=True, specials=CORRUPTED_SPANS)


@pytest.fixture(scope="module")
def store(tokenizer: Tokenizer) -> TokenStore:
    return store_from_documents(DOCUMENTS, tokenizer)


def test_the_papers_figure() -> None:
    """ "Thank you for inviting me to your party last week ." with two spans (figure 2)."""
    ids = np.arange(11)
    hidden = np.isin(ids, [2, 3, 8])
    source, target = RULE.corrupt(ids, hidden)
    assert source == [0, 1, 100, 4, 5, 6, 7, 101, 9, 10, END]
    assert target == [100, 2, 3, 101, 8, 102, END]


def spans_in(hidden: np.ndarray) -> int:
    return int((np.diff(hidden.astype(int)) == 1).sum() + hidden[0])


@pytest.mark.parametrize("length", [2, 3, 7, 20, 64, 128, 512, 5000])
def test_training_hides_what_a_pass_of_the_evaluation_hides(length: int) -> None:
    random = np.random.default_rng(length)
    counts = RULE.spans_of_passes(length)
    assert counts.sum() == RULE.n_spans(length)
    for _ in range(20):
        hidden = RULE.draw(length, random)
        assert 0 < hidden.sum() < length
        assert counts.min() <= spans_in(hidden) <= counts.max() < len(RULE.sentinels)
    passes = RULE.parts(length, seed=0, row=3)
    found = [spans_in(passes == number) for number in np.unique(passes)]
    assert sorted(found) == sorted(counts.tolist())


def test_in_long_rows_the_share_is_the_papers_and_varies() -> None:
    random = np.random.default_rng(3)
    shares = [RULE.draw(512, random).mean() for _ in range(300)]
    assert np.mean(shares) == pytest.approx(1 / 7, abs=0.01)
    assert np.std(shares) > 0.01


def test_spans_fall_everywhere_and_vary_in_length() -> None:
    random = np.random.default_rng(0)
    drawn = np.array([RULE.draw(40, random) for _ in range(4000)])
    # Both ends can be hidden; in the middle every place is as likely as another.
    assert drawn[:, 0].mean() > 0.02
    assert drawn[:, -1].mean() > 0.02
    middle = drawn[:, 10:30].mean(0)
    assert np.abs(middle - middle.mean()).max() < 0.04
    lengths = []
    for row in drawn[:500]:
        edges = np.flatnonzero(np.diff(np.r_[0, row.astype(int), 0]))
        lengths += (edges[1::2] - edges[::2]).tolist()
    assert np.mean(lengths) == pytest.approx(3, abs=0.3)
    assert {1, 2, 3, 4, 5} <= set(lengths)


def test_nothing_is_lost_between_source_and_target() -> None:
    random = np.random.default_rng(1)
    ids = random.integers(0, 90, 50)
    source, target = RULE.corrupt(ids, RULE.draw(50, random))
    spans: dict[int, list[int]] = {}
    for token in target[:-1]:
        if token >= 100:
            spans[token] = []
        else:
            spans[max(spans)].append(token)
    back = [t for token in source[:-1] for t in (spans[token] if token >= 100 else [token])]
    assert back == ids.tolist()
    assert spans[max(spans)] == []  # the last sentinel says that it was the last


def test_rows_are_pieces_of_documents_and_hold_everything(store: TokenStore) -> None:
    rows = text_rows(store, 8)
    assert rows.lengths.max() <= 8
    found = [t for row in range(len(rows)) for t in row_ids(store, rows, row).tolist()]
    assert store.end_id not in found
    assert found == [t for t in store.tokens.tolist() if t != store.end_id]
    whole = TokenStore(np.arange(100) % 50, 100, 100, None, np.ones(50))
    rows = text_rows(whole, 30)
    assert rows.lengths.tolist() == [25, 25, 25, 25]


def checked(batch: PairBatch, tokenizer: Tokenizer) -> None:
    sentinels = set(sentinel_ids(tokenizer))
    for row in range(len(batch.source)):
        source = batch.source[row, : int(batch.source_lengths[row])].tolist()
        target = [t for t in batch.targets[row].tolist() if t != NOT_SCORED]
        assert source[-1] == target[-1] == tokenizer.end_id
        assert tokenizer.end_id not in source[:-1]
        own = [t for t in source if t in sentinels]
        assert own == sentinel_ids(tokenizer)[: len(own)]
        assert [t for t in target if t in sentinels] == sentinel_ids(tokenizer)[: len(own) + 1]
        assert batch.tokens[row, 0] == tokenizer.end_id
        assert batch.tokens[row, 1 : len(target)].tolist() == target[:-1]


def test_batches_are_pairs_and_go_on_where_they_stopped(
    store: TokenStore, tokenizer: Tokenizer
) -> None:
    rule = span_rule(tokenizer, None)

    def batches() -> SpanBatches:
        return SpanBatches(store, rule, 12, 60, seed=3)

    one, other = batches(), batches()
    for _ in range(9):
        one.next()
    other.load_state_dict(one.state_dict())
    for _ in range(60):
        first, second = one.next(), other.next()
        checked(first, tokenizer)
        assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_a_mixture_keeps_its_share_and_its_place(store: TokenStore, tokenizer: Tokenizer) -> None:
    pairs = store_from_pairs([(f"copy: {n}", f"{n}") for n in range(30)], tokenizer)
    rule = span_rule(tokenizer, None)

    def mixed() -> MixedBatches:
        assert tokenizer.end_id is not None
        tasks = PairBatches(pairs, 60, 3, tokenizer.end_id)
        return MixedBatches(SpanBatches(store, rule, 12, 60, 3), tasks, 0.25, 3)

    one, other = mixed(), mixed()
    first = sentinel_ids(tokenizer)[0]
    drawn = [bool((one.next().source == first).any()) for _ in range(400)]
    assert np.mean(drawn) == pytest.approx(0.75, abs=0.08)
    other.load_state_dict(one.state_dict())
    for _ in range(20):
        assert all((a == b).all() for a, b in zip(one.next(), other.next(), strict=True))


def test_evaluation_hides_every_token_once_and_no_two_spans_touch(
    store: TokenStore, tokenizer: Tokenizer
) -> None:
    rule = span_rule(tokenizer, None)
    special = {*sentinel_ids(tokenizer), tokenizer.end_id, NOT_SCORED}
    counts = np.zeros(tokenizer.vocab_size, dtype=int)
    for batch, _ in evaluation_spans(store, rule, 16, 200, seed=0):
        checked(batch, tokenizer)
        own = [t for t in batch.targets.flatten().tolist() if t not in special]
        counts += np.bincount(own, minlength=tokenizer.vocab_size)
        sentinel = np.isin(batch.source.numpy(), sentinel_ids(tokenizer))
        assert not (sentinel[:, 1:] & sentinel[:, :-1]).any()
    wanted = np.bincount(store.tokens, minlength=tokenizer.vocab_size)
    wanted[tokenizer.end_id] = 0
    assert (counts == wanted).all()


def test_sentinels_have_t5s_names(tokenizer: Tokenizer) -> None:
    assert SENTINELS[0] == "<extra_id_0>"
    assert len(sentinel_ids(tokenizer)) == 100
    assert sentinel_ids(tokenizer)[0] not in tokenizer.encode("a <extra_id_0> b")
