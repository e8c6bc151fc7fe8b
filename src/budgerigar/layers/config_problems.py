"""What makes a `TransformerConfig` impossible or meaningless: each rule says what and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budgerigar.layers.config import TransformerConfig


def problems(config: TransformerConfig) -> list[str]:
    """All problems of a configuration, in words; empty when it can be built."""
    found = [*_sizes(config)]
    if found:  # the rules below divide by these
        return found
    return [*_attention(config), *_positions(config), *_norms(config), *_rest(config)]


def _sizes(c: TransformerConfig) -> Iterator[str]:
    for name in ("vocab_size", "context_length", "d_model", "n_layers", "n_heads"):
        if getattr(c, name) < 1:
            yield f"{name} = {getattr(c, name)} must be at least 1"
    optional = ("n_kv_heads", "d_head", "d_ff", "n_encoder_layers", "n_decoder_layers")
    for name in (*optional, "embedding_size", "source_vocab_size", "attention_window"):
        value = getattr(c, name)
        if value is not None and value < 1:
            yield f"{name} = {value} must be at least 1 (or left out)"
    for name in ("dropout_embedding", "dropout_residual", "dropout_ff", "dropout_attention"):
        if not 0 <= getattr(c, name) < 1:
            yield f"{name} = {getattr(c, name)} must be at least 0 and below 1"
    for name in ("sink_tokens", "token_types", "position_offset"):
        if getattr(c, name) < 0:
            yield f"{name} = {getattr(c, name)} must not be negative"
    for name in ("norm_epsilon", "rotary_base", "init_std", "head_scale"):
        if not (math.isfinite(getattr(c, name)) and getattr(c, name) > 0):
            yield f"{name} = {getattr(c, name)} must be a positive number"
    for name in ("attention_softcap", "logit_softcap"):
        value = getattr(c, name)
        if value is not None and not value > 0:
            yield f"{name} = {value} must be positive (or left out)"


def _attention(c: TransformerConfig) -> Iterator[str]:
    if c.d_head is None and c.d_model % c.n_heads:
        yield (
            f"d_model = {c.d_model} is not a multiple of n_heads = {c.n_heads}: "
            "change one of them or set d_head"
        )
    if c.n_heads % c.kv_heads:
        yield f"n_heads = {c.n_heads} is not a multiple of n_kv_heads = {c.n_kv_heads}"
    windows = [c.window_of(i) for i in range(max(c.encoder_layers, c.decoder_layers))]
    if c.sink_tokens and not any(windows):
        yield "sink_tokens without attention_window: without a window every token stays visible"
    if any(windows) and c.assembly == "encoder-only":
        yield "attention_window is for decoders: an encoder looks both ways"
    if c.attention_scale not in ("sqrt", "none") and not float(c.attention_scale) > 0:
        yield f"attention_scale = {c.attention_scale} must be sqrt, none or a positive number"


def _positions(c: TransformerConfig) -> Iterator[str]:
    if c.positions == "rotary":
        if not 0 < c.rotary_fraction <= 1:
            yield f"rotary_fraction = {c.rotary_fraction} must be above 0 and at most 1"
        elif c.rotary_width < 2:
            yield f"rotary positions turn pairs: a head width of {c.head_width} leaves none to turn"
    elif c.rotary_scaling is not None:
        yield f"rotary_scaling does nothing with positions = {c.positions}: leave it out"
    if c.positions == "sinusoidal" and c.d_model % 2:
        yield f"sinusoidal positions need an even d_model, not {c.d_model}"
    if c.position_offset and c.positions != "learned":
        yield f"position_offset does nothing with positions = {c.positions}"
    if c.positions == "relative" and (c.relative_buckets < 4 or c.relative_max_distance < 2):
        yield "relative positions need relative_buckets >= 4 and relative_max_distance >= 2"
    scaling = c.rotary_scaling
    if scaling is not None and scaling.kind == "longrope":
        pairs = c.rotary_width // 2
        if len(scaling.short_factors) != pairs or len(scaling.long_factors) != pairs:
            yield f"longrope needs {pairs} short_factors and as many long_factors, one per pair"


def _norms(c: TransformerConfig) -> Iterator[str]:
    if c.parallel_residual and c.norm_place != "pre":
        yield f"parallel_residual is defined for norm_place = pre, not {c.norm_place}"
    if c.parallel_residual and not c.residual:
        yield "parallel_residual without residual: nothing is left to be parallel to"
    if c.parallel_residual and c.assembly == "encoder-decoder":
        yield "parallel_residual is not defined with cross-attention"
    if c.norm_offset and not c.norm_weight:
        yield "norm_offset needs norm_weight: it says how the weight is used"


def _rest(c: TransformerConfig) -> Iterator[str]:
    if c.assembly != "encoder-decoder":
        for name in ("n_encoder_layers", "n_decoder_layers", "source_vocab_size", "decoder_start"):
            if getattr(c, name) is not None:
                yield f"{name} is for an encoder-decoder, not for {c.assembly}"
    elif c.shared_embeddings and c.source_vocab_size not in (None, c.vocab_size):
        yield "shared_embeddings with two vocabulary sizes: set shared_embeddings = false"
    if c.head_transform and c.assembly != "encoder-only":
        yield f"head_transform is BERT's: it is not defined for {c.assembly}"
    if c.decoder_start is not None and not 0 <= c.decoder_start < c.vocab_size:
        yield f"decoder_start = {c.decoder_start} is not an id below vocab_size = {c.vocab_size}"
