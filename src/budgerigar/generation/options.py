"""How tokens are chosen and when a text ends: plain settings. Imports no torch (it is CLI help)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from budgerigar.errors import UserError
from budgerigar.generation.overflow import OnOverflow


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen and when a text ends. `validate()` names everything that is wrong."""

    max_new_tokens: int = 200
    """most tokens to generate"""
    temperature: float = 0.8
    """logits are divided by this; below 1 bolder, above 1 wilder, 0 greedy (the likeliest)"""
    top_k: int | None = None
    """keep the k likeliest tokens; equals of the last one stay too"""
    top_p: float | None = None
    """keep the fewest likeliest tokens whose probabilities reach this (Holtzman et al. 2020)"""
    min_p: float | None = None
    """keep tokens at least this share as likely as the likeliest (Nguyen et al. 2024)"""
    repetition_penalty: float = 1.0
    """above 1: tokens generated before become less likely, once each (Keskar et al. 2019)"""
    stop: str | Sequence[str] = ()
    """text, or texts, that end the continuation; they are not part of it"""
    seed: int = 0
    """seed of the draws; each request has its own generator"""
    on_overflow: OnOverflow = "rewindow"
    """full context: rewindow (drop the oldest half and read the rest again), error, or sinks"""

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts, one or many."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def validate(self) -> SamplingOptions:
        """Return self, or raise one `UserError` that lists every problem."""
        checks = [
            (self.max_new_tokens >= 0, "max_new_tokens must be 0 or more"),
            (
                self.temperature >= 0 and math.isfinite(self.temperature),
                "temperature must be 0 (greedy) or a positive number",
            ),
            (self.top_k is None or self.top_k >= 1, "top_k must be 1 or more"),
            (self.top_p is None or 0 < self.top_p <= 1, "top_p must be above 0 and at most 1"),
            (self.min_p is None or 0 <= self.min_p <= 1, "min_p must be between 0 and 1"),
            (
                self.repetition_penalty > 0 and math.isfinite(self.repetition_penalty),
                "repetition_penalty must be above 0 (1: none)",
            ),
            (all(self.stops), "a stop text must not be empty"),
            (self.seed >= 0, "seed must be 0 or more"),
            (
                self.on_overflow in ("rewindow", "error", "sinks"),
                "on_overflow must be 'rewindow', 'error' or 'sinks'",
            ),
        ]
        wrong = [f"  - {problem}" for good, problem in checks if not good]
        if wrong:
            raise UserError("these sampling options cannot be used:\n" + "\n".join(wrong))
        return self
