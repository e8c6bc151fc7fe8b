"""The position-wise feed-forward network: each position alone, wide, non-linear, narrow again."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.elementwise import dropout, squared_relu
from budgerigar.layers.linear import Linear
from budgerigar.layers.taps import Taps, tap


def _gelu_tanh(x: Tensor) -> Tensor:
    """Hendrycks & Gimpel 2016, the tanh approximation (GPT-2)."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": _gelu_tanh,
    "silu": F.silu,
    "squared-relu": squared_relu,
    "swiglu": F.silu,
    "geglu": F.gelu,
    "geglu-tanh": _gelu_tanh,
}


class FeedForward(nn.Module):
    """down(activation(up(x))), or down(activation(gate(x)) * up(x)) (Shazeer 2020).

    (B,T,D) -> (B,T,D).
    """

    def __init__(self, config: TransformerConfig, name: str) -> None:
        super().__init__()
        self.name = name
        width = config.ff_width
        self.up = Linear(config.d_model, width, bias=config.ff_bias)
        self.gate = Linear(config.d_model, width, bias=config.ff_bias) if config.gated else None
        self.down = Linear(width, config.d_model, bias=config.ff_bias)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = config.dropout_ff

    def forward(self, x: Tensor, taps: Taps | None = None) -> Tensor:
        up = self.up(x)
        hidden = self.activation(up) if self.gate is None else self.activation(self.gate(x)) * up
        hidden = tap(taps, f"{self.name}.hidden", hidden)
        if self.dropout and self.training:
            hidden = dropout(hidden, self.dropout)
        return tap(taps, f"{self.name}.output", self.down(hidden))
