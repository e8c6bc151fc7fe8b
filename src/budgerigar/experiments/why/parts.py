"""A network without some of its parts, and what its heads look at."""

from __future__ import annotations

import torch
from torch import Tensor

from budgerigar.layers.taps import Taps
from budgerigar.models.transformer import Transformer


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
