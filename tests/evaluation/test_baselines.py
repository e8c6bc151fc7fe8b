from __future__ import annotations

import math

import numpy as np
import pytest
from little_models import make_store, store_of

from budgerigar.evaluation import baselines, evaluate
from budgerigar.evaluation.baselines import best_ngram, choose_ngram
from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram import NgramModel
from budgerigar.models.ngram_counter import NgramCounter
from budgerigar.text.store import TokenStore


def patterned(n: int, seed: int, documents: bool = False) -> TokenStore:
    """Text in which three tokens before decide most of the next one."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 5, n)
    for i in range(3, n):
        if rng.random() < 0.7:
            tokens[i] = (tokens[i - 1] + 2 * tokens[i - 2] + 3 * tokens[i - 3]) % 5
    if documents:
        tokens[::40] = 0
    return store_of(tokens, 0 if documents else None, vocab_size=5)


@pytest.mark.parametrize("documents", [False, True])
def test_all_lines(documents: bool) -> None:
    train, validation = patterned(6000, 1, documents), patterned(700, 2, documents)
    found = baselines(train, validation, context_length=32)
    assert list(found) == [
        "uniform",
        "unigram",
        "bigram",
        "order-4 n-gram",
        "order-4 n-gram, streaming",
    ]
    assert found["uniform"] == math.log(5)

    def loss(order: int, smoothing: str, streaming: bool = False) -> float:
        config = NgramConfig(5, order, smoothing)  # type: ignore[arg-type]
        model = NgramModel.fit(train.tokens, config, train.end_id)
        return evaluate(model, validation, context_length=32, streaming=streaming).nats_per_token

    assert found["unigram"] == pytest.approx(loss(1, "witten-bell"), rel=1e-12)
    assert found["bigram"] == pytest.approx(loss(2, "witten-bell"), rel=1e-12)
    all_orders = {order: loss(order, "kneser-ney") for order in range(3, 8)}
    assert min(all_orders, key=lambda order: all_orders[order]) == 4
    assert found["order-4 n-gram"] == pytest.approx(all_orders[4], rel=1e-12)
    streaming = loss(4, "kneser-ney", streaming=True)
    assert found["order-4 n-gram, streaming"] == pytest.approx(streaming, rel=1e-12)
    assert streaming < all_orders[4]


def test_one_order_is_enough() -> None:
    store = patterned(500, 3)
    for order in (1, 2, 5):
        model = best_ngram(NgramCounter(store.tokens, 5), store.tokens, [order])
        alone = NgramModel.fit(store.tokens, NgramConfig(5, order))
        assert model.config.order == order
        np.testing.assert_array_equal(model.score(store.tokens)[0], alone.score(store.tokens)[0])


def test_long_texts_are_counted_in_part_and_it_is_said() -> None:
    found = baselines(patterned(3000, 1), patterned(300, 2), max_tokens=2000)
    assert found["uniform"] == math.log(5)
    assert "bigram (first 0.002 M tokens)" in found
    assert sum("streaming (first 0.002 M tokens)" in name for name in found) == 1


@pytest.mark.parametrize("documents", [False, True])
def test_an_ngram_is_chosen_on_the_end_of_the_training_text(documents: bool) -> None:
    store = patterned(6000, 1, documents)
    assert choose_ngram(store, context_length=32) == NgramConfig(5, 4, "kneser-ney")
    tokens = np.asarray(store.tokens)
    begin, end = tokens[:5400], tokens[5400:]  # a document opens at 5,400, a multiple of 40

    def loss(order: int, smoothing: str) -> float:
        config = NgramConfig(5, order, smoothing)  # type: ignore[arg-type]
        model = NgramModel.fit(begin, config, store.end_id)
        return evaluate(model, store_of(end, store.end_id, vocab_size=5), context_length=32).nats

    tried = {(n, s): loss(n, s) for n in range(1, 9) for s in ("kneser-ney", "witten-bell")}
    assert min(tried, key=lambda one: tried[one]) == (4, "kneser-ney")


def test_noise_needs_no_context_and_a_few_tokens_are_enough() -> None:
    noise = store_of(np.random.default_rng(1).integers(0, 5, 3000), None, vocab_size=5)
    assert choose_ngram(noise).order == 1
    for n in (1, 2, 5, 15):
        assert choose_ngram(make_store(n, True)).order >= 1


def test_tiny_texts() -> None:
    found = baselines(make_store(3, True), make_store(2, True))
    assert all(math.isfinite(value) for value in found.values())
