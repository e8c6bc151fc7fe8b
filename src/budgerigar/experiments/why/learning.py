"""The smallest training loop: batches in, a network that has learnt, the losses on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar import progress
from budgerigar.training.optimizers import Optimizers
from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.schedules import rate_factor

Inputs = Mapping[str, Tensor | None]
NextBatch = Callable[[], tuple[Inputs, Tensor]]
"""-> (keyword arguments of forward, targets (B,T) int64, -100 where nothing is asked)"""
Loss = Callable[[Tensor, Tensor], Tensor]
"""(logits, targets) -> a scalar"""

ADAM = TrainingRecipe(
    optimizer="adamw",
    learning_rate=3e-3,
    schedule="linear",
    warmup_steps=20,
    beta2=0.98,
    weight_decay=0.0,
    clip=1.0,
    precision="float32",
)
"""For the small made-up tasks: AdamW with a rate that falls to 0."""


def nats(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of logits (B,T,V) over the targets (B,T) that are not -100."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def learn(
    network: nn.Module,
    next_batch: NextBatch,
    steps: int,
    settings: TrainingRecipe = ADAM,
    what: str = "training",
    loss: Loss = nats,
    watch: Callable[[int], object] | None = None,
) -> list[float]:
    """Train `network` for `steps` updates; returns the loss of each, in nats per asked token.

    `watch` is called with the number of updates done: 0, 1 … `steps`.
    """
    optimizers = Optimizers(network, settings)
    losses: list[float] = []
    network.train()
    with torch.enable_grad(), progress.track(what, total=steps, unit="steps") as job:
        for step in range(steps):
            if watch is not None:
                watch(step)
            inputs, targets = next_batch()
            value = loss(network(**inputs), targets)
            optimizers.zero_grad()
            value.backward()
            if settings.clip:
                optimizers.clip()
            optimizers.step(rate_factor(settings, step, steps))
            losses.append(float(value.detach()))
            job.advance(1, loss=f"{losses[-1]:.2f}")
        if watch is not None:
            watch(steps)
    network.eval()
    return losses


def last_mean(losses: list[float], share: float = 0.1) -> float:
    """Mean of the last tenth of the losses, at least one."""
    n = max(1, round(len(losses) * share))
    return sum(losses[-n:]) / n


def from_windows(batches: Any) -> NextBatch:
    """Batches of text/batches.py or text/pair_batches.py as `learn` takes them."""

    def following() -> tuple[Inputs, Tensor]:
        batch = batches.next()
        return batch.inputs(), batch.targets

    return following
