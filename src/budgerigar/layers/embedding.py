"""From token ids to vectors, and from vectors to logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.elementwise import dropout
from budgerigar.layers.feed_forward import ACTIVATIONS
from budgerigar.layers.linear import Linear, product
from budgerigar.layers.norm import build_norm
from budgerigar.layers.packed_linear import PackedEmbedding, PackedMatrix
from budgerigar.layers.positions import sinusoids
from budgerigar.layers.taps import Taps, tap


def _table(rows: int, width: int) -> nn.Embedding:
    """A table of rows; one without memory, to be filled from a file, draws no first values: torch would
    import its compiler for that, a second of every load."""
    if torch.get_default_device().type == "meta":
        return nn.Embedding(rows, width, _weight=torch.empty(rows, width))
    return nn.Embedding(rows, width)


class Embedding(nn.Module):
    """Token embedding, scaled, plus positions and token types. ids (B,T) -> (B,T,D)."""

    def __init__(self, config: TransformerConfig, name: str, vocab_size: int) -> None:
        super().__init__()
        self.name = name
        width = config.embedding_size or config.d_model
        self.tokens: nn.Embedding | PackedEmbedding = _table(vocab_size, width)
        self.projection = (
            Linear(width, config.d_model, bias=False) if config.embedding_size else None
        )
        self.positions: nn.Embedding | None = None
        if config.positions == "learned":
            rows = config.context_length + config.position_offset
            self.positions = _table(rows, width)
        self.types = _table(config.token_types, width) if config.token_types else None
        self.norm = build_norm(config, width=width) if config.embedding_norm else None
        scale = config.embedding_scale
        self.scale = width**0.5 if scale == "sqrt" else 1.0 if scale == "none" else float(scale)
        self.layout = config.sinusoid_layout if config.positions == "sinusoidal" else None
        self.offset, self.dropout = config.position_offset, config.dropout_embedding

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        token_types: Tensor | None = None,
        taps: Taps | None = None,
    ) -> Tensor:
        """tokens (B,T), positions (B|1,T)."""
        x = self.tokens(tokens)
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(positions + self.offset)
        if self.layout is not None:
            x = x + sinusoids(positions, x.shape[-1], self.layout).to(x.dtype)
        if self.types is not None:
            x = x + (self.types.weight[0] if token_types is None else self.types(token_types))
        if self.norm is not None:
            x = self.norm(x)
        if self.dropout and self.training:
            x = dropout(x, self.dropout)
        if self.projection is not None:
            x = self.projection(x)
        return tap(taps, f"{self.name}.embedding", x)


class Head(nn.Module):
    """From vectors (B,T,D) to logits (B,T,V) in float32. A tied head borrows the embedding's matrix."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.embedding_size or config.d_model
        self.tied, self.scale, self.softcap = (
            config.tied_embeddings,
            config.head_scale,
            config.logit_softcap,
        )
        self.transform: nn.Linear | None = None
        self.transform_norm = None
        if config.head_transform:  # BERT: dense, activation, norm
            self.transform = Linear(config.d_model, width)
            self.transform_norm = build_norm(config, width=width)
            self.activation = ACTIVATIONS[config.activation]
        elif config.embedding_size:
            self.transform = Linear(config.d_model, width, bias=False)
        self.weight = None if self.tied else nn.Parameter(torch.zeros(config.vocab_size, width))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.head_bias else None
        self.packed: PackedMatrix | None = None  # a quantised matrix of its own, in place of weight

    def forward(self, x: Tensor, embedding: Embedding) -> Tensor:
        if self.transform is not None:
            x = self.transform(x)
            if self.transform_norm is not None:
                x = self.transform_norm(self.activation(x))
        logits = self._over_vocabulary(x, embedding).float()
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.softcap is not None:
            logits = self.softcap * (logits / self.softcap).tanh()
        return logits

    def _over_vocabulary(self, x: Tensor, embedding: Embedding) -> Tensor:
        """x (..., D) times the matrix (V,D) of its own or the embedding's, quantised or not."""
        table = embedding.tokens
        packed = table.matrix if self.tied and isinstance(table, PackedEmbedding) else self.packed
        if packed is not None:
            return packed.product(x, self.bias)
        return product(x, table.weight if self.weight is None else self.weight, self.bias)
