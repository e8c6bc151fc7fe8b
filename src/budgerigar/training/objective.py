"""One step's arithmetic: forward, cross-entropy, backward, over one or several micro-batches.

Shapes: B batch, T positions, V vocab_size, N = B x T.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

IGNORED = -100  # target of positions that are not scored
LOGITS_AT_ONCE = 1 << 20  # a block that stays in the processor's cache: 1 MB


class MicroBatch(NamedTuple):
    """What one forward pass reads and should predict, on the device."""

    inputs: dict[str, Tensor | None]  # keyword arguments of forward: tokens, source, …
    targets: Tensor  # (B,T) int64


class Losses(NamedTuple):
    """Means over the scored tokens of a step, in nats: detached scalars on the device."""

    true: Tensor
    """cross-entropy"""
    smoothed: Tensor
    """what is minimised; the same without label smoothing"""


def next_micro_batches(
    batches: Any, count: int, device: torch.device
) -> tuple[list[MicroBatch], int]:
    """Draw `count` batches; returns them on `device` and how many targets they score together.

    Knowing the number before the first backward pass is what makes accumulation exact: every token
    weighs the same, whichever micro-batch it falls into.
    """
    drawn, scored = [], 0
    for _ in range(count):
        batch = batches.next()
        targets = torch.as_tensor(batch.targets)
        scored += int((targets != IGNORED).sum())
        inputs = {name: _placed(value, device) for name, value in batch.inputs().items()}
        drawn.append(MicroBatch(inputs, targets.to(device, non_blocking=True)))
    return drawn, scored


def start_carrying(network: Any, batches: Any) -> Any:
    """The state that `network` carries from batch to batch; None where batches do not go on."""
    return network.start(batches.rows) if getattr(batches, "carries", False) else None


def _placed(value: Any, device: torch.device) -> Tensor | None:
    return None if value is None else torch.as_tensor(value).to(device, non_blocking=True)


class _TokenLosses(torch.autograd.Function):
    """`weight` x (sum of smoothed losses, sum of true ones) of logits (N,V), from one exponential each.

    With z the logits, s the smoothing and L = log sum exp z: -ln p = L - z[target], and smoothed it is
    L - (1-s) z[target] - s mean z. The gradient, softmax - (1-s) onehot - s/V, is made in the same
    pass, a block of rows at a time while they are in the processor's cache.
    """

    @staticmethod
    def forward(
        context: Any, logits: Tensor, targets: Tensor, smoothing: float, weight: float
    ) -> tuple[Tensor, Tensor]:
        rows, vocab = logits.shape
        needed = context.needs_input_grad[0]
        gradient = torch.empty_like(logits if needed else logits[:0])
        totals = logits.new_empty(rows)
        size = max(LOGITS_AT_ONCE // vocab, 1)
        for first in range(0, rows, size):
            here = slice(first, first + size)
            highest = logits[here].amax(1, keepdim=True)
            block = torch.sub(logits[here], highest, out=gradient[here] if needed else None).exp_()
            sums = block.sum(1, keepdim=True)
            totals[here] = (highest + sums.log()).squeeze(1)
            if needed:
                block.mul_(weight / sums)
                if smoothing:
                    block.sub_(weight * smoothing / vocab)
        scored, own_ids = targets != IGNORED, targets.clamp(min=0)[:, None]
        own = logits.gather(1, own_ids).squeeze(1)
        nothing = logits.new_zeros(())
        true = weight * torch.where(scored, totals - own, nothing).sum()
        smoothed = true
        if smoothing:
            mixed = (1.0 - smoothing) * own + smoothing * logits.mean(1)
            smoothed = weight * torch.where(scored, totals - mixed, nothing).sum()
        if needed:
            gradient.scatter_add_(
                1, own_ids, gradient.new_full((rows, 1), weight * (smoothing - 1))
            )
            gradient.index_fill_(0, torch.nonzero(~scored).squeeze(1), 0.0)
        context.gradient = gradient
        context.mark_non_differentiable(true)
        return smoothed.clone(), true

    @staticmethod
    def backward(context: Any, outer: Tensor, _of_true: Tensor) -> tuple[Tensor, None, None, None]:
        gradient, context.gradient = context.gradient, None  # used up: it is large
        assert gradient is not None, "one backward pass per forward pass"
        if outer.device.type != "cpu" or float(outer) != 1.0:
            gradient.mul_(outer)
        return gradient, None, None, None


def cross_entropy(
    logits: Tensor, targets: Tensor, smoothing: float = 0.0, weight: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(what is minimised, true -ln p), each summed over scored targets and times `weight`.

    logits (B,T,V) float32, targets (B,T) int64. The two are equal without smoothing; only the first
    has a gradient. On one core with V = 8,000 and 4,000 tokens, backward pass included, in 180 ms,
    where torch's `cross_entropy` asked for both takes 350.
    """
    flat, wanted = logits.flatten(0, -2), targets.flatten()
    found: tuple[Tensor, Tensor] = _TokenLosses.apply(flat, wanted, smoothing, weight)
    return found


def accumulate_gradients(
    forward: Callable[..., Tensor],
    micro_batches: list[MicroBatch],
    scored: int,
    smoothing: float = 0.0,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    state: Any = None,
) -> Losses:
    """Run forward and backward over all micro-batches; gradients are those of the mean per token.

    `state`: what a model carries from each batch to the next; it is moved on.
    """
    carried = {} if state is None else {"state": state}
    total: Tensor | None = None
    for inputs, targets in micro_batches:
        with autocast():
            logits = forward(**inputs, **carried)
        weight = 1.0 / max(scored, 1)
        minimised, true = cross_entropy(logits.float(), targets, smoothing, weight)
        minimised.backward()
        part = torch.stack([true, minimised.detach()])
        total = part if total is None else total + part
    assert total is not None
    true, smoothed = total
    return Losses(true, smoothed)
