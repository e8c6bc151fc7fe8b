from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from little_models import END, OnlySteps, by_hand, make_ngram, make_store, store_of

from budgerigar.errors import UserError
from budgerigar.evaluation import evaluate, losses, score_ids
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer


def small_transformer(context_length: int = 8, dropout: float = 0.0) -> Transformer:
    config = TransformerConfig(
        vocab_size=6,
        context_length=context_length,
        d_model=16,
        n_layers=2,
        n_heads=2,
        dropout_residual=dropout,
        init_std=0.3,
    )
    return Transformer(config, seed=1)


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("n", [2, 8, 9, 60])
@pytest.mark.parametrize("window", [1, 2, 7, 200])
def test_an_ngram_by_all_ways(documents: bool, n: int, window: int) -> None:
    store, model = make_store(n, documents), make_ngram()
    for streaming in (False, True):
        nats, best = by_hand(model, store, None if streaming else window)
        for network in (model, OnlySteps(model)):
            found = evaluate(
                network, store, context_length=window, streaming=streaming, batch_size=3
            )
            assert found.n_tokens == n - 1
            assert found.nats == pytest.approx(nats.sum(), rel=1e-6)
            assert found.accuracy == pytest.approx((best == store.tokens[1:]).mean(), abs=1e-9)


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("n", [2, 9, 50])
def test_a_transformer_by_all_ways(documents: bool, streaming: bool, n: int) -> None:
    store, model = make_store(n, documents), small_transformer()
    nats, best = by_hand(model, store, 8, overlap=streaming)
    for network in (model, OnlySteps(model)):
        found = evaluate(network, store, streaming=streaming, batch_size=3)
        assert found.context_length == 8
        assert found.nats == pytest.approx(nats.sum(), rel=1e-5)
        assert found.accuracy == pytest.approx((best == store.tokens[1:]).mean(), abs=1e-9)


def test_a_shorter_window_and_an_odd_one() -> None:
    store, model = make_store(40, False), small_transformer()
    for window in (1, 5):
        for streaming in (False, True):
            nats, _ = by_hand(model, store, window, overlap=streaming)
            found = evaluate(model, store, context_length=window, streaming=streaming)
            assert found.nats == pytest.approx(nats.sum(), rel=1e-5)


def test_measures_by_hand() -> None:
    store = store_of(make_store(101, False).tokens, n_bytes=300, n_characters=150)
    found = evaluate(make_ngram(), store, context_length=20)
    assert found.nats_per_token == found.nats / 100
    assert found.nats_per_character == found.nats / 150
    assert found.bits_per_byte == found.nats / 300 / math.log(2)
    assert found.perplexity == math.exp(found.nats / 100)
    nats, _ = by_hand(make_ngram(), store, 20)
    windows = nats.reshape(5, 20).mean(axis=1)
    assert found.standard_error == pytest.approx(windows.std(ddof=1) / math.sqrt(5), rel=1e-6)
    assert json.loads(json.dumps(found.as_dict()))["n_tokens"] == 100


def test_the_standard_error_knows_the_last_window_is_short() -> None:
    store = make_store(46, False)
    found = evaluate(make_ngram(), store, context_length=20)
    nats, _ = by_hand(make_ngram(), store, 20)
    sums = np.array([nats[:20].sum(), nats[20:40].sum(), nats[40:].sum()])
    off = sums - nats.mean() * np.array([20, 20, 5])
    wanted = math.sqrt(3 / 2 * (off**2).sum()) / 45
    assert found.standard_error == pytest.approx(wanted, rel=1e-6)
    assert evaluate(make_ngram(), store, context_length=100).standard_error is None


@pytest.mark.parametrize("streaming", [False, True])
def test_pieces_may_be_of_any_size(streaming: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    store, ngram, transformer = make_store(90, True), make_ngram(), small_transformer()
    models: list[Any] = [ngram, OnlySteps(ngram), transformer]
    whole = [evaluate(m, store, context_length=8, streaming=streaming) for m in models]
    assert max(rows for rows, _ in models[1].widths) > 2
    models[1].widths.clear()
    monkeypatch.setattr(losses, "NGRAM_TOKENS_AT_ONCE", 17)
    monkeypatch.setattr(losses, "LOGITS_AT_ONCE", 8 * 6 * 2)
    for model, wanted in zip(models, whole, strict=True):
        found = evaluate(model, store, context_length=8, streaming=streaming)
        assert found.nats == pytest.approx(wanted.nats, rel=1e-6)
        assert found.accuracy == wanted.accuracy
    assert max(rows for rows, _ in models[1].widths) == 2


def test_looking_changes_nothing() -> None:
    model, store = small_transformer(dropout=0.5), make_store(40, False)
    model.train()
    model.embedding.eval()
    before = torch.get_rng_state()
    first, second = evaluate(model, store), evaluate(model, store)
    assert first == second
    assert torch.equal(before, torch.get_rng_state())
    assert model.training
    assert not model.embedding.training
    model(torch.tensor([[1, 2, 3]])).sum().backward()
    assert model.embedding.tokens.weight.grad is not None


def test_a_forward_of_ones_own() -> None:
    model, store = small_transformer(), make_store(40, True)
    calls = []

    def forward(tokens: torch.Tensor, **fields: Any) -> torch.Tensor:
        calls.append(sorted(name for name, value in fields.items() if value is not None))
        return 0 * model(tokens, **fields).bfloat16()

    found = evaluate(model, store, forward=forward)
    assert found.nats_per_token == pytest.approx(math.log(6))
    assert calls == [["document_ids", "positions"]]


def test_tokens_never_seen_are_counted_apart() -> None:
    seen = store_of([1, 2, 3, 3]).counts > 0
    store = store_of([1, 4, 1, 5, 2, 4])
    found = evaluate(make_ngram(), store, seen=seen)
    nats, _ = by_hand(make_ngram(), store, 256)
    assert found.n_unseen == 3
    assert found.nats_unseen == pytest.approx(nats[[0, 2, 4]].sum(), rel=1e-6)
    assert evaluate(make_ngram(), store).n_unseen is None


def test_the_default_window_of_a_model_without_one_is_256() -> None:
    assert evaluate(make_ngram(), make_store(600, False)).context_length == 256


def test_mistakes_are_named() -> None:
    model = small_transformer()
    with pytest.raises(UserError, match="at least 2"):
        evaluate(model, store_of([END]))
    with pytest.raises(UserError, match="context_length = 9: windows of this model hold 1 to 8"):
        evaluate(model, make_store(20, False), context_length=9)
    with pytest.raises(UserError, match="context_length = 0"):
        evaluate(make_ngram(), make_store(20, False), context_length=0)
    with pytest.raises(UserError, match="token 7 does not fit"):
        evaluate(model, store_of([1, 7]))


def test_a_model_that_sees_the_answer_has_no_loss_of_the_next_token() -> None:
    config = TransformerConfig(assembly="encoder-only", vocab_size=6, d_model=8, n_heads=2)
    model = Transformer(config)
    for ask in (lambda: evaluate(model, make_store(20, False)), lambda: score_ids(model, [1, 2])):
        with pytest.raises(UserError, match="encoder-only"):
            ask()


def test_a_batch_has_a_row() -> None:
    with pytest.raises(UserError, match="batch_size = 0"):
        evaluate(small_transformer(), make_store(20, False), batch_size=0)
