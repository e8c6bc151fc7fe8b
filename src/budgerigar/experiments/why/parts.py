"""Small networks for made-up words, without some of their parts, and what their heads look at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.taps import Taps
from budgerigar.models.transformer import Transformer


def for_words(n_words: int, length: int, d_model: int, **more: Any) -> TransformerConfig:
    """The configuration of a network for texts of `length` made-up words; more: its other fields.

    Its matrices are drawn so that what reads a vector of unit spread gives one, whatever the width.
    """
    settings: dict[str, Any] = {
        "vocab_size": n_words,
        "context_length": length,
        "d_model": d_model,
        "tied_embeddings": False,
        "initialisation": "normal",
        "init_std": d_model**-0.5,
    }
    return TransformerConfig(**{**settings, **more})


def without_feed_forward(network: Transformer) -> Transformer:
    """The same network (a stack of encoder or decoder blocks) with its feed-forwards set to add 0."""
    stack = network.encoder or network.decoder
    assert stack is not None
    with torch.no_grad():
        for block in stack.blocks():
            for parameter in block.feed_forward.parameters():
                parameter.zero_().requires_grad_(False)
    return network


@torch.inference_mode()
def attention_weights(network: Transformer, tokens: Tensor) -> list[Tensor]:
    """Tokens (B,T) -> the weights (B,H,T,T) of each layer's self-attention."""
    same = {"*.self_attention.scores": lambda scores: scores}  # else the fused kernel keeps them
    taps = Taps(["*.self_attention.weights"], same)
    network(tokens, taps=taps)
    return list(taps.values.values())
