"""What makes a `TransformerConfig` impossible or meaningless: each rule says what and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from budgerigar.layers.settings import type_problems

if TYPE_CHECKING:
    from budgerigar.layers.config import TransformerConfig


MOST_LAYERS = 10_000  # a typing error, long before it is a model


def problems(config: TransformerConfig) -> list[str]:
    """All problems of a configuration, in words; empty when it can be built."""
    found = type_problems(config)
    if found:  # the rules below compare and divide these
        return found
    found = [*_sizes(config), *_layers(config), *_scaling(config)]
    if found:
        return found
    return [*_attention(config), *_positions(config), *_norms(config), *_rest(config)]


def _sizes(c: TransformerConfig) -> Iterator[str]:
    for name in ("vocab_size", "context_length", "d_model", "n_layers", "n_heads"):
        if getattr(c, name) < 1:
            yield f"{name} = {getattr(c, name)} must be at least 1"
    for name in ("n_layers", "n_encoder_layers", "n_decoder_layers"):
        if (getattr(c, name) or 0) > MOST_LAYERS:
            yield f"{name} = {getattr(c, name):,} is more than {MOST_LAYERS:,}, the most allowed here"
    optional = ("n_kv_heads", "d_head", "d_ff", "n_encoder_layers", "n_decoder_layers")
    for name in (*optional, "embedding_size", "source_vocab_size", "attention_window"):
        value = getattr(c, name)
        if value is not None and value < 1:
            yield f"{name} = {value} must be at least 1 (or left out)"
    dropouts = ("embedding", "residual", "ff", "attention", "source")
    for name in (f"dropout_{part}" for part in dropouts):
        if not 0 <= getattr(c, name) < 1:
            yield f"{name} = {getattr(c, name)} must be at least 0 and below 1"
    for name in ("sink_tokens", "token_types", "position_offset", "n_classes"):
        if getattr(c, name) < 0:
            yield f"{name} = {getattr(c, name)} must not be negative"
    positive = ("norm_epsilon", "rotary_base", "init_std", "head_scale")
    scales = ("attention_softcap", "logit_softcap", "attention_scale", "embedding_scale")
    for name in (*positive, *scales):
        value = getattr(c, name)
        if not (value is None or isinstance(value, str) or _positive(value)):
            yield f"{name} = {value} must be a positive number"


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _layers(c: TransformerConfig) -> Iterator[str]:
    """The pattern's own settings."""
    for number, layer in enumerate(c.layers):
        if layer.attention_window is not None and layer.attention_window < 0:
            yield (
                f"layers[{number}].attention_window = {layer.attention_window} must be at least 1 "
                "(0: no window)"
            )
        if layer.rotary_base is not None and not _positive(layer.rotary_base):
            yield f"layers[{number}].rotary_base = {layer.rotary_base} must be a positive number"


def _scaling(c: TransformerConfig) -> Iterator[str]:
    """Rotary scaling: what its formulas divide by or take logarithms of."""
    s = c.rotary_scaling
    if s is None:
        return
    names = ("factor", "beta_fast", "beta_slow", "low_frequency_factor", "high_frequency_factor")
    numbers = {name: getattr(s, name) for name in names}
    for name in ("short_factors", "long_factors"):
        numbers |= {f"{name}[{i}]": factor for i, factor in enumerate(getattr(s, name))}
    for name, value in numbers.items():
        if not _positive(value):
            yield f"rotary_scaling: {name} = {value} must be a positive number"
    if s.attention_factor is not None and not _positive(s.attention_factor):
        yield f"rotary_scaling: attention_factor = {s.attention_factor} must be a positive number"
    if s.original_context_length < 2:
        yield f"rotary_scaling: original_context_length = {s.original_context_length} is below 2"
    if s.high_frequency_factor <= s.low_frequency_factor and s.kind == "llama3":
        yield "rotary_scaling: high_frequency_factor must be above low_frequency_factor"
    if s.kind == "yarn" and min(c.rotary_base_of(i) for i in range(len(c.layers) or 1)) <= 1:
        yield "rotary_scaling: yarn needs a rotary_base above 1"


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
    if any(windows) and c.sink_tokens >= c.context_length:
        yield (
            f"sink_tokens = {c.sink_tokens} fill the context_length = {c.context_length}: use fewer"
        )


def _positions(c: TransformerConfig) -> Iterator[str]:
    if c.positions == "rotary":
        if not 0 < c.rotary_fraction <= 1:
            yield f"rotary_fraction = {c.rotary_fraction} must be above 0 and at most 1"
        elif c.rotary_width < 2:
            yield f"rotary positions turn pairs: a head width of {c.head_width} leaves none to turn"
    elif c.rotary_scaling is not None:
        yield f"rotary_scaling does nothing with positions = {c.positions}: leave it out"
    width = c.embedding_size or c.d_model  # positions are added before the projection
    if c.positions == "sinusoidal" and width % 2:
        name = "embedding_size" if c.embedding_size else "d_model"
        yield f"sinusoidal positions need an even {name}, not {width}"
    if c.position_offset and c.positions != "learned":
        yield f"position_offset does nothing with positions = {c.positions}"
    if c.positions == "relative" and (c.relative_buckets < 4 or c.relative_max_distance < 2):
        yield "relative positions need relative_buckets >= 4 and relative_max_distance >= 2"
    elif c.positions == "relative" and c.relative_max_distance <= c.relative_buckets // 2:
        yield (
            f"relative_max_distance = {c.relative_max_distance} must be above the "
            f"{c.relative_buckets // 2} distances that have buckets of their own"
        )
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
    if c.dropout_source and (c.assembly != "encoder-decoder" or c.output_bias):
        yield (
            "dropout_source is for an encoder-decoder with output_bias = false: with a bias, something "
            "is left of a source that is not seen"
        )
    if c.head_transform and c.assembly != "encoder-only":
        yield f"head_transform is BERT's: it is not defined for {c.assembly}"
    if c.pooler and c.assembly != "encoder-only":
        yield f"pooler is for an encoder-only model, not for {c.assembly}"
    if c.n_classes and c.assembly != "encoder-only":
        yield f"n_classes is for an encoder-only model, not for {c.assembly}"
    if c.n_classes and c.token_head:
        yield "n_classes takes the place of the token_head: set token_head = false"
    if not c.token_head and c.assembly != "encoder-only":
        yield f"token_head = false: a {c.assembly} model without logits predicts nothing"
    if not c.token_head and (c.head_transform or c.head_bias):
        yield "head_transform and head_bias belong to a token_head: set that, or leave them out"
    if c.decoder_start is not None and not 0 <= c.decoder_start < c.vocab_size:
        yield f"decoder_start = {c.decoder_start} is not an id below vocab_size = {c.vocab_size}"
