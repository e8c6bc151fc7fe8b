"""Sizes, memory and FLOPs of a recurrent translator, from shapes alone. Imports no torch.

Shapes: T target and S source positions, H d_hidden, G gates times H, A d_attention, C width of the
context, V vocab_size.
"""

from __future__ import annotations

from typing import Any

from budgerigar.models.rnn_config import RnnEncoderDecoderConfig


def sections(config: RnnEncoderDecoderConfig, batch_size: int = 1) -> dict[str, dict[str, Any]]:
    """The card's facts by section, as for a Transformer."""
    parts = parameters(config)
    total, forward = sum(parts.values()), flops_per_pair(config)
    state = state_bytes(config)
    source = config.context_length * source_bytes_per_token(config)
    running = 4 * total + batch_size * (state + source)
    return {
        "sizes": _sizes(config),
        "parameters": {
            **{name: number for name, number in parts.items() if number},
            "total": total,
            "without_embeddings": total - parts["token_embedding"],
        },
        "carried_per_sentence": {
            "state_bytes": state,
            "bytes_per_source_token": source_bytes_per_token(config),
            "bytes_at_full_context": state + source,
        },
        "memory": {
            "batch_size": batch_size,
            "weights_bytes": 4 * total,
            "weights_bytes_16_bit": 2 * total,
            "inference_bytes": running,
            "inference_bytes_16_bit": running // 2,
            "training_bytes_about": training_bytes(config, batch_size * config.context_length),
        },
        "flops_per_token": {
            "forward": forward["matrices"] + forward["attention"],
            "of_which_attention_at_full_context": forward["attention"],
            "backward": 2 * (forward["matrices"] + forward["attention"]),
            "training": 3 * (forward["matrices"] + forward["attention"]),
        },
    }


def _sizes(c: RnnEncoderDecoderConfig) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "n_encoder_layers": c.n_encoder_layers,
        "n_decoder_layers": c.n_decoder_layers,
        "d_embedding": c.d_embedding,
        "d_hidden": c.d_hidden,
    }
    if c.attends:
        sizes["d_attention"] = c.attention_width
    sizes |= {"d_output": c.output_width, "vocab_size": c.vocab_size}
    if not c.shared_embeddings:
        sizes["source_vocab_size"] = c.source_vocab_size or c.vocab_size
    return {**sizes, "context_length": c.context_length}


def parameters(c: RnnEncoderDecoderConfig) -> dict[str, int]:
    """Weights by part; a tied matrix is counted once, with the embedding."""
    gates, hidden = c.n_gates * c.d_hidden, c.d_hidden
    sources = 0 if c.shared_embeddings else c.source_vocab_size or c.vocab_size
    starts = 0
    if not c.copies_state:
        starts = c.n_decoder_layers * (c.start_width + 1) * hidden * (2 if c.cell == "lstm" else 1)
    attention = 0
    if c.attends:  # query, key with its bias, score
        attention = c.attention_width * (hidden + c.annotation_width + 2)
    widths = c.output_width * (2 if c.maxout else 1)
    head = (hidden + c.d_embedding + c.context_width + 1) * widths + c.vocab_size
    return {
        "token_embedding": (c.vocab_size + sources) * c.d_embedding,
        "encoder": sum(_cells(c, width) * c.directions for width in _encoder_inputs(c)),
        "decoder": sum(_cells(c, width) for width in _decoder_inputs(c)) + gates * c.context_width,
        "decoder_start": starts,
        "attention": attention,
        "head": head + (0 if c.tied_embeddings else c.vocab_size * c.output_width),
    }


def _cells(c: RnnEncoderDecoderConfig, d_input: int) -> int:
    """One layer in one direction: matrices for input and state, a bias each."""
    return c.n_gates * c.d_hidden * (d_input + c.d_hidden + 2)


def _encoder_inputs(c: RnnEncoderDecoderConfig) -> list[int]:
    return [c.d_embedding] + (c.n_encoder_layers - 1) * [c.annotation_width]


