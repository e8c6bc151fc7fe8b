"""Shape arithmetic: parameters, cache, memory and FLOPs of a `TransformerConfig`. Imports no torch.

Everything here follows from the configuration alone, so it answers for a model of 175 G parameters
as quickly as for one of 100,000. That the counts are right is tested on built models.

Shapes: B batch, T positions, S source positions, H heads, K key-value heads, D d_model, E d_head,
F d_ff, V vocab_size.
"""

from __future__ import annotations

from dataclasses import dataclass

from budgerigar.layers.config import TransformerConfig


@dataclass(frozen=True)
class Parameters:
    """Numbers of weights by part; a tied matrix is counted once, with the embedding."""

    token_embedding: int
    position_embedding: int
    attention: int
    cross_attention: int
    feed_forward: int
    norms: int
    head: int
    other: int
    """token types, embedding projections, relative biases"""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(vars(self).values())

    @property
    def without_embeddings(self) -> int:
        """All but token and position tables: the count that scaling laws use."""
        return self.total - self.token_embedding - self.position_embedding


def linear(inputs: int, outputs: int, bias: bool) -> int:
    """Weights of one linear layer."""
    return inputs * outputs + (outputs if bias else 0)


def norm(config: TransformerConfig, width: int, layer: int = 0) -> int:
    """Weights of one norm over `width` features."""
    shifted = config.norm_bias and config.norm_of(layer) == "layer"
    return width * (int(config.norm_weight) + int(shifted))


def attention_parameters(config: TransformerConfig) -> int:
    """Weights of one attention: four projections, norms of queries and keys, a sink per head."""
    c, head = config, config.head_width
    queries, keys = c.n_heads * head, c.kv_heads * head
    total = linear(c.d_model, queries, c.qkv_bias) + 2 * linear(c.d_model, keys, c.qkv_bias)
    total += linear(queries, c.d_model, c.output_bias)
    if c.norm_weight:
        total += {"none": 0, "head": 2 * head, "full": queries + keys}[c.qk_norm]
    return total + (c.n_heads if c.sink_logit else 0)


def feed_forward_parameters(config: TransformerConfig) -> int:
    """Weights of one feed-forward: up and down, and a gate if it has one."""
    c = config
    up = linear(c.d_model, c.ff_width, c.ff_bias)
    return up * (2 if c.gated else 1) + linear(c.ff_width, c.d_model, c.ff_bias)


def _norm_parameters(config: TransformerConfig) -> int:
    """Weights of all norms of the stacks and of the embeddings."""
    c = config
    width = c.embedding_size or c.d_model
    total = 0
    for depth, cross in ((c.encoder_layers, False), (c.decoder_layers, _has_cross(c))):
        sublayers = (1 if c.parallel_residual else 2) + int(cross)
        per_sublayer = 2 if c.norm_place == "sandwich" else 1
        total += sum(sublayers * per_sublayer * norm(c, c.d_model, layer) for layer in range(depth))
        if depth and c.has_final_norm:
            total += norm(c, c.d_model)
    if c.embedding_norm:
        total += n_embeddings(c) * norm(c, width)
    return total + (norm(c, width) if c.head_transform else 0)


def _has_cross(config: TransformerConfig) -> bool:
    return config.assembly == "encoder-decoder"


def n_embeddings(config: TransformerConfig) -> int:
    """Embedding layers: two when source and target do not share one."""
    return 2 if _has_cross(config) and not config.shared_embeddings else 1


