"""Counts from shapes against built models, published figures, and torch's own FLOP counter."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from budgerigar.errors import UserError
from budgerigar.layers import shapes
from budgerigar.layers.config import LayerPattern, RotaryScaling, TransformerConfig
from budgerigar.models import ancestor_card, rnn_card
from budgerigar.models.ancestor_configs import FeedForwardConfig, RecurrentConfig
from budgerigar.models.card import card, paper_card
from budgerigar.models.configs import NgramConfig
from budgerigar.models.papers import paper, papers
from budgerigar.models.transformer import Transformer

DIALS = {
    "assembly": ["decoder-only", "encoder-only", "encoder-decoder"],
    "positions": ["sinusoidal", "learned", "rotary", "relative", "alibi", "none"],
    "relative_shared": [True, False],
    "norm": ["layer", "rms"],
    "norm_weight": [True, False],
    "norm_bias": [True, False],
    "norm_place": ["pre", "post", "sandwich", "output"],
    "final_norm": [None, True, False],
    "parallel_residual": [False, True],
    "n_kv_heads": [None, 2, 1],
    "d_head": [None, 6],
    "qk_norm": ["none", "head", "full"],
    "sink_logit": [False, True],
    "activation": ["gelu", "swiglu"],
    "qkv_bias": [True, False],
    "output_bias": [True, False],
    "ff_bias": [True, False],
    "head_bias": [False, True],
    "tied_embeddings": [True, False],
    "shared_embeddings": [True, False],
    "source_vocab_size": [None, 17],
    "embedding_norm": [False, True],
    "embedding_size": [None, 10],
    "head_transform": [False, True],
    "token_head": [True, False],
    "pooler": [False, True],
    "token_types": [0, 2],
    "position_offset": [0, 2],
    "layers": [(), (LayerPattern(norm="rms"), LayerPattern(), LayerPattern(norm="layer"))],
    "n_encoder_layers": [None, 3],
    "n_decoder_layers": [None, 1],
}
SMALL = {"vocab_size": 23, "context_length": 12, "d_model": 16, "n_layers": 2, "n_heads": 4}


def covering_sample(assembly: str, n: int) -> list[TransformerConfig]:
    """Random valid combinations; together they hold every valid pair of settings of two dials."""
    rng, found = random.Random(assembly), []
    while len(found) < n:
        dials = {name: rng.choice(values) for name, values in DIALS.items()}
        config = TransformerConfig(**SMALL, **{**dials, "assembly": assembly})
        for _ in range(40):  # mend what validate() complains about, one dial at a time
            problems = config.problems()
            if not problems:
                found.append(config)
                break
            named = [name for name in DIALS if any(name in p for p in problems)]
            name = rng.choice([n for n in named if n != "assembly"])
            config = config.replace(**{name: rng.choice(DIALS[name])})
    return found


@pytest.mark.parametrize("assembly", DIALS["assembly"])
def test_parameters_are_those_of_the_built_model(assembly: str) -> None:
    sample = covering_sample(assembly, 60)
    for config in sample:
        built = sum(p.numel() for p in Transformer(config).parameters())
        assert shapes.parameters(config).total == built, config
    for name, other in itertools.combinations(["positions", "norm_place", "qk_norm"], 2):
        pairs = {(getattr(c, name), getattr(c, other)) for c in sample}
        assert len(pairs) >= 0.8 * len(DIALS[name]) * len(DIALS[other])


def test_parts_are_those_of_the_built_model() -> None:
    config = TransformerConfig(
        **SMALL, positions="learned", head_bias=True, tied_embeddings=False, qk_norm="head"
    )
    counted = shapes.parameters(config)
    built = {name: p.numel() for name, p in Transformer(config).named_parameters()}

    def total(*words: str) -> int:
        return sum(n for name, n in built.items() if any(word in name for word in words))

    assert counted.token_embedding == total("embedding.tokens")
    assert counted.position_embedding == total("embedding.positions")
    assert counted.attention == total("self_attention")
    assert counted.feed_forward == total("feed_forward.")
    assert counted.head == total("head.")
    assert counted.norms == total("attention_norm", "feed_forward_norm", "final_norm")


@pytest.mark.parametrize(
    ("name", "count"),
    [  # parameters of the published weights; tied matrices once
        ("gpt2-124m", 124_439_808),
        ("gpt2-355m", 354_823_168),
        ("gpt2-774m", 774_030_080),
        ("gpt2-1558m", 1_557_611_200),
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
        ("smollm2-135m", 134_515_008),
        ("bert-base", 109_514_298),
        ("t5-small", 60_506_624),
    ],
)
def test_published_models_have_their_published_number_of_parameters(name: str, count: int) -> None:
    assert shapes.parameters(paper(name).config).total == count


def test_gpt3_by_hand() -> None:
    d, layers = 12288, 96
    per_layer = 12 * d * d + 13 * d  # four projections, two of four times the width, biases, norms
    total = layers * per_layer + (50257 + 2048) * d + 2 * d
    assert shapes.parameters(paper("gpt3-175b").config).total == total
    assert round(total / 1e9, 1) == 174.6


@pytest.mark.parametrize("name", papers())
def test_every_paper_has_a_valid_shape_a_source_and_a_card(name: str) -> None:
    found = paper(name)
    assert found.source
    text = paper_card(name).text()
    assert found.source in text
    config = found.config
    if isinstance(config, TransformerConfig):
        counted = shapes.parameters(config).total
    else:
        ancestor = isinstance(config, FeedForwardConfig | RecurrentConfig)
        counted = sum((ancestor_card if ancestor else rnn_card).parameters(config).values())
    assert f"{counted:,}" in text


def test_transformer_base_and_big_are_near_the_papers_figures() -> None:
    for name, published in (("transformer-base", 65e6), ("transformer-big", 213e6)):
        assert shapes.parameters(paper(name).config).total == pytest.approx(published, rel=0.04)


def counted_flops(network: Transformer, *inputs: torch.Tensor, **more: torch.Tensor) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(*inputs, **more)
    return counter.get_total_flops()


@pytest.mark.parametrize(
    "dials",
    [
        {},
        {"n_kv_heads": 2, "activation": "swiglu", "tied_embeddings": False},
        {"d_head": 6, "embedding_size": 10},
        {"assembly": "encoder-only", "head_transform": True},
        {"assembly": "encoder-decoder", "n_kv_heads": 1, "n_decoder_layers": 1},
    ],
)
def test_flops_of_matrices_are_those_torch_counts(dials: dict[str, object]) -> None:
    """torch counts scores of all pairs, also masked ones; ours of the visible ones: 2-fold less."""
    config = TransformerConfig(**{**SMALL, **dials, "attention_softcap": 9.0})  # type: ignore[arg-type]
    network, n = Transformer(config).eval(), 12
    tokens = torch.zeros(1, n, dtype=torch.long)
    pair = config.assembly == "encoder-decoder"
    counted = counted_flops(network, tokens, **({"source": tokens} if pair else {}))
    ours = shapes.flops_per_token(config, n)
    depth = config.encoder_layers + config.decoder_layers * (2 if pair else 1)
    all_pairs = shapes.attention_flops(config, n, depth)
    assert counted == n * (ours.matrices + all_pairs)
    assert ours.attention <= all_pairs
    assert ours.training == 3 * ours.forward


def test_mean_visible_by_counting() -> None:
    for window, sinks in ((None, 0), (3, 0), (3, 2), (5, 1), (12, 0), (40, 3)):
        config = TransformerConfig(**SMALL, attention_window=window, sink_tokens=sinks)  # type: ignore[arg-type]
        n = 12
        seen = sum(
            1
            for q in range(n)
            for k in range(q + 1)
            if window is None or k > q - window or k < sinks
        )
        assert shapes.mean_visible(config, 0, n) == pytest.approx(seen / n)


def test_cache_bytes_are_those_of_a_state() -> None:
    config = TransformerConfig(**{**SMALL, "context_length": 64}, n_kv_heads=2)  # type: ignore[arg-type]
    network = Transformer(config).eval()
    with torch.no_grad():
        _, state = network.step(torch.zeros(3, 64, dtype=torch.long), network.start(3))
    assert state.nbytes == 3 * shapes.cache_bytes(config, 64)


def test_known_caches() -> None:
    assert shapes.cache_bytes_per_token(paper("smollm2-135m").config) == 46_080
    assert shapes.cache_bytes_per_token(paper("llama-3-8b").config, 2) == 128 * 1024
    assert shapes.cache_bytes_per_token(paper("llama-2-7b").config, 2) == 512 * 1024


def test_activation_memory_is_about_what_autograd_keeps() -> None:
    for dials in ({}, {"activation": "swiglu", "norm": "rms", "n_kv_heads": 2}):
        config = TransformerConfig(
            vocab_size=64, context_length=32, d_model=64, n_layers=6, **dials
        )
        network, seen = Transformer(config), {}

        def keep(tensor: torch.Tensor, seen: dict[int, int] = seen) -> torch.Tensor:
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        weights = {p.untyped_storage().data_ptr() for p in network.parameters()}
        tokens = torch.zeros(8, 32, dtype=torch.long)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            logits = network(tokens)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        kept = sum(size for at, size in seen.items() if at not in weights)
        del loss
        assert 4 * 8 * 32 * shapes.activation_values_per_token(config) == pytest.approx(
            kept, rel=0.5
        )


def test_attention_path_is_the_one_that_runs() -> None:
    cases = [
        ({}, True, True),
        ({"attention_softcap": 5.0}, False, False),
        ({"dropout_attention": 0.1}, True, False),
        ({"positions": "relative"}, True, False),
        ({"positions": "alibi"}, True, True),
        ({"sink_logit": True}, True, False),
    ]
    for dials, running, training in cases:
        config = TransformerConfig(**SMALL, **dials)  # type: ignore[arg-type]
        assert shapes.attention_path(config, training=False)[0] == running
        assert shapes.attention_path(config, training=True)[0] == training
        network = Transformer(config)
        assert network.decoder is not None
        block = next(network.decoder.blocks())
        bias = next((p for n, p in network.named_parameters() if "relative" in n), None)
        assert block.self_attention.explicit(bias) != training
        network.eval()
        with torch.no_grad():
            assert block.self_attention.explicit(bias) != running


def test_card_of_a_small_model_reads_well() -> None:
    config = TransformerConfig(
        **SMALL,
        n_kv_heads=2,
        attention_window=4,
        sink_tokens=1,
        rotary_scaling=RotaryScaling("linear", 2.0),
    )
    shown = card(config, "mine")
    text = shown.text()
    assert "2 at a time share keys and values" in text
    assert "sees only the last 4, besides the first 1" in text
    assert json.loads(json.dumps(shown.as_dict()))["parameters"]["total"] > 0
    assert all(len(line) < 120 for line in text.splitlines())


def test_card_of_an_ngram_and_of_nothing() -> None:
    assert "5-gram" in card(NgramConfig(order=5)).text()
    with pytest.raises(UserError, match="gpt3-175b"):
        paper("gpt5")
    with pytest.raises(UserError, match="n_heads"):
        card(TransformerConfig(n_heads=0))


def test_card_needs_no_torch() -> None:
    code = (
        "import sys; from budgerigar.models.card import paper_card; paper_card('gpt3-175b').text();"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
