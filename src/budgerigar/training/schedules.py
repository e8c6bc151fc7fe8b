"""Learning-rate schedules: the factor on every peak rate at each step, 1 at the peak. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable

from budgerigar.training.recipe import TrainingRecipe


def rate_factor(settings: TrainingRecipe, step: int, total_steps: int, d_model: int = 1) -> float:
    """Factor on the peak rates for the update number `step` (from 0) of `total_steps`.

    Warm-up is linear, (step + 1) / (warmup + 1), and then one of:
    constant; cosine (Loshchilov & Hutter 2017) or linear down to min_learning_rate; inverse-sqrt,
    sqrt(warmup / step) (Vaswani et al. 2017); warmup-stable-decay: flat, then linear over the last
    `decay_fraction` of the steps (Hu et al. 2024).

    vaswani is the paper's own (Vaswani et al. 2017, equation 3), warm-up included: with n = step + 1,
    d_model^-0.5 min(n^-0.5, n warmup^-1.5), which `learning_rate` scales (the paper: by 1).
    """
    if settings.schedule == "vaswani":
        n = step + 1
        return float(d_model**-0.5 * min(n**-0.5, n * max(settings.warmup_steps, 1) ** -1.5))
    warmup = min(settings.warmup_steps, max(total_steps - 1, 0))
    if step < warmup:
        return (step + 1) / (warmup + 1)
    peak = settings.learning_rate
    floor = min(settings.min_learning_rate / peak, 1.0) if peak > 0 else 1.0
    return _AFTER_WARMUP[settings.schedule](settings, step, total_steps, warmup, floor)


def decay_start(settings: TrainingRecipe, total_steps: int) -> int | None:
    """warmup-stable-decay: how many steps come before the rate falls; None where that is none.

    Up to there runs of any length are the same run.
    """
    if settings.schedule != "warmup-stable-decay":
        return None
    warmup = min(settings.warmup_steps, max(total_steps - 1, 0))
    return max(warmup, total_steps - round(total_steps * settings.decay_fraction)) or None


def _constant(_s: TrainingRecipe, _step: int, _total: int, _warmup: int, _floor: float) -> float:
    return 1.0


def _progress(step: int, start: int, total: int) -> float:
    """How far `step` is from `start` to the last step, from 0 to 1."""
    return min(max((step - start) / max(total - start, 1), 0.0), 1.0)


def _cosine(_s: TrainingRecipe, step: int, total: int, warmup: int, floor: float) -> float:
    half_wave = 0.5 * (1.0 + math.cos(math.pi * _progress(step, warmup, total)))
    return floor + (1.0 - floor) * half_wave


def _linear(_s: TrainingRecipe, step: int, total: int, warmup: int, floor: float) -> float:
    return floor + (1.0 - floor) * (1.0 - _progress(step, warmup, total))


def _inverse_sqrt(_s: TrainingRecipe, step: int, _total: int, warmup: int, floor: float) -> float:
    scale = max(warmup, 1)
    return max(math.sqrt(scale / max(step + 1, scale)), floor)


def _stable_decay(s: TrainingRecipe, step: int, total: int, _warmup: int, floor: float) -> float:
    start = decay_start(s, total) or 0
    return floor + (1.0 - floor) * (1.0 - _progress(step, start, total))


_AFTER_WARMUP: dict[str, Callable[[TrainingRecipe, int, int, int, float], float]] = {
    "constant": _constant,
    "cosine": _cosine,
    "linear": _linear,
    "inverse-sqrt": _inverse_sqrt,
    "warmup-stable-decay": _stable_decay,
}