def parameters(config: TransformerConfig) -> Parameters:
    """Weights by part, counted from the shapes."""
    c = config
    width, tables = c.embedding_size or c.d_model, n_embeddings(c)
    vocabularies = c.vocab_size + ((c.source_vocab_size or c.vocab_size) if tables == 2 else 0)
    depth = c.encoder_layers + c.decoder_layers
    learned = c.positions == "learned"
    other = tables * (c.token_types * width + (width * c.d_model if c.embedding_size else 0))
    if c.positions == "relative":
        stacks = bool(c.encoder_layers) + bool(c.decoder_layers)
        other += (stacks if c.relative_shared else depth) * c.relative_buckets * c.n_heads
    head = linear(c.d_model, c.d_model, bias=True) if c.pooler else 0
    head += linear(c.d_model, c.n_classes, bias=True)
    if c.token_head:
        head += 0 if c.tied_embeddings else c.vocab_size * width
        head += c.vocab_size if c.head_bias else 0
        if c.head_transform or c.embedding_size:
            head += linear(c.d_model, width, bias=c.head_transform)
    return Parameters(
        token_embedding=vocabularies * width,
        position_embedding=tables * (c.context_length + c.position_offset) * width * learned,
        attention=depth * attention_parameters(c),
        cross_attention=c.decoder_layers * attention_parameters(c) * _has_cross(c),
        feed_forward=depth * feed_forward_parameters(c),
        norms=_norm_parameters(c),
        head=head,
        other=other,
    )


# -- running ---------------------------------------------------------------------------------------
def cache_bytes_per_token(config: TransformerConfig, bytes_per_value: int = 4) -> int:
    """Bytes of keys and values that one token adds: 2 x layers x K x E x bytes per value."""
    return 2 * config.decoder_layers * config.kv_heads * config.head_width * bytes_per_value


def cache_bytes(
    config: TransformerConfig, n_tokens: int, n_source: int = 0, bytes_per_value: int = 4
) -> int:
    """Bytes of the cache of one row: `n_tokens` of self-attention, `n_source` of cross-attention."""
    crossing = n_source if _has_cross(config) else 0
    return (n_tokens + crossing) * cache_bytes_per_token(config, bytes_per_value)


def _linear_flops(parameters_in_matrices: int) -> int:
    return 2 * parameters_in_matrices  # a multiplication and an addition each


def stack_flops_per_token(config: TransformerConfig, stack: str) -> int:
    """FLOPs per token in the matrices of a stack ("encoder" or "decoder"), without scores."""
    c, head = config, config.head_width
    queries, keys = c.n_heads * head, c.kv_heads * head
    attention = c.d_model * (2 * queries + 2 * keys)
    crossing = 2 * c.d_model * queries if stack == "decoder" and _has_cross(c) else 0
    feed_forward = c.d_model * c.ff_width * (3 if c.gated else 2)
    depth = c.encoder_layers if stack == "encoder" else c.decoder_layers
    return _linear_flops(depth * (attention + crossing + feed_forward))


def cross_memory_flops_per_source_token(config: TransformerConfig) -> int:
    """FLOPs to compute cross-attention's keys and values, once per source token."""
    if not _has_cross(config):
        return 0
    keys = config.kv_heads * config.head_width
    return _linear_flops(config.decoder_layers * 2 * config.d_model * keys)


def head_flops_per_token(config: TransformerConfig) -> int:
    """FLOPs of the output layer over the vocabulary and the dense layer before it, if any."""
    if not config.token_head:
        return 0
    width = config.embedding_size or config.d_model
    before = config.d_model * width if config.head_transform or config.embedding_size else 0
    return _linear_flops(config.vocab_size * width + before)


def embedding_flops_per_token(config: TransformerConfig) -> int:
    """FLOPs of the embeddings' projection to d_model, if any; a look-up costs none."""
    return _linear_flops((config.embedding_size or 0) * config.d_model)


def attention_flops(config: TransformerConfig, visible: float, layers: int) -> float:
    """FLOPs of scores and weighted values for one query that sees `visible` keys, in `layers`."""
    return 4 * layers * config.n_heads * config.head_width * visible


