"""What a configuration means, in words; and numbers as people read them. Imports no torch."""

from __future__ import annotations

from typing import Any

from budgerigar.layers.config import TransformerConfig

ASSEMBLIES = {
    "decoder-only": "Decoder-only: each token sees itself and those before it, and predicts the next.",
    "encoder-only": "Encoder-only: each token sees all others, and fills in what is masked.",
    "encoder-decoder": (
        "Encoder-decoder: the encoder reads the source both ways; the decoder writes the target "
        "token by token and looks at the source in every layer."
    ),
}
POSITIONS = {
    "sinusoidal": "Positions are sines and cosines added to the embeddings.",
    "learned": "Positions are a learned table; beyond its end there is nothing.",
    "rotary": "Positions turn queries and keys (rotary), so scores depend on distances.",
    "relative": "Positions are a learned bias per distance bucket on the scores (T5).",
    "alibi": "Positions are a penalty on the scores that grows with distance (ALiBi).",
    "none": "No positions: only the causal mask tells order.",
}
PLACES = {
    "pre": "before each sublayer (pre)",
    "post": "after each residual sum (post, as in 2017)",
    "sandwich": "before and after each sublayer (sandwich)",
    "output": "on each sublayer's output (output)",
}
ACTIVATIONS = {
    "relu": "ReLU",
    "gelu": "GELU",
    "gelu-tanh": "GELU in its tanh form",
    "silu": "SiLU",
    "squared-relu": "squared ReLU",
    "swiglu": "SwiGLU: a gate multiplies what goes through",
    "geglu": "GEGLU: a gate multiplies what goes through",
    "geglu-tanh": "GEGLU in its tanh form: a gate multiplies what goes through",
}


def in_words(c: TransformerConfig) -> list[str]:
    """One sentence per thing a reader should know."""
    wide = f"{c.ff_width / c.d_model:.3g}"
    norm = "LayerNorm" if c.norm == "layer" else "RMSNorm"
    sentences = [
        ASSEMBLIES[c.assembly] if c.token_head else "Encoder-only: each token sees all others.",
        POSITIONS[c.positions],
        _heads(c),
        f"{norm} stands {PLACES[c.norm_place]}.",
        f"Feed-forward {wide} times as wide as the model, {ACTIVATIONS[c.activation]}.",
        _output(c),
    ]
    return [*sentences, *_window(c), *_unusual(c)]


def _output(c: TransformerConfig) -> str:
    if c.n_classes:
        vector = "the mean of its vectors" if c.pooling == "mean" else "its first vector"
        return f"A linear layer over {vector} tells which of {c.n_classes} classes a text is of."
    if not c.token_head:
        return "No output layer: it gives a vector for each token, and predicts none."
    if c.tied_embeddings:
        return "The output layer reuses the token embedding (tied)."
    return "The output layer has a matrix of its own (untied)."


def _heads(c: TransformerConfig) -> str:
    heads, shared = c.n_heads, c.kv_heads
    plural = "s" if heads > 1 else ""
    start = f"{heads} head{plural} of width {c.head_width} per attention"
    if shared == heads:
        return f"{start}, each with its own keys and values."
    if shared == 1:
        return f"{start}, all sharing one set of keys and values (multi-query)."
    return f"{start}; {heads // shared} at a time share keys and values (grouped-query)."


def _window(c: TransformerConfig) -> list[str]:
    depth = c.decoder_layers
    windows = [c.window_of(layer) for layer in range(depth)]
    limited = [window for window in windows if window]
    if not limited:
        return []
    sizes = " or ".join(str(window) for window in sorted(set(limited)))
    sinks = f", besides the first {c.sink_tokens}" if c.sink_tokens else ""
    kind = "decoder layers" if c.encoder_layers else "layers"
    many = f"all {kind}" if len(limited) == depth else f"{len(limited)} of {depth} {kind}"
    return [f"In {many} a token sees only the last {sizes}{sinks}."]


def _unusual(c: TransformerConfig) -> list[str]:
    """Dials that most models leave alone."""
    said = [
        (c.qk_norm != "none", f"Queries and keys are normalised (per {c.qk_norm})."),
        (c.sink_logit, "Each head may look at nothing: a learned term joins its softmax."),
        (c.attention_softcap is not None, f"Scores are bent to stay below {c.attention_softcap}."),
        (c.logit_softcap is not None, f"Logits are bent to stay below {c.logit_softcap}."),
        (c.parallel_residual, "Attention and feed-forward run side by side (parallel residual)."),
        (not c.residual, "No residual connections: only to see why they are there."),
        (c.embedding_size is not None, f"Embeddings are {c.embedding_size} wide and projected."),
        (
            c.rotary_scaling is not None,
            f"Rotary positions are stretched ({c.rotary_scaling and c.rotary_scaling.kind}).",
        ),
    ]
    return [sentence for true, sentence in said if true]


def quantity(name: str, value: Any) -> str:
    """A fact's value for reading: bytes and counts with their unit beside the exact number."""
    if not isinstance(value, int):
        return str(value)
    if "bytes" in name:
        return with_unit(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    if value < 1_000_000:
        return f"{value:,}"
    short = with_unit(value, 1000, ("", "k", "M", "G", "T", "P"))
    return f"{value:,}  ({short})"


def with_unit(value: float, step: int, units: tuple[str, ...]) -> str:
    """At most three digits before the point, and a unit: 124.4 M, 36.0 KiB."""
    for unit in units:
        if value < step or unit == units[-1]:
            break
        value /= step
    return f"{value:.1f} {unit}".rstrip() if unit != units[0] else f"{value:.0f} {unit}".rstrip()
