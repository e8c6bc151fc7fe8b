"""Refuse a training that cannot fit before it drives the machine out of memory."""

from __future__ import annotations

import os

import torch

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.shapes import training_bytes


def memory_of(device: torch.device) -> int | None:
    """Bytes of memory that the device has in all; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def check_memory(config: TransformerConfig, batch_size: int, device: torch.device) -> None:
    """Compare what a step needs, counted from shapes, with what there is.

    The count is an estimate; only what exceeds the whole memory is refused.

    Raises:
        UserError: weights, optimizer and activations of one batch exceed the device's memory.
    """
    needed, there = training_bytes(config, batch_size), memory_of(device)
    if there is None or needed <= there:
        return
    raise UserError(
        f"A training step would need about {needed / 1e9:,.0f} GB of memory, and there are "
        f"{there / 1e9:,.0f} GB: {batch_size:,} windows of {config.context_length:,} tokens through "
        f"{config.n_layers:,} layers, {config.d_model:,} wide. Lower --batch-size (and raise "
        "--accumulate as much to learn the same), --context-length, --d-model or --n-layers."
    )
