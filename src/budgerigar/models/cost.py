"""What a Transformer costs, from shapes alone: parameters, memory, cache, arithmetic.

The network is built on torch's `meta` device, which has shapes and no memory, so that the count is
that of the real model, whatever its dials, and a model of any size can be counted.

FLOPs count a multiplication and an addition as two. Shapes: T positions, H heads, E d_head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from budgerigar.layers.config import TransformerConfig


@dataclass(frozen=True)
class Cost:
    """Counts for one configuration."""

    parameters: int
    parts: dict[str, int]
    """parameters by part: embedding, attention, feed-forward, norms, head"""
    cache_bytes_per_token: int
    """keys and values of one token in all decoder layers, bfloat16"""
    cache_bytes: int
    """of a full context, bfloat16 (windowed layers keep their window only)"""
    flops_per_token: float
    """forward pass, mean over the positions of a full context; training takes about 3 times it"""
    attention: str
    """how attention is computed here: fused, or step by step and why"""


def cost(config: TransformerConfig) -> Cost:
    """Count a configuration (validated)."""
    from budgerigar.models.transformer import Transformer

    with torch.device("meta"):
        network = Transformer(config)
    parts: dict[str, int] = {}
    products = 0  # parameters that multiply every token (matrices, not look-ups)
    for name, parameter in network.named_parameters():  # tied tensors are listed once
        part = _part(name)
        parts[part] = parts.get(part, 0) + parameter.numel()
        if parameter.dim() == 2 and part not in ("embedding", "positions"):
            products += parameter.numel()
    if config.tied_embeddings:
        products += config.vocab_size * (config.embedding_size or config.d_model)
    per_token, full = _cache(config)
    return Cost(
        parameters=sum(parts.values()),
        parts=parts,
        cache_bytes_per_token=per_token,
        cache_bytes=full,
        flops_per_token=2.0 * products + _attention_flops(config),
        attention=_path(config),
    )


def _part(name: str) -> str:
    if "attention_norm" in name or "_norm" in name or ".norm" in name:
        return "norms"
    if "attention" in name:
        return "attention"
    if "feed_forward" in name:
        return "feed-forward"
    return "head" if name.startswith("head") else "embedding"


def _windows(config: TransformerConfig) -> list[int]:
    """How many positions each decoder layer keeps, at most."""
    windows = [config.window_of(layer) for layer in range(config.decoder_layers)]
    longest = config.context_length
    return [min(w + config.sink_tokens, longest) if w else longest for w in windows]


def _cache(config: TransformerConfig) -> tuple[int, int]:
    """Bytes of keys and values per token, and for a full context, in bfloat16 (2 bytes)."""
    layer = 2 * config.kv_heads * config.head_width * 2
    return layer * config.decoder_layers, layer * sum(_windows(config))


def _attention_flops(config: TransformerConfig) -> float:
    """Scores and weighted values per token: 2 products of H x E x visible keys, 2 FLOPs each."""
    width = config.n_heads * config.head_width
    seen = 0.0
    for keys in _windows(config):
        # a causal query at position t sees t + 1 keys until the window is full
        full = max(0, config.context_length - keys)
        growing = config.context_length - full
        seen += (growing * (growing + 1) / 2 + full * keys) / config.context_length
    seen += config.encoder_layers * config.context_length
    return 4.0 * width * seen


def _path(config: TransformerConfig) -> str:
    if config.attention_softcap is not None:
        return "step by step: the soft-cap rules out the fused kernel"
    slow = []
    if config.positions == "relative":
        slow.append("a learned position bias")
    if config.dropout_attention:
        slow.append("dropout on attention weights")
    if config.sink_logit:
        slow.append("a learned sink")
    return f"fused; step by step in training ({', '.join(slow)})" if slow else "fused"
