"""Refuse a training that cannot fit before it drives the machine out of memory."""

from __future__ import annotations

import os
from typing import Any

import torch

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.shapes import training_bytes
from budgerigar.models import ancestor_card
from budgerigar.models.ancestor_configs import FeedForwardConfig, RecurrentConfig
from budgerigar.training.corpora import window_length
from budgerigar.training.recipe import TrainingRecipe


def memory_of(device: torch.device) -> int | None:
    """Bytes of memory that the device has in all; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def check_memory(config: Any, training: TrainingRecipe, device: torch.device) -> None:
    """Compare what a step needs, counted from shapes, with what there is.

    The count is an estimate; only what exceeds the whole memory is refused. That of a recurrent
    translator is not counted.

    Raises:
        UserError: weights, optimizer and activations of one batch exceed the device's memory.
    """
    counted = _counted(config, training)
    if counted is None:
        return
    needed, batch, shape, lower = counted
    there = memory_of(device)
    if there is None or needed <= there:
        return
    raise UserError(
        f"A training step would need about {needed / 1e9:,.0f} GB of memory, and there are "
        f"{there / 1e9:,.0f} GB: {batch} through {shape}. Lower {lower[0]} (and raise --accumulate as "
        f"much to learn the same), {', '.join(lower[1:-1])} or {lower[-1]}."
    )


def _counted(config: Any, training: TrainingRecipe) -> tuple[int, str, str, tuple[str, ...]] | None:
    """Bytes, the batch and the shape in words, and what to lower; None: not counted."""
    if isinstance(config, FeedForwardConfig | RecurrentConfig):
        length = window_length(training, None)
        tokens = training.batch_size * length
        if isinstance(config, RecurrentConfig):
            layers, last = f"{config.n_layers} layers", "--d-hidden"
        else:
            layers, last = f"{config.order - 1:,} embeddings and a layer", "--order"
        return (
            ancestor_card.training_bytes(config, tokens),
            f"{training.batch_size:,} windows of {length:,} tokens",
            f"{layers}, {config.d_hidden:,} wide",
            ("--batch-size", "--window-length", last),
        )
    if not isinstance(config, TransformerConfig):
        return None
    pairs = config.assembly == "encoder-decoder"
    length = window_length(training, config.context_length)
    tokens = training.batch_tokens if pairs else training.batch_size * length
    batch = (
        f"{tokens:,} tokens a side"
        if pairs
        else f"{training.batch_size:,} windows of {length:,} tokens"
    )
    return (
        training_bytes(config, 1, tokens),
        batch,
        f"{config.encoder_layers + config.decoder_layers:,} layers, {config.d_model:,} wide",
        (
            "--batch-tokens" if pairs else "--batch-size",
            "--context-length",
            "--d-model",
            "--n-layers",
        ),
    )
