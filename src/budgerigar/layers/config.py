"""`TransformerConfig`: every dial of the one Transformer, frozen and validated. Imports no torch.

GPT-2, Llama, BERT, T5, Marian and "Attention Is All You Need" are settings of this class. The
line below each field explains it; the command line's help is made from these lines.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from budgerigar.errors import UserError
from budgerigar.layers.settings import build, plain

Assembly = Literal["decoder-only", "encoder-only", "encoder-decoder"]
Positions = Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"]
Activation = Literal[
    "relu", "gelu", "gelu-tanh", "silu", "squared-relu", "swiglu", "geglu", "geglu-tanh"
]  # fmt: skip
NormPlace = Literal["pre", "post", "sandwich", "output"]
Initialisation = Literal["normal", "depth-scaled", "zero-output", "xavier", "t5"]
RotaryScalingKind = Literal["linear", "ntk", "yarn", "llama3", "longrope"]


@dataclass(frozen=True)
class RotaryScaling:
    """How rotary frequencies are stretched beyond the context that a model was trained on."""

    kind: RotaryScalingKind = "linear"
    """linear (Chen et al. 2023), ntk, yarn (Peng et al. 2023), llama3, longrope (Ding et al. 2024)"""
    factor: float = 1.0
    """new context length / original context length"""
    original_context_length: int = 2048
    """context length of the training before stretching"""
    attention_factor: float | None = None
    """multiplies cosines and sines; None: the default of the kind"""
    beta_fast: float = 32.0
    """yarn: pairs that turn more often than this within the original context stay as they are"""
    beta_slow: float = 1.0
    """yarn: pairs that turn less often than this are interpolated fully"""
    low_frequency_factor: float = 1.0
    """llama3: wavelengths above original_context_length / this are interpolated fully"""
    high_frequency_factor: float = 4.0
    """llama3: wavelengths below original_context_length / this stay as they are"""
    short_factors: tuple[float, ...] = ()
    """longrope: a divisor per rotary pair, used within the original context"""
    long_factors: tuple[float, ...] = ()
    """longrope: a divisor per rotary pair, used beyond it"""


@dataclass(frozen=True)
class LayerPattern:
    """What one layer does differently from the rest; None: as the whole model does."""

    attention_window: int | None = None
    """positions visible to a query, itself included; 0: no window in this layer"""
    rotary_base: float | None = None
    """rotary base of this layer"""
    norm: Literal["layer", "rms"] | None = None
    """normalization of this layer"""


@dataclass(frozen=True)
class TransformerConfig:
    """One Transformer. D d_model, H n_heads, K n_kv_heads, E d_head, F d_ff, V vocab_size."""

    assembly: Assembly = "decoder-only"
    """decoder-only (GPT), encoder-only (BERT) or encoder-decoder (translation, T5)"""
    vocab_size: int = 256
    """number of tokens V; taken from the tokenizer when training"""
    context_length: int = 256
    """most positions that a sequence may have"""
    d_model: int = 128
    """width of the residual stream"""
    n_layers: int = 4
    """layers of a decoder-only or encoder-only model"""
    n_encoder_layers: int | None = None
    """encoder layers of an encoder-decoder; None: n_layers"""
    n_decoder_layers: int | None = None
    """decoder layers of an encoder-decoder; None: n_layers"""
    layers: tuple[LayerPattern, ...] = ()
    """what layers do differently, repeated over the depth, e.g. a window in two of three layers"""

    positions: Positions = "rotary"
    """sinusoidal, learned, rotary, relative (T5's bias), alibi or none"""
    sinusoid_layout: Literal["interleaved", "split"] = "interleaved"
    """sinusoidal: sine and cosine alternate (Vaswani et al. 2017) or fill a half each (Marian)"""
    position_offset: int = 0
    """learned: rows skipped at the start of the position table (OPT and RoBERTa have 2)"""
    rotary_base: float = 10_000.0
    """rotary: wavelengths run from 2 pi to 2 pi times this (Su et al. 2021)"""
    rotary_fraction: float = 1.0
    """rotary: share of the head width that is rotated"""
    rotary_scaling: RotaryScaling | None = None
    """rotary: stretching beyond the trained context"""
    relative_buckets: int = 32
    """relative: number of distance buckets (Raffel et al. 2020)"""
    relative_max_distance: int = 128
    """relative: distances from here on share the last bucket"""
    relative_shared: bool = True
    """relative: all layers of a stack share the first layer's table"""
    token_types: int = 0
    """number of token-type (segment) embeddings; BERT has 2"""

    norm: Literal["layer", "rms"] = "layer"
    """layer (Ba et al. 2016) or rms (Zhang & Sennrich 2019)"""
    norm_epsilon: float = 1e-5
    """added to the variance before the root"""
    norm_weight: bool = True
    """norms have a learned scale"""
    norm_bias: bool = True
    """LayerNorm has a learned shift"""
    norm_offset: bool = False
    """the norm's scale is 1 + weight (Gemma)"""
    norm_place: NormPlace = "pre"
    """pre: x + f(norm(x)); post: norm(x + f(x)); sandwich: x + norm(f(norm(x)));
    output: x + norm(f(x))"""
    final_norm: bool | None = None
    """norm after the last layer; None: yes unless norm_place is post"""
    residual: bool = True
    """add each sublayer's input to its output; off only to see why it is there"""
    parallel_residual: bool = False
    """attention and feed-forward read the same input and are added together (GPT-J)"""

    n_heads: int = 4
    """query heads per attention"""
    n_kv_heads: int | None = None
    """key-value heads; None: n_heads (multi-head), fewer: grouped-query, 1: multi-query"""
    d_head: int | None = None
    """width of a head; None: d_model / n_heads"""
    attention_scale: float | Literal["sqrt", "none"] = "sqrt"
    """scores are multiplied by 1/sqrt(d_head) (sqrt), by 1 (none; T5) or by a number"""
    attention_window: int | None = None
    """positions visible to a query, itself included; None: all before it"""
    sink_tokens: int = 0
    """the first k tokens stay visible in spite of the window (Xiao et al. 2023)"""
    sink_logit: bool = False
    """a learned extra term per head in the softmax's denominator (gpt-oss)"""
    qk_norm: Literal["none", "head", "full"] = "none"
    """RMS-normalise queries and keys per head or over all heads at once"""
    attention_softcap: float | None = None
    """scores become cap * tanh(scores / cap) (Gemma 2)"""

    d_ff: int | None = None
    """inner width of the feed-forward; None: 4 d_model, or 8/3 d_model for gated activations"""
    activation: Activation = "gelu"
    """relu, gelu (exact), gelu-tanh, silu, squared-relu; with a gate: swiglu, geglu, geglu-tanh"""
    qkv_bias: bool = True
    """query, key and value projections have a bias"""
    output_bias: bool = True
    """attention's output projection has a bias"""
    ff_bias: bool = True
    """feed-forward layers have a bias"""
    head_bias: bool = False
    """the output layer over the vocabulary has a bias"""

    tied_embeddings: bool = True
    """the output layer uses the (target) token embedding's matrix"""
    shared_embeddings: bool = True
    """encoder-decoder: source and target use one token embedding"""
    source_vocab_size: int | None = None
    """encoder-decoder with two vocabularies: size of the source's; None: vocab_size"""
    embedding_scale: float | Literal["sqrt", "none"] = "none"
    """embeddings are multiplied by sqrt(d_model) (sqrt), by 1 (none) or by a number"""
    embedding_norm: bool = False
    """normalise the sum of the embeddings (BERT)"""
    embedding_size: int | None = None
    """width of the embedding table when it is projected to d_model; None: d_model"""
    token_head: bool = True
    """an output layer over the vocabulary; without it an encoder gives vectors only (MiniLM)"""
    head_transform: bool = False
    """BERT's extra dense layer, activation and norm before the output layer"""
    pooler: bool = False
    """encoder-only: BERT's dense layer and tanh over the first position, one vector for a text"""
    n_classes: int = 0
    """encoder-only: classes of whole texts, told by a linear layer over one vector of a text"""
    pooling: Literal["mean", "first"] = "mean"
    """that vector: the mean over the tokens, or the first one's (BERT's; through its pooler, if any)"""
    logit_softcap: float | None = None
    """logits become cap * tanh(logits / cap)"""
    head_scale: float = 1.0
    """logits are multiplied by this (T5 with tied embeddings: d_model ** -0.5)"""
    decoder_start: int | None = None
    """encoder-decoder: id of the token that starts the target"""

    initialisation: Initialisation = "depth-scaled"
    """normal, depth-scaled (output projections / sqrt(2 layers)), zero-output, xavier or t5"""
    init_std: float = 0.02
    """standard deviation of normal, depth-scaled and zero-output initialisation"""
    dropout_embedding: float = 0.0
    """dropout on the sum of the embeddings"""
    dropout_residual: float = 0.0
    """dropout on what attention and feed-forward add to the residual stream"""
    dropout_ff: float = 0.0
    """dropout inside the feed-forward"""
    dropout_attention: float = 0.0
    """dropout on attention weights; slow: rules out the fused path in training"""
    dropout_source: float = 0.0
    """encoder-decoder: share of the pairs that are learnt without their source (cross-attention gives
    zeros), so that the model knows, too, what is likely when it sees none"""

    # -- derived values ------------------------------------------------------------------------
    @property
    def head_width(self) -> int:
        """E, the width of one head."""
        return self.d_head if self.d_head is not None else self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        """K, the number of key-value heads."""
        return self.n_kv_heads if self.n_kv_heads is not None else self.n_heads

    @property
    def gated(self) -> bool:
        """Whether the feed-forward has a gate (SwiGLU, GEGLU; Shazeer 2020)."""
        return self.activation in ("swiglu", "geglu", "geglu-tanh")

    @property
    def ff_width(self) -> int:
        """F, the inner width; the gated default keeps the parameter count (a multiple of 8)."""
        if self.d_ff is not None:
            return self.d_ff
        return -(-self.d_model * 8 // 3 // 8) * 8 if self.gated else 4 * self.d_model

    @property
    def encoder_layers(self) -> int:
        """Layers of the encoder stack; 0 in a decoder-only model."""
        if self.assembly == "decoder-only":
            return 0
        if self.assembly == "encoder-only" or self.n_encoder_layers is None:
            return self.n_layers
        return self.n_encoder_layers

    @property
    def decoder_layers(self) -> int:
        """Layers of the decoder stack; 0 in an encoder-only model."""
        if self.assembly == "encoder-only":
            return 0
        if self.assembly == "decoder-only" or self.n_decoder_layers is None:
            return self.n_layers
        return self.n_decoder_layers

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last layer."""
        return self.final_norm if self.final_norm is not None else self.norm_place != "post"

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        if self.attention_scale == "sqrt":
            return float(self.head_width**-0.5)
        return 1.0 if self.attention_scale == "none" else float(self.attention_scale)

    @property
    def rotary_width(self) -> int:
        """Dimensions of a head that rotary positions turn; even."""
        return int(self.head_width * self.rotary_fraction) // 2 * 2

    def pattern(self, layer: int) -> LayerPattern:
        """What layer `layer` does differently."""
        return self.layers[layer % len(self.layers)] if self.layers else LayerPattern()

    def window_of(self, layer: int) -> int | None:
        """Attention window of a layer; None: unlimited."""
        own = self.pattern(layer).attention_window
        return (own or None) if own is not None else self.attention_window

    def rotary_base_of(self, layer: int) -> float:
        """Rotary base of a layer."""
        own = self.pattern(layer).rotary_base
        return own if own is not None else self.rotary_base

    def norm_of(self, layer: int) -> str:
        """Kind of normalization of a layer."""
        return self.pattern(layer).norm or self.norm

    # -- checking and files ----------------------------------------------------------------------
    def problems(self) -> list[str]:
        """All that is wrong with this combination, in words."""
        from budgerigar.layers.config_problems import problems

        return problems(self)

    def validate(self) -> TransformerConfig:
        """Return self, or raise one `UserError` that lists every problem."""
        found = self.problems()
        if found:
            raise UserError("this model cannot be built:\n" + "\n".join(f"  - {p}" for p in found))
        return self

    def replace(self, **changes: Any) -> TransformerConfig:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and TOML; fields that are None are left out."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TransformerConfig:
        """The reverse of `to_dict`. Unknown names and wrong types are listed in one `UserError`."""
        config: TransformerConfig = build(cls, values, "model")
        return config
