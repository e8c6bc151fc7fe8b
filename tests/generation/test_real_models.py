"""Real models through the loop: alone, in a batch, cached, uncached, and by plain `forward`."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from budgerigar.generation.generate import generate_ids
from budgerigar.generation.overflow import window_length
from budgerigar.generation.sampling import SamplingOptions
from budgerigar.layers.config import LayerPattern, TransformerConfig
from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram import NgramModel
from budgerigar.models.transformer import Transformer

ENDS = [1, 4, 7, 12, 21, 22, 23, 24]
SMALL = {
    "vocab_size": 40,
    "context_length": 24,
    "d_model": 32,
    "n_layers": 2,
    "n_heads": 4,
    "init_std": 0.35,  # lively logits, so that near-ties are rare
}
MODELS = {
    "gpt2": {"positions": "learned", "activation": "gelu-tanh"},
    "llama": {"positions": "rotary", "norm": "rms", "n_kv_heads": 2, "activation": "swiglu"},
    "windowed": {"positions": "rotary", "attention_window": 7, "sink_tokens": 2},
    "mixed": {
        "positions": "alibi",
        "layers": (LayerPattern(attention_window=5), LayerPattern()),
        "sink_logit": True,
    },
    "relative": {"positions": "relative", "norm_place": "post", "attention_softcap": 5.0},
}


@cache
def model(name: str) -> Transformer | NgramModel:
    if name == "ngram":
        tokens = np.random.default_rng(0).integers(0, 12, 3000) ** 2 % 40
        return NgramModel.fit(tokens, NgramConfig(vocab_size=40, order=3))
    return Transformer(TransformerConfig(**SMALL, **MODELS[name]), seed=1).eval()  # type: ignore[arg-type]


def prompts(n: int) -> list[list[int]]:
    rng = np.random.default_rng(2)
    return [rng.integers(0, 40, rng.integers(1, 60)).tolist() for _ in range(n)]


def run(network, lines, options, **settings) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in lines]
    for event in generate_ids(network, lines, options, **settings):
        result[event.request].append(event.token)
    return result


def by_forward(network: Transformer, prompt: list[int], n: int) -> tuple[list[int], list[float]]:
    """Greedy by `forward` over the window, and the gap between the best two logits, per token."""
    tokens, gaps = list(prompt), []
    for _ in range(n):
        window = tokens[-window_length(len(tokens), network.context_length) :]
        with torch.no_grad():
            best = network(torch.tensor([window]))[0, -1].topk(2)
        gaps.append(float(best.values[0] - best.values[1]) / float(best.values.abs().max()))
        tokens.append(int(best.indices[0]))
    return tokens[len(prompt) :], gaps


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_those_of_forward(name: str) -> None:
    network, lines = model(name), prompts(6)
    assert isinstance(network, Transformer)
    options = SamplingOptions(max_new_tokens=40, temperature=0)
    cached = run(network, lines, options)
    assert cached == run(network, lines, options, cached=False)
    for prompt, line in zip(lines, cached, strict=True):
        expected, gaps = by_forward(network, prompt, 40)
        wrong = [i for i, (a, b) in enumerate(zip(line, expected, strict=True)) if a != b]
        assert not wrong, f"token {wrong[0]} differs; the gap there is {gaps[wrong[0]]:.1e}"


@pytest.mark.parametrize("name", ["gpt2", "windowed", "ngram"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_batch_is_invisible(name: str, temperature: float) -> None:
    """64 prompts of many lengths, ending at different times, against each one alone."""
    network, lines = model(name), prompts(64)
    options = SamplingOptions(max_new_tokens=30, temperature=temperature, top_p=0.9, seed=7)
    together = run(network, lines, options, end_ids=ENDS)
    assert len({len(line) for line in together}) > 2
    for i in range(0, 64, 6):
        assert together[i] == run(network, [lines[i]], options, end_ids=ENDS)[0]
    assert together == run(network, lines, options, end_ids=ENDS, cached=False)


def test_ngram_runs_over_any_length() -> None:
    network = model("ngram")
    (line,) = run(network, [[0]], SamplingOptions(max_new_tokens=300, temperature=1))
    assert len(line) == 300


def test_sinks_go_on_for_ever_and_rows_do_not_disturb_each_other() -> None:
    network, lines = model("windowed"), [[1, 2, 3], [5], list(range(20)), [7] * 55]
    options = SamplingOptions(max_new_tokens=70, temperature=0, on_overflow="sinks")
    together = run(network, lines, options)
    assert [len(line) for line in together] == [70] * 4
    assert together == [run(network, [line], options)[0] for line in lines]


def test_sinks_read_a_long_prompt_as_if_it_had_been_generated() -> None:
    network = model("windowed")
    options = SamplingOptions(max_new_tokens=70, temperature=0, on_overflow="sinks")
    (whole,) = run(network, [[1, 2, 3]], options)
    for cut in (20, 21, 22, 40, 60):
        (rest,) = run(network, [[1, 2, 3, *whole[:cut]]], options)
        assert rest[: 70 - cut] == whole[cut:]


def test_sinks_without_sink_tokens_equal_an_unlimited_context() -> None:
    """What a window hides may be dropped: rolling changes nothing that a query can see."""
    dials = {**SMALL, "positions": "rotary", "attention_window": 7, "n_layers": 1}
    short = Transformer(TransformerConfig(**dials), seed=3).eval()  # type: ignore[arg-type]
    long = Transformer(short.config.replace(context_length=500), seed=3).eval()
    options = SamplingOptions(max_new_tokens=100, temperature=0, on_overflow="sinks")
    assert run(short, [[1, 2], [3] * 40], options) == run(long, [[1, 2], [3] * 40], options)


def test_generating_within_inference_mode_leaves_the_network_trainable() -> None:
    network = Transformer(TransformerConfig(**SMALL))  # type: ignore[arg-type]
    run(network, [[1, 2]], SamplingOptions(max_new_tokens=3))
    assert network.training
    network.embedding.eval()  # a part that is frozen stays so
    run(network, [[1, 2]], SamplingOptions(max_new_tokens=3))
    assert network.training
    assert not network.embedding.training
    network(torch.tensor([[1, 2, 3]])).sum().backward()
    assert all(p.grad is not None for p in network.parameters())
