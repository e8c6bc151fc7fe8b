"""Configurations: derived values, files, and problems told all at once."""

from __future__ import annotations

import json
import math

import pytest

from budgerigar.errors import UserError
from budgerigar.layers.config import LayerPattern, RotaryScaling, TransformerConfig


def test_derived_values() -> None:
    config = TransformerConfig(d_model=96, n_heads=6, activation="swiglu")
    assert (config.head_width, config.kv_heads, config.ff_width) == (16, 6, 256)
    assert config.scale == 0.25
    assert TransformerConfig(norm_place="post").has_final_norm is False
    both = TransformerConfig(assembly="encoder-decoder", n_layers=3, n_decoder_layers=1)
    assert (both.encoder_layers, both.decoder_layers) == (3, 1)


def test_dictionary_and_back_through_json() -> None:
    config = TransformerConfig(
        layers=(LayerPattern(attention_window=8), LayerPattern(attention_window=0)),
        attention_window=4,
        rotary_scaling=RotaryScaling("longrope", 2.0, 128, None, short_factors=(1.0,) * 16),
    )
    values = json.loads(json.dumps(config.to_dict()))
    assert "d_ff" not in values
    assert TransformerConfig.from_dict(values) == config
    assert [config.window_of(i) for i in range(3)] == [8, None, 8]


def test_all_problems_at_once() -> None:
    config = TransformerConfig(d_model=30, n_heads=4, sink_tokens=2, norm_place="post")
    with pytest.raises(UserError) as caught:
        config.replace(parallel_residual=True, position_offset=2).validate()
    message = str(caught.value)
    for word in ("d_model = 30", "sink_tokens", "parallel_residual", "position_offset"):
        assert word in message


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"d_modle": 3}, "no setting 'd_modle'"),
        ({"d_model": "wide"}, "a whole number"),
        ({"positions": "rotray"}, "sinusoidal"),
        ({"residual": 1}, "true or false"),
        ({"attention_scale": "root"}, "sqrt"),
        ({"layers": [{"window": 3}]}, "no setting 'window'"),
    ],
)
def test_wrong_names_and_types(values: dict, word: str) -> None:
    with pytest.raises(UserError, match=word):
        TransformerConfig.from_dict(values)


@pytest.mark.parametrize(
    "dials",
    [
        {"n_heads": 6, "n_kv_heads": 4, "d_model": 12},
        {"rotary_fraction": 0.01},
        {"positions": "sinusoidal", "d_model": 15, "n_heads": 1},
        {"assembly": "encoder-only", "attention_window": 4},
        {"n_encoder_layers": 2},
        {"dropout_ff": 1.0},
        {"pooler": True},
        {"token_head": False},
        {"assembly": "encoder-only", "token_head": False, "head_transform": True},
        {"assembly": "encoder-only", "token_head": False, "head_bias": True},
        {"dropout_source": 0.1, "output_bias": False},
        {"dropout_source": 0.1, "assembly": "encoder-decoder"},
        {"context_length": 0},
        {"n_layers": 10**8},
        {"rotary_scaling": RotaryScaling("longrope")},
        {"rotary_scaling": RotaryScaling(), "positions": "alibi"},
    ],
)
def test_combinations_without_meaning(dials: dict) -> None:
    assert TransformerConfig(**dials).problems()


def test_the_default_is_valid() -> None:
    assert TransformerConfig().validate() == TransformerConfig()


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({"positions": "rotery"}, "rotary"),
        ({"assembly": "decoder"}, "decoder-only"),
        ({"norm": "rmsnorm"}, "rms"),
        ({"activation": "swish"}, "swiglu"),
        ({"attention_scale": "sqr"}, "sqrt"),
        ({"d_model": "16"}, "whole number"),
        ({"n_layers": True}, "whole number"),
        ({"layers": (LayerPattern(norm="batch"),)}, "layers: norm"),  # type: ignore[arg-type]
        ({"rotary_scaling": RotaryScaling("stretch", 2.0)}, "linear"),  # type: ignore[arg-type]
    ],
)
def test_wrong_names_and_types_in_a_configuration_made_by_hand(dials: dict, words: str) -> None:
    """A misspelt option must not quietly build another model."""
    with pytest.raises(UserError, match=words):
        TransformerConfig(**dials).validate()


@pytest.mark.parametrize(
    "dials",
    [
        {"attention_softcap": math.inf},
        {"logit_softcap": math.inf},
        {"embedding_scale": math.nan},
        {"attention_scale": -1.0},
        {"layers": (LayerPattern(attention_window=-3),)},
        {"layers": (LayerPattern(rotary_base=0.0),)},
        {"rotary_scaling": RotaryScaling("linear", 0.0)},
        {"rotary_scaling": RotaryScaling("llama3", 2.0, high_frequency_factor=1.0)},
        {"rotary_scaling": RotaryScaling("yarn", 2.0), "rotary_base": 1.0},
        {"positions": "relative", "relative_buckets": 32, "relative_max_distance": 16},
        {"positions": "sinusoidal", "embedding_size": 9},
        {"attention_window": 3, "sink_tokens": 8, "context_length": 8},
    ],
)
def test_numbers_that_would_make_no_numbers(dials: dict) -> None:
    with pytest.raises(UserError):
        TransformerConfig(**dials).validate()


def test_sinusoids_have_the_width_of_the_embedding() -> None:
    config = TransformerConfig(positions="sinusoidal", d_model=15, n_heads=3, embedding_size=8)
    assert config.validate() is config


def test_damaged_values_are_named() -> None:
    for values in ({"layers": 3}, {"layers": ["window"]}, {"rotary_scaling": "yarn"}):
        with pytest.raises(UserError, match="must be"):
            TransformerConfig.from_dict(values)
