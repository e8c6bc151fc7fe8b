"""Position encodings against their papers' definitions and transformers' code."""

from __future__ import annotations

import math

import pytest
import torch

from budgerigar.layers.config import RotaryScaling, TransformerConfig
from budgerigar.layers.elementwise import rotate
from budgerigar.layers.positions import (
    Rotary,
    alibi_slopes,
    relative_buckets,
    rotary_frequencies,
    sinusoids,
)


def test_sinusoids_by_equation() -> None:
    table = sinusoids(torch.arange(5), 6)
    for position in range(5):
        for pair in range(3):
            angle = position / 10_000 ** (2 * pair / 6)
            assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    split = sinusoids(torch.arange(5), 6, "split")
    torch.testing.assert_close(split, torch.cat([table[:, 0::2], table[:, 1::2]], -1))


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    rotary = Rotary(TransformerConfig(d_model=16, n_heads=1, rotary_fraction=0.5), 10_000)
    q, k = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)

    def score(query_at: int, key_at: int) -> float:
        turned = []
        for x, at in ((q, query_at), (k, key_at)):
            cosines, sines = rotary.angles(torch.tensor([[at]]))
            turned.append(rotate(x, cosines[:, None], sines[:, None]))
        return float((turned[0] * turned[1]).sum())

    assert score(7, 3) == pytest.approx(score(1007, 1003), abs=1e-4)
    assert score(7, 3) != pytest.approx(score(7, 2), abs=1e-3)


def test_rotary_table_stays_float64_when_the_model_is_cast() -> None:
    rotary = Rotary(TransformerConfig(d_model=16, n_heads=1), 10_000).to(torch.bfloat16)
    assert rotary.frequencies.dtype == torch.float64
    far = torch.tensor([[100_000]])
    want = (100_000 * rotary.frequencies).cos().float()
    torch.testing.assert_close(rotary.angles(far)[0][0, 0], want)


SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}


@pytest.mark.parametrize("kind", SCALINGS)
def test_stretched_frequencies_equal_transformers(kind: str) -> None:
    llama = pytest.importorskip("transformers").LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    settings = SCALINGS[kind]
    theirs = llama(
        hidden_size=64,
        num_attention_heads=2,
        max_position_embeddings=256,
        rope_parameters={"rope_theta": 10_000.0, **settings},
    )
    want, factor = ROPE_INIT_FUNCTIONS[kind](theirs, torch.device("cpu"))
    scaling = RotaryScaling(kind, settings["factor"], 64)  # type: ignore[arg-type]
    config = TransformerConfig(d_model=64, n_heads=2, rotary_scaling=scaling)
    ours, our_factor = rotary_frequencies(config, 10_000.0)
    torch.testing.assert_close(ours.float(), want)
    assert our_factor == pytest.approx(factor)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_buckets_equal_transformers(bidirectional: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    distances = torch.arange(-300, 301)
    ours = relative_buckets(distances, 32, 128, bidirectional)
    theirs = t5._relative_position_bucket(distances, bidirectional, 32, 128)
    assert torch.equal(ours, theirs)


def test_alibi_slopes_as_published() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert len(alibi_slopes(12)) == 12
    assert alibi_slopes(12)[8].item() == pytest.approx(2**-0.5)
