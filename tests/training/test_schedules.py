"""Schedules by hand numbers."""

from __future__ import annotations

import math

import pytest

from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.schedules import decay_start, rate_factor


def factors(total: int, **settings: object) -> list[float]:
    recipe = TrainingRecipe(**settings)  # type: ignore[arg-type]
    return [rate_factor(recipe, step, total) for step in range(total)]


def test_warm_up_is_linear_and_the_first_step_is_not_zero() -> None:
    found = factors(100, warmup_steps=4, schedule="constant")
    assert found[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert set(found[5:]) == {1.0}


def test_cosine_is_nanogpts() -> None:
    """nanoGPT: min + 0.5 (1 + cos(pi (it - warmup) / (decay - warmup))) (max - min)."""
    found = factors(2000, warmup_steps=100, learning_rate=1e-3, min_learning_rate=1e-4)
    for step in (100, 575, 1050, 1999):
        ratio = (step - 100) / 1900
        expected = 1e-4 + 0.5 * (1 + math.cos(math.pi * ratio)) * 9e-4
        assert 1e-3 * found[step] == pytest.approx(expected)
    assert found[50] == pytest.approx(51 / 101)


def test_linear_ends_near_the_floor() -> None:
    found = factors(10, warmup_steps=0, schedule="linear", min_learning_rate=0.0)
    assert found == pytest.approx([1 - n / 10 for n in range(10)])


def test_warmup_stable_decay() -> None:
    found = factors(100, warmup_steps=10, schedule="warmup-stable-decay", decay_fraction=0.2)
    assert set(found[10:81]) == {1.0}
    assert found[90] == pytest.approx(0.5)


def test_inverse_sqrt_halves_when_steps_quadruple() -> None:
    found = factors(1000, warmup_steps=100, schedule="inverse-sqrt")
    assert found[399] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "schedule", ["constant", "cosine", "linear", "inverse-sqrt", "warmup-stable-decay"]
)
@pytest.mark.parametrize("total", [1, 2, 7])
def test_any_length_stays_between_floor_and_one(schedule: str, total: int) -> None:
    found = factors(total, schedule=schedule, warmup_steps=100)
    assert all(0 < f <= 1 for f in found)


def test_the_papers_schedule_by_its_equation() -> None:
    """Vaswani et al. 2017, equation 3, for the base model; its peak is 7.0e-4 at step 4,000."""
    recipe = TrainingRecipe(schedule="vaswani", warmup_steps=4000, learning_rate=1.0)
    for step in (1, 100, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert rate_factor(recipe, step - 1, 100_000, 512) == pytest.approx(expected, rel=1e-12)
    assert rate_factor(recipe, 3999, 100_000, 512) == pytest.approx(6.99e-4, rel=1e-3)


@pytest.mark.parametrize("total", [7, 50, 400])
def test_runs_of_any_length_are_one_until_the_rate_falls(total: int) -> None:
    settings = {"schedule": "warmup-stable-decay", "warmup_steps": 5, "decay_fraction": 0.3}
    recipe = TrainingRecipe(**settings)  # type: ignore[arg-type]
    start = decay_start(recipe, total)
    assert start is not None
    short, long = factors(total, **settings), factors(3 * total, **settings)
    assert short[: start + 1] == long[: start + 1]
    assert short[start + 1] < long[start + 1] == 1.0
    assert decay_start(TrainingRecipe(schedule="cosine"), total) is None
