"""From the vectors of a text's tokens to one vector, and from that to logits of classes.

Shapes: B texts, T positions, D d_model, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.elementwise import dropout
from budgerigar.layers.linear import Linear


def mean_of(vectors: Tensor, lengths: Tensor | None) -> Tensor:
    """The mean (B,D) of each row's real vectors (B,T,D); `lengths` (B,): how many are real."""
    if lengths is None:
        return vectors.mean(1)
    real = torch.arange(vectors.shape[1], device=vectors.device)[None] < lengths[:, None]
    total = vectors.masked_fill(~real[..., None], 0.0).sum(1)
    return total / lengths.clamp(min=1)[:, None]


class ClassHead(nn.Module):
    """One linear layer from the vector of a text (B,D) to logits (B,C) in float32."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dropout = config.dropout_residual
        self.output = Linear(config.d_model, config.n_classes)

    def forward(self, vector: Tensor) -> Tensor:
        if self.dropout and self.training:
            vector = dropout(vector, self.dropout)
        logits: Tensor = self.output(vector)
        return logits.float()
