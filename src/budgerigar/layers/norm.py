"""Normalization: LayerNorm (Ba, Kiros & Hinton 2016) and RMSNorm (Zhang & Sennrich 2019)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.elementwise import rms_norm


class Norm(nn.Module):
    """LayerNorm: (x - mean) / sqrt(var + eps) * weight + bias; RMSNorm: no mean, no bias.

    RMSNorm is x / sqrt(mean(x^2) + eps) * weight. Over the last dimension of x (..., width).
    `offset`: the scale is 1 + weight (Gemma).
    """

    def __init__(
        self,
        width: int,
        kind: str = "layer",
        epsilon: float = 1e-5,
        weight: bool = True,
        bias: bool = True,
        offset: bool = False,
    ) -> None:
        super().__init__()
        self.kind, self.epsilon, self.offset, self.width = kind, epsilon, offset, width
        start = torch.zeros(width) if offset else torch.ones(width)
        self.weight = nn.Parameter(start) if weight else None
        self.bias = nn.Parameter(torch.zeros(width)) if bias and kind == "layer" else None

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor | None = self.weight
        if weight is not None and self.offset:
            weight = 1 + weight
        if self.kind == "rms":
            normed = rms_norm(x, self.epsilon)
            return normed if weight is None else normed * weight
        return F.layer_norm(x, (self.width,), weight, self.bias, self.epsilon)


def build_norm(config: TransformerConfig, layer: int = 0, width: int | None = None) -> Norm:
    """The norm that `config` asks for in a layer, over d_model or `width` features."""
    return Norm(
        width or config.d_model,
        config.norm_of(layer),
        config.norm_epsilon,
        config.norm_weight,
        config.norm_bias,
        config.norm_offset,
    )
