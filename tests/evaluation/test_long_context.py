"""Long contexts and large vocabularies: nothing is computed for padding, nothing takes gigabytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from budgerigar.evaluation import evaluate, losses
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.store import TokenStore

V, END = 50, 49
TINY: dict[str, Any] = {
    "vocab_size": V, "d_model": 16, "n_layers": 1, "n_heads": 2, "positions": "rotary", "init_std": 0.3,
}  # fmt: skip


def store_of(n: int, documents: bool = False) -> TokenStore:
    tokens = np.random.default_rng(0).integers(0, V - 1, n)
    if documents:
        tokens[::17] = END
    counts = np.bincount(tokens, minlength=V)
    return TokenStore(tokens, n, n, END if documents else None, counts)


class Watched(Transformer):
    """Notes how large what it reads is."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, seed=0)
        self.read: list[tuple[int, int]] = []
        self.answered: list[int] = []

    def vectors(self, tokens: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        self.read.append((tokens.shape[0], tokens.shape[1]))
        return super().vectors(tokens, *given, **named)

    def read_out(self, vectors: torch.Tensor) -> torch.Tensor:
        self.answered.append(len(vectors))
        return super().read_out(vectors)


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_short_text_costs_what_it_is_long(documents: bool, streaming: bool) -> None:
    network = Watched(TransformerConfig(**TINY, context_length=8192))
    store = store_of(40, documents)
    found = evaluate(network, store, streaming=streaming)
    assert network.read == [(1, 39)]
    assert found.context_length == 8192
    small = Transformer(TransformerConfig(**TINY, context_length=39), seed=0)
    assert found.nats == pytest.approx(evaluate(small, store).nats, rel=1e-6)


def test_the_last_window_is_as_long_as_what_is_left() -> None:
    network = Watched(TransformerConfig(**TINY, context_length=64))
    evaluate(network, store_of(64 + 10 + 1), batch_size=1)
    assert network.read == [(1, 64), (1, 10)]


@pytest.mark.parametrize("documents", [False, True])
def test_logits_are_made_some_at_a_time(documents: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(500, documents)
    config = TransformerConfig(**TINY, context_length=64)
    whole = evaluate(Watched(config), store)
    monkeypatch.setattr(losses, "LOGITS_IN_PARTS", 7 * V)
    network = Watched(config)
    parts = evaluate(network, store)
    assert max(network.answered) == 7
    assert parts.nats == pytest.approx(whole.nats, rel=1e-6)
    assert (parts.n_tokens, parts.accuracy) == (whole.n_tokens, whole.accuracy)
    # the same as one pass with all logits
    plain = evaluate(network, store, forward=network)
    assert plain.nats == pytest.approx(whole.nats, rel=1e-6)


def test_fewer_windows_at_a_time_where_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TransformerConfig(**TINY, context_length=64)
    network = Watched(config)
    evaluate(network, store_of(641))
    assert network.read == [(10, 64)]
    monkeypatch.setattr(losses, "ACTIVATIONS_AT_ONCE", 3 * 64 * 4 * (8 * 16 + 3 * config.ff_width))
    network = Watched(config)
    evaluate(network, store_of(641))
    assert network.read == [(3, 64)] * 3 + [(1, 64)]
