"""How tokens are chosen and when a text ends: plain settings. Imports no torch (it is CLI help)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from budgerigar.errors import UserError
from budgerigar.generation.overflow import OnOverflow
from budgerigar.layers.settings import type_problems


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
        wrong = type_problems(self)
        mistyped = {problem.split()[0] for problem in wrong}
        for name, (holds, rule) in _RULES.items():
            value = getattr(self, name)
            if name not in mistyped and value is not None and not holds(value):
                wrong.append(f"{name} = {value!r} {rule}")
        if wrong:
            lines = "\n".join(f"  - {problem}" for problem in wrong)
            raise UserError(f"these sampling options cannot be used:\n{lines}")
        return self


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_new_tokens": (lambda n: n >= 0, "must be 0 or more"),
    "temperature": (
        lambda t: t >= 0 and math.isfinite(t),
        "must be 0 (greedy) or a positive number",
    ),
    "top_k": (lambda k: k >= 1, "must be 1 or more"),
    "top_p": (lambda p: 0 < p <= 1, "must be above 0 and at most 1"),
    "min_p": (lambda p: 0 <= p <= 1, "must be between 0 and 1"),
    "repetition_penalty": (lambda r: r > 0 and math.isfinite(r), "must be above 0 (1: none)"),
    "stop": (lambda texts: texts != "" and all(texts), "must not be or hold an empty text"),
    "seed": (lambda seed: seed >= 0, "must be 0 or more"),
}
