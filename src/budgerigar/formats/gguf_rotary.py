"""Rotary positions in GGUF's metadata: base, scaling, and Llama 3's divisors, which are a tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from budgerigar.formats.families.values import Values
from budgerigar.formats.gguf_file import GgufFile
from budgerigar.layers.config import RotaryScaling, TransformerConfig
from budgerigar.layers.positions import rotary_frequencies

FREQUENCIES = "rope_freqs.weight"


def rotary_from(v: Values, file: GgufFile, width: int) -> tuple[RotaryScaling | None, float]:
    """(scaling, base) of heads that are `width` wide; what has no dial is refused in `v`."""
    base = v.number("rope.freq_base", 10_000.0)
    if FREQUENCIES in file.entries:
        return _from_divisors(v, file, width, base), base
    kind = v.text("rope.scaling.type", "linear" if "rope.scale_linear" in v else "none")
    if kind == "none":
        return None, base
    if kind not in ("linear", "yarn"):
        v.refuse(f"rope.scaling.type = {kind!r}: known here are none, linear, yarn")
        return None, base
    factor = v.number("rope.scaling.factor", v.number("rope.scale_linear", 1.0))
    context = v.whole("context_length")
    original = v.whole("rope.scaling.original_context_length", context)
    if factor in (0.0, 1.0):
        return None, base
    scaling = RotaryScaling("linear", factor, original)
    if kind == "linear":
        return scaling, base
    v.unless("rope.scaling.yarn_log_multiplier", 0.0, "this form of yarn is not known here")
    scaling = replace(
        scaling,
        kind="yarn",
        beta_fast=v.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=v.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    extra = v.number("rope.scaling.attn_factor", 1.0)
    if extra != 1.0:  # times what yarn has by itself
        usual = rotary_frequencies(_heads(width, scaling), base)[1]
        scaling = replace(scaling, attention_factor=extra * usual)
    return scaling, base


def _heads(width: int, scaling: RotaryScaling | None) -> TransformerConfig:
    """A model with heads of that width, to ask for frequencies."""
    return TransformerConfig(n_heads=1, d_model=width, rotary_scaling=scaling)


def divisors(scaling: RotaryScaling, width: int, base: float) -> torch.Tensor:
    """What the plain frequencies are divided by, (width / 2,) float32."""
    if scaling.kind == "longrope":  # as they are, to the last bit
        return torch.tensor(scaling.long_factors)
    plain = rotary_frequencies(_heads(width, None), base)[0]
    return (plain / rotary_frequencies(_heads(width, scaling), base)[0]).float()


def _from_divisors(v: Values, file: GgufFile, width: int, base: float) -> RotaryScaling | None:
    """Llama 3's scaling, known by its divisors; any others as they are."""
    found = file.get(FREQUENCIES).flatten()
    if len(found) != width // 2 or not bool((found > 0).all()) or not bool(found.isfinite().all()):
        v.refuse(f"{FREQUENCIES} holds {len(found)} divisors, and {width // 2} above 0 are needed")
        return None
    return _scaling_of(found, v.whole("context_length"), width, base)


def _scaling_of(found: torch.Tensor, context_length: int, width: int, base: float) -> RotaryScaling:
    """What the reader makes of divisors (width / 2,)."""
    for original in (8192, context_length):
        scaling = RotaryScaling("llama3", float(found.max()), original)
        if scaling.factor >= 1 and torch.allclose(divisors(scaling, width, base), found, rtol=1e-4):
            return scaling
    return _by_divisors(found, context_length)


def _by_divisors(found: torch.Tensor, context_length: int) -> RotaryScaling:
    """LongRoPE with the same divisors within and beyond a context."""
    factors = tuple(found.tolist())
    return RotaryScaling(
        "longrope",
        original_context_length=context_length,
        attention_factor=1.0,
        short_factors=factors,
        long_factors=factors,
    )


def as_stored(config: TransformerConfig) -> TransformerConfig:
    """The same model as a file can say it, which has one set of divisors and no word on their kind:
    with those of LongRoPE that hold in it alone, and of Llama 3 with what they are known by."""
    scaling = config.rotary_scaling
    if config.positions != "rotary" or scaling is None:
        return config
    if scaling.kind == "llama3":
        width, base = config.head_width, config.rotary_base
        found = divisors(scaling, width, base)
        return config.replace(rotary_scaling=_scaling_of(found, config.context_length, width, base))
    if scaling.kind != "longrope":
        return config
    if rotary_frequencies(config, config.rotary_base)[1] != 1.0:
        return config  # cosines and sines are scaled, which has no counterpart
    longer = config.context_length > scaling.original_context_length
    factors = torch.tensor(scaling.long_factors if longer else scaling.short_factors)
    return config.replace(rotary_scaling=_by_divisors(factors, config.context_length))


def rotary_metadata(config: TransformerConfig) -> dict[str, Any]:
    """Keys (without the architecture's prefix) for our scaling. Llama 3's and LongRoPE's divisors are
    a tensor instead; what has no counterpart is left out, for the comparison to find."""
    scaling = config.rotary_scaling
    if scaling is None or scaling.kind not in ("linear", "yarn"):
        return {}
    values: dict[str, Any] = {
        "rope.scaling.type": scaling.kind,
        "rope.scaling.factor": float(scaling.factor),
        "rope.scaling.original_context_length": scaling.original_context_length,
    }
    if scaling.kind == "yarn":
        values |= {
            "rope.scaling.yarn_beta_fast": float(scaling.beta_fast),
            "rope.scaling.yarn_beta_slow": float(scaling.beta_slow),
        }
        if scaling.attention_factor is not None:
            usual = rotary_frequencies(
                _heads(config.head_width, replace(scaling, attention_factor=None)),
                config.rotary_base,
            )[1]
            values["rope.scaling.attn_factor"] = scaling.attention_factor / usual
    return values