def _decoder_inputs(c: RnnEncoderDecoderConfig) -> list[int]:
    return [c.d_embedding] + (c.n_decoder_layers - 1) * [c.d_hidden]


def state_bytes(c: RnnEncoderDecoderConfig, bytes_per_value: int = 4) -> int:
    """Bytes that one row carries, however long its target: a state per decoder layer."""
    vectors = c.n_decoder_layers * (2 if c.cell == "lstm" else 1)
    constant = c.context_width if c.context_every_step else 0
    return (vectors * c.d_hidden + constant) * bytes_per_value


def source_bytes_per_token(c: RnnEncoderDecoderConfig, bytes_per_value: int = 4) -> int:
    """Bytes kept per source token: its annotation and its key, if there is attention."""
    return (c.annotation_width + c.attention_width) * bytes_per_value if c.attends else 0


def flops_per_pair(c: RnnEncoderDecoderConfig) -> dict[str, int]:
    """Forward FLOPs for a source and a target token; the attention over a full source."""
    gates = c.n_gates * c.d_hidden
    matrices = sum(c.directions * gates * (width + c.d_hidden) for width in _encoder_inputs(c))
    matrices += sum(gates * (width + c.d_hidden) for width in _decoder_inputs(c))
    attention = 0
    if c.attends:
        matrices += gates * c.context_width  # where it is constant: once per sentence
        matrices += c.attention_width * (c.d_hidden + c.annotation_width)
        # per source token: add, tanh, product with the score vector; the weighted annotation
        attention = c.context_length * (4 * c.attention_width + 2 * c.annotation_width)
    widths = c.output_width * (2 if c.maxout else 1)
    matrices += (c.d_hidden + c.d_embedding + c.context_width) * widths
    matrices += c.output_width * c.vocab_size
    return {"matrices": 2 * matrices, "attention": attention}


def training_bytes(c: RnnEncoderDecoderConfig, tokens: int) -> int:
    """Bytes to train in float32 with AdamW, about, on batches of `tokens` a side."""
    values = c.directions * c.n_encoder_layers * (c.n_gates * 3 + 2) * c.d_hidden
    values += c.n_decoder_layers * (c.n_gates * 3 + 2) * c.d_hidden
    values += 3 * c.context_width + 2 * c.attention_width + 4 * c.output_width
    values += 3 * c.d_embedding + 2 * c.vocab_size
    if c.attends:
        values += c.context_length  # weights over a full source
    return 16 * sum(parameters(c).values()) + 4 * tokens * values


def in_words(c: RnnEncoderDecoderConfig) -> list[str]:
    """One sentence per thing a reader should know."""
    cell = "GRU" if c.cell == "gru" else "LSTM"
    ways = "in both directions" if c.bidirectional else "from left to right"
    if c.reverse_source:
        ways += ", last word first"
    layers = f"{c.n_encoder_layers} layer{'s' if c.n_encoder_layers > 1 else ''}"
    writes = f"{c.n_decoder_layers} write{'s' if c.n_decoder_layers == 1 else ''}"
    sentences = [
        f"Recurrent encoder-decoder: {layers} of {cell} cells read the source {ways}; "
        f"{writes} the target token by token.",
        _source_words(c),
        f"Before the vocabulary stands a layer of {c.output_width}"
        + (", the larger of two values each (maxout)." if c.maxout else " with tanh."),
        "The output layer reuses the token embedding (tied)."
        if c.tied_embeddings
        else "The output layer has a matrix of its own (untied).",
    ]
    return sentences


def _source_words(c: RnnEncoderDecoderConfig) -> str:
    if c.attends:
        return (
            "At each step the decoder looks at all source words (additive attention, width "
            f"{c.attention_width}, one head)."
        )
    if c.context_every_step:
        return "The encoder's last state, of fixed size, is given to the decoder at every step."
    start = "as it is" if c.copies_state else "through a layer of its own"
    return f"The decoder starts from the encoder's last state ({start}), and sees no more of it."
