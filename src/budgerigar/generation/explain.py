"""Why this token: the likeliest candidates of a step, and what each processor did to them.

Costs a few milliseconds per token, so it runs only when asked for.
Shapes: B batch, V vocab_size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from budgerigar.generation.sampling import Process


@dataclass(frozen=True)
class Candidate:
    """One token that could have come next."""

    token: int
    """id of the token"""
    probability: float
    """what the model itself gave it"""
    chance: float
    """with what probability it was to be drawn, after all processors"""
    removed_by: str | None = None
    """the first processor that ruled it out; None: it stayed in"""


def candidates(
    logits: Tensor,
    chain: Sequence[tuple[str, Process]],
    seen: Tensor | None,
    n: int,
    greedy: bool,
) -> list[tuple[Candidate, ...]]:
    """The model's own n likeliest tokens of each row of logits (B, V), likeliest first."""
    n = min(n, logits.shape[-1])
    likeliest, ids = logits.softmax(-1).topk(n, dim=-1)  # (B, n)
    removed_by: list[list[str | None]] = [[None] * n for _ in range(len(logits))]
    for name, process in chain:
        logits = process(logits, seen)
        gone = (logits.gather(-1, ids) == -math.inf).tolist()
        for row, flags in zip(removed_by, gone, strict=True):
            row[:] = [was or (name if flag else None) for was, flag in zip(row, flags, strict=True)]
    chances = _chances(logits, greedy).gather(-1, ids)
    columns = zip(ids.tolist(), likeliest.tolist(), chances.tolist(), removed_by, strict=True)
    return [tuple(map(Candidate, *row)) for row in columns]


def _chances(logits: Tensor, greedy: bool) -> Tensor:
    """Probabilities (B, V) with which the choice falls on each id."""
    if not greedy:
        return logits.softmax(-1)
    return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
