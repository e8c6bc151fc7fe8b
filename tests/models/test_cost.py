"""Counts from shapes, against published counts and against a network that was really built."""

from __future__ import annotations

import pytest

from budgerigar.layers.config import TransformerConfig
from budgerigar.models import build
from budgerigar.models.cost import cost
from budgerigar.models.papers import paper_config, papers

# Counted by others on the published weights (Hugging Face's `num_parameters`); GPT-3 from its shape.
PUBLISHED = {
    "bert-base": 109_514_298,
    "gpt2-1.5b": 1_557_611_200,
    "llama-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name: str) -> None:
    assert cost(paper_config(name)).parameters == PUBLISHED[name]


def test_gpt3_has_174_6_billion() -> None:
    assert round(cost(paper_config("gpt3-175b")).parameters / 1e9, 1) == 174.6


def test_every_paper_is_valid() -> None:
    for name in papers():
        paper_config(name)


def test_a_real_network_agrees() -> None:
    config = TransformerConfig(vocab_size=50, d_model=32, n_layers=2, n_heads=4, n_kv_heads=2)
    found = cost(config)
    network = build(config)
    assert found.parameters == sum(p.numel() for p in network.parameters())
    assert sum(found.parts.values()) == found.parameters


def test_cache_by_hand() -> None:
    config = TransformerConfig(
        vocab_size=9, d_model=16, n_layers=3, n_heads=4, n_kv_heads=2, context_length=10
    )
    # 2 (key, value) x 2 kv heads x 4 wide x 2 bytes = 32 per layer and token
    assert cost(config).cache_bytes_per_token == 3 * 32
    assert cost(config).cache_bytes == 10 * 3 * 32
    assert cost(config.replace(attention_window=4)).cache_bytes == 4 * 3 * 32


def test_flops_by_hand() -> None:
    config = TransformerConfig(
        vocab_size=10,
        d_model=8,
        n_layers=1,
        n_heads=2,
        d_ff=16,
        context_length=4,
        qkv_bias=False,
        output_bias=False,
        ff_bias=False,
    )
    matrices = 4 * 8 * 8 + 2 * 8 * 16 + 10 * 8  # attention, feed-forward, the tied output layer
    seen = (1 + 2 + 3 + 4) / 4  # keys that a query sees, on average
    assert cost(config).flops_per_token == pytest.approx(2 * matrices + 4 * 8 * seen)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "fused"),
        ({"attention_softcap": 30.0}, "step by step"),
        ({"positions": "relative"}, "fused; step by step in training"),
        ({"dropout_attention": 0.1}, "fused; step by step in training"),
    ],
)
def test_which_path_runs(change: dict[str, object], words: str) -> None:
    assert cost(TransformerConfig(**change)).attention.startswith(words)  # type: ignore[arg-type]
