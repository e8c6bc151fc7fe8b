"""Where a token stands: sinusoids, rotary angles, relative bias, ALiBi.

Learned positions are an embedding table and live with the embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from budgerigar.layers.config import RotaryScaling, TransformerConfig


def sinusoids(positions: Tensor, width: int, layout: str = "interleaved") -> Tensor:
    """Sinusoidal encodings (Vaswani et al. 2017, section 3.5). positions (...,) -> (..., width).

    Pair i turns with wavelength 2 pi 10000^(2i/width). "interleaved": sin, cos, sin, cos, ...;
    "split": all sines, then all cosines (Marian).
    """
    pair = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None].float() * torch.exp(pair * (-math.log(10_000.0) / width))
    if layout == "split":
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def rotary_frequencies(config: TransformerConfig, base: float) -> tuple[Tensor, float]:
    """Radians per position of each pair (rotary_width / 2,), and the factor on cosines and sines.

    Su et al. 2021, equation 15, stretched as `config.rotary_scaling` asks.
    """
    width = config.rotary_width
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    frequencies = base**-exponents
    scaling = config.rotary_scaling
    if scaling is None:
        return frequencies, 1.0
    if scaling.kind == "linear":
        return frequencies / scaling.factor, scaling.attention_factor or 1.0
    if scaling.kind == "ntk":
        stretched = base * scaling.factor ** (width / (width - 2)) if width > 2 else base
        return stretched**-exponents, scaling.attention_factor or 1.0
    if scaling.kind == "yarn":
        return _yarn(frequencies, base, width, scaling)
    if scaling.kind == "llama3":
        return _llama3(frequencies, scaling), scaling.attention_factor or 1.0
    return _longrope(frequencies, config.context_length, scaling)


def _yarn(
    frequencies: Tensor, base: float, width: int, scaling: RotaryScaling
) -> tuple[Tensor, float]:
    """Peng et al. 2023: interpolate slow pairs, keep fast ones, blend between; temper the scores."""

    def pair_with(turns: float) -> float:
        wavelength_ratio = scaling.original_context_length / (turns * 2 * math.pi)
        return width * math.log(wavelength_ratio) / (2 * math.log(base))

    low = max(math.floor(pair_with(scaling.beta_fast)), 0)
    high = min(math.ceil(pair_with(scaling.beta_slow)), width - 1)
    ramp = (torch.arange(width // 2, dtype=torch.float64) - low) / max(high - low, 0.001)
    interpolated = ramp.clamp(0, 1)
    blended = frequencies / scaling.factor * interpolated + frequencies * (1 - interpolated)
    factor = scaling.attention_factor
    if factor is None:
        factor = 0.1 * math.log(scaling.factor) + 1.0 if scaling.factor > 1 else 1.0
    return blended, factor


def _llama3(frequencies: Tensor, scaling: RotaryScaling) -> Tensor:
    """Llama 3.1: wavelengths beyond the trained context are interpolated, short ones are kept."""
    context = scaling.original_context_length
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    turns = context * frequencies / (2 * math.pi)  # within the original context
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies / scaling.factor * (1 - smooth) + frequencies * smooth


def _longrope(
    frequencies: Tensor, context_length: int, scaling: RotaryScaling
) -> tuple[Tensor, float]:
    """Ding et al. 2024. The model's context decides which factors hold, once and for every call:
    choosing by the length at hand would give a cached token other angles than an uncached one.
    """
    original = scaling.original_context_length
    longer = context_length > original
    factors = torch.tensor(scaling.long_factors if longer else scaling.short_factors)
    factor = scaling.attention_factor
    if factor is None:
        ratio = context_length / original
        factor = math.sqrt(1 + math.log(ratio) / math.log(original)) if longer else 1.0
    return frequencies / factors.double(), factor


class Rotary(nn.Module):
    """Turns pairs (i, i + width/2) of queries and keys by position times the pair's frequency."""

    frequencies: Tensor

    def __init__(self, config: TransformerConfig, base: float) -> None:
        super().__init__()
        with torch.device("cpu"):  # computed, not loaded: also where weights have no memory yet
            frequencies, self.factor = rotary_frequencies(config, base)
        self.width = config.rotary_width
        self.register_buffer("frequencies", frequencies.double(), persistent=False)

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines (..., T, width/2) for positions (..., T).

        Products are taken in float64: at position 100,000 float32 is off by a hundredth of a turn.
        """
        turned = positions[..., None].to(self.frequencies.dtype) * self.frequencies
        return (turned.cos() * self.factor).float(), (turned.sin() * self.factor).float()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        """Move with the model, but stay float64 when the model is cast (MPS has float32 only)."""
        device = fn(torch.zeros(1, device=self.frequencies.device)).device
        kind = torch.float32 if device.type == "mps" else torch.float64
        self.frequencies = self.frequencies.to(device, kind)
        return self


def relative_buckets(
    distances: Tensor, n_buckets: int, max_distance: int, bidirectional: bool
) -> Tensor:
    """T5's bucket of each key position minus query position (Raffel et al. 2020, section 2.1).

    Half of the buckets are exact distances, the rest grow logarithmically up to max_distance.
    Bidirectional: the upper half of the buckets is for keys after the query.
    """
    buckets = torch.zeros_like(distances)
    if bidirectional:
        n_buckets //= 2
        buckets = (distances > 0).long() * n_buckets
        distances = distances.abs()
    else:
        distances = -distances.clamp(max=0)
    exact = n_buckets // 2
    ratio = torch.log(distances.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (ratio * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
    return buckets + torch.where(distances < exact, distances, far)


class RelativeBias(nn.Module):
    """A learned number per bucket and head, added to the scores. -> (B|1,H,T,S)."""

    def __init__(self, config: TransformerConfig, bidirectional: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(config.relative_buckets, config.n_heads))
        self.max_distance, self.bidirectional = config.relative_max_distance, bidirectional

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distances = key_positions[:, None, :] - query_positions[:, :, None]
        buckets = relative_buckets(
            distances, self.weight.shape[0], self.max_distance, self.bidirectional
        )
        return self.weight[buckets].permute(0, 3, 1, 2)


def alibi_slopes(n_heads: int) -> Tensor:
    """A slope per head (Press et al. 2021): 2^(-8/n), 2^(-16/n), ...

    Between powers of two: those of the lower power, then every other one of the higher.
    """

    def powers(n: int) -> list[float]:
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]

    nearest = 2 ** math.floor(math.log2(n_heads))
    extra = powers(2 * nearest)[0::2][: n_heads - nearest]
    return torch.tensor(powers(nearest) + extra)


def alibi_bias(slopes: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Minus slope times distance: (H,), (B|1,T), (B|1,S) -> (B|1,H,T,S)."""
    distances = (key_positions[:, None, :] - query_positions[:, :, None]).abs().float()
    return -slopes[None, :, None, None] * distances[:, None]
