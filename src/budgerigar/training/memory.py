"""Refuse a training that cannot fit before it drives the machine out of memory."""

from __future__ import annotations

import os
from typing import Any

import torch

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.shapes import training_bytes
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

    The count is an estimate; only what exceeds the whole memory is refused. An RNN's is not counted.

    Raises:
        UserError: weights, optimizer and activations of one batch exceed the device's memory.
    """
    if not isinstance(config, TransformerConfig):
        return
    pairs = config.assembly == "encoder-decoder"
    tokens = training.batch_tokens if pairs else training.batch_size * config.context_length
    needed, there = training_bytes(config, 1, tokens), memory_of(device)
    if there is None or needed <= there:
        return
    batch = (
        f"{tokens:,} tokens a side"
        if pairs
        else f"{training.batch_size:,} windows of {config.context_length:,} tokens"
    )
    lower = "--batch-tokens" if pairs else "--batch-size"
    raise UserError(
        f"A training step would need about {needed / 1e9:,.0f} GB of memory, and there are "
        f"{there / 1e9:,.0f} GB: {batch} through {config.encoder_layers + config.decoder_layers:,} "
        f"layers, {config.d_model:,} wide. Lower {lower} (and raise --accumulate as much to learn "
        "the same), --context-length, --d-model or --n-layers."
    )