def mean_visible(config: TransformerConfig, layer: int, n_tokens: int) -> float:
    """Keys that a query of a causal layer sees on average, over a text of `n_tokens`."""
    window = config.window_of(layer)
    if window is None or window >= n_tokens:
        return (n_tokens + 1) / 2
    near = (window * (window + 1) / 2 + (n_tokens - window) * window) / n_tokens
    sinks = min(config.sink_tokens, n_tokens - window)
    return near + sum(n_tokens - window - s for s in range(sinks)) / n_tokens


@dataclass(frozen=True)
class Flops:
    """Floating-point operations per token, at full context, on average over its positions."""

    matrices: float
    """products with weight matrices, output layer included"""
    attention: float
    """scores and weighted values: the part that grows with the context"""

    @property
    def forward(self) -> float:
        """Forward pass."""
        return self.matrices + self.attention

    @property
    def backward(self) -> float:
        """Backward pass: a product for the gradient of the input, one for that of the weights."""
        return 2 * self.forward

    @property
    def training(self) -> float:
        """Both."""
        return self.forward + self.backward


def flops_per_token(config: TransformerConfig, n_tokens: int | None = None) -> Flops:
    """FLOPs per token of a text of `n_tokens` (default: the context length).

    An encoder-decoder: per pair of a source and a target token, both sides `n_tokens` long.
    """
    c = config
    n = n_tokens or c.context_length
    matrices = stack_flops_per_token(c, "encoder") + stack_flops_per_token(c, "decoder")
    matrices += head_flops_per_token(c) + cross_memory_flops_per_source_token(c)
    matrices += embedding_flops_per_token(c) * (2 if _has_cross(c) else 1)
    both_ways = attention_flops(c, n, c.encoder_layers)
    causal = sum(
        attention_flops(c, mean_visible(c, layer, n), 1) for layer in range(c.decoder_layers)
    )
    crossing = attention_flops(c, n, c.decoder_layers) if _has_cross(c) else 0.0
    return Flops(matrices, both_ways + causal + crossing)


# -- memory ----------------------------------------------------------------------------------------
def inference_bytes(
    config: TransformerConfig, batch_size: int = 1, bytes_per_value: int = 4
) -> int:
    """Bytes to run: weights, and the cache of `batch_size` rows at full context."""
    rows = batch_size * cache_bytes(config, config.context_length, config.context_length, 1)
    return (parameters(config).total + rows) * bytes_per_value


def activation_values_per_token(config: TransformerConfig) -> int:
    """Numbers kept per token for the backward pass, about: fused attention, no recomputation."""
    c, head = config, config.head_width
    attention = c.d_model + 2 * c.n_heads * head + 2 * c.kv_heads * head
    feed_forward = c.d_model + c.ff_width * (4 if c.gated else 2)
    norms = 2 * c.d_model * (2 if c.norm_place == "sandwich" else 1)
    crossing = attention + c.d_model if _has_cross(c) else 0
    encoder = c.encoder_layers * (attention + feed_forward + norms)
    decoder = c.decoder_layers * (attention + feed_forward + norms + crossing)
    return encoder + decoder + 2 * c.d_model + 2 * c.vocab_size * int(c.token_head)


def training_bytes(config: TransformerConfig, batch_size: int, n_tokens: int | None = None) -> int:
    """Bytes to train in float32 with AdamW, about: weights, gradients, two averages, activations."""
    tokens = batch_size * (n_tokens or config.context_length)
    return 16 * parameters(config).total + 4 * tokens * activation_values_per_token(config)


# -- which attention runs --------------------------------------------------------------------------
def attention_path(config: TransformerConfig, training: bool) -> tuple[bool, str]:
    """Whether attention runs in the fused kernel, and in words why, or why not."""
    if config.attention_softcap is not None:
        return False, "attention_softcap bends the scores, which the fused kernel cannot do"
    if training and config.dropout_attention:
        return False, "dropout on attention weights needs them one by one"
    if training and config.positions == "relative":
        return False, "the learned relative bias needs a gradient through the scores"
    if training and config.sink_logit:
        return False, "the learned sink needs a gradient through the scores"
    return True, "nothing here needs the scores one by one"
