"""Sizes, memory and FLOPs of feed-forward and recurrent language models, from shapes alone. No torch.

Shapes: N the n - 1 tokens of a window, M d_embedding, H d_hidden, V vocab_size.
"""

from __future__ import annotations

from typing import Any

from budgerigar.models.ancestor_configs import FeedForwardConfig, RecurrentConfig

WINDOW = 256  # tokens that the training estimate counts per row, for these have no context_length

Config = FeedForwardConfig | RecurrentConfig


def sections(config: Config, batch_size: int = 1) -> dict[str, dict[str, Any]]:
    """The card's facts by section, as for a Transformer."""
    parts, state, flops = parameters(config), state_bytes(config), flops_per_token(config)
    total = sum(parts.values())
    running = 4 * total + batch_size * state
    return {
        "sizes": _sizes(config),
        "parameters": {
            **{name: number for name, number in parts.items() if number},
            "total": total,
            "without_embeddings": total - parts["token_embedding"],
        },
        "carried_from_step_to_step": {"state_bytes": state},
        "memory": {
            "batch_size": batch_size,
            "weights_bytes": 4 * total,
            "weights_bytes_16_bit": 2 * total,
            "inference_bytes": running,
            "inference_bytes_16_bit": running // 2,
            "training_bytes_about": training_bytes(config, batch_size * WINDOW),
        },
        "flops_per_token": {"forward": flops, "backward": 2 * flops, "training": 3 * flops},
    }


def _sizes(c: Config) -> dict[str, Any]:
    if isinstance(c, FeedForwardConfig):
        sizes: dict[str, Any] = {"order": c.order}
    else:
        sizes = {"n_layers": c.n_layers}
    sizes |= {"d_embedding": c.d_embedding, "d_hidden": c.d_hidden}
    if isinstance(c, RecurrentConfig) and c.d_output is not None:
        sizes["d_output"] = c.d_output
    return {**sizes, "vocab_size": c.vocab_size}


def parameters(c: Config) -> dict[str, int]:
    """Weights by part; a tied matrix is counted once, with the embedding."""
    if isinstance(c, FeedForwardConfig):
        own = 0 if c.tied_embeddings else c.vocab_size * c.d_hidden
        return {
            "token_embedding": c.vocab_size * c.d_embedding,
            "start_embedding": c.d_embedding,
            "hidden": c.d_hidden * (c.window_width + 1),
            "direct_connections": c.vocab_size * c.window_width * c.direct_connections,
            "head": own + c.vocab_size,
        }
    gates = c.n_gates * c.d_hidden
    projection = 0 if c.d_output is None else c.d_hidden * c.d_output
    own = 0 if c.tied_embeddings else c.vocab_size * c.output_width
    return {
        "token_embedding": c.vocab_size * c.d_embedding,
        "cells": sum(gates * (width + c.d_hidden + 2) for width in _inputs(c)),
        "head": projection + own + c.vocab_size,
    }


def _inputs(c: RecurrentConfig) -> list[int]:
    """Width of what each layer reads, the lowest first."""
    return [c.d_embedding] + (c.n_layers - 1) * [c.d_hidden]


def state_bytes(c: Config, bytes_per_value: int = 4) -> int:
    """Bytes that one row carries, however long its text is. A window's token ids take 8 each."""
    if isinstance(c, FeedForwardConfig):
        return 8 * (c.order - 1)
    return c.n_layers * c.carried_vectors * c.d_hidden * bytes_per_value


def flops_per_token(c: Config) -> int:
    """Forward FLOPs of the matrix products for one token."""
    if isinstance(c, FeedForwardConfig):
        direct = c.vocab_size * c.window_width * c.direct_connections
        return 2 * (c.d_hidden * (c.window_width + c.vocab_size) + direct)
    cells = sum(c.n_gates * c.d_hidden * (width + c.d_hidden) for width in _inputs(c))
    projection = 0 if c.d_output is None else c.d_hidden * c.d_output
    return 2 * (cells + projection + c.output_width * c.vocab_size)


def training_bytes(c: Config, tokens: int) -> int:
    """Bytes to train in float32 with AdamW, about, on batches of `tokens`."""
    if isinstance(c, FeedForwardConfig):
        values = 2 * c.window_width + 3 * c.d_hidden + 2 * c.d_embedding
    else:  # gates and their gradients, states, what dropout leaves
        values = c.n_layers * (3 * c.n_gates + 3) * c.d_hidden + 3 * c.d_embedding
    values += 2 * c.vocab_size  # logits and their gradients
    return 16 * sum(parameters(c).values()) + 4 * tokens * values


def in_words(c: Config) -> list[str]:
    """One sentence per thing a reader should know."""
    tied = (
        "The output layer reuses the token embedding (tied)."
        if c.tied_embeddings
        else "The output layer has a matrix of its own (untied)."
    )
    if isinstance(c, FeedForwardConfig):
        hidden = f"a tanh layer of {c.d_hidden}" if c.d_hidden else "no hidden layer"
        direct = " and direct connections" if c.direct_connections else ""
        return [
            f"Feed-forward: the next token is predicted from the {c.order - 1} before it, each a "
            f"vector of {c.d_embedding}, through {hidden}{direct}.",
            "What stands further back cannot matter to it.",
            tied,
        ]
    cell = {"elman": "Elman", "gru": "GRU", "lstm": "LSTM"}[c.cell]
    vectors = "a hidden vector and a cell" if c.cell == "lstm" else "a hidden vector"
    sentences = [
        f"Recurrent: {c.n_layers} layer{'s' if c.n_layers > 1 else ''} of {cell} cells, {c.d_hidden} "
        "wide, read the text token by token.",
        f"It carries {vectors} per layer from step to step, of one size however long the text is.",
    ]
    if c.d_output is not None:
        sentences.append(f"A projection to {c.d_output} stands before the vocabulary.")
    return [*sentences, tied]
