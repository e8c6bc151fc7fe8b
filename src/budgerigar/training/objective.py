"""One step's arithmetic: forward, cross-entropy, backward, over one or several micro-batches.

Shapes: B batch, T positions, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORED = -100  # target of positions that are not scored


def next_micro_batches(
    batches: Any, count: int, device: torch.device
) -> tuple[list[dict[str, Any]], int]:
    """Draw `count` batches; returns them on `device` and how many targets they score together.

    Knowing the number before the first backward pass is what makes accumulation exact: every token
    weighs the same, whichever micro-batch it falls into.
    """
    drawn, scored = [], 0
    for _ in range(count):
        batch = batches.next()
        targets = torch.as_tensor(batch.targets)
        scored += int((targets != IGNORED).sum())
        values = {"tokens": batch.tokens, "targets": targets}
        values |= {"document_ids": batch.document_ids, "positions": batch.positions}
        drawn.append(
            {
                name: None if v is None else torch.as_tensor(v).to(device, non_blocking=True)
                for name, v in values.items()
            }
        )
    return drawn, scored


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Sums over scored targets of (what is minimised, true -ln p); equal without smoothing.

    logits (B,T,V) float32, targets (B,T) int64.
    """
    flat, wanted = logits.flatten(0, -2), targets.flatten()
    true = F.cross_entropy(flat, wanted, ignore_index=IGNORED, reduction="sum")
    if not smoothing:
        return true, true
    smoothed = F.cross_entropy(
        flat, wanted, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
    )
    return smoothed, true


def accumulate_gradients(
    forward: Callable[..., Tensor],
    micro_batches: list[dict[str, Any]],
    scored: int,
    smoothing: float = 0.0,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Tensor:
    """Run forward and backward over all micro-batches; gradients are those of the mean per token.

    Returns:
        The true cross-entropy in nats per token, a detached scalar on the device.
    """
    total: Tensor | None = None
    for batch in micro_batches:
        with autocast():
            logits = forward(
                batch["tokens"], document_ids=batch["document_ids"], positions=batch["positions"]
            )
        minimised, true = cross_entropy(logits.float(), batch["targets"], smoothing)
        (minimised / max(scored, 1)).backward()
        part = true.detach()
        total = part if total is None else total + part
    assert total is not None
    return total / max(scored, 1)
