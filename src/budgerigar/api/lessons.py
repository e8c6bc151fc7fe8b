"""`why`: what fails without a part of the Transformer, and what happens with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from budgerigar.experiments.why.frame import WhyResult


@overload
def why(
    part: str,
    seed: int = 1,
    *,
    model: str | None = None,
    watch: Callable[[WhyResult], Any] | None = None,
) -> WhyResult: ...


@overload
def why(
    part: None = None,
    seed: int = 1,
    *,
    model: None = None,
    watch: Callable[[WhyResult], Any] | None = None,
) -> tuple[WhyResult, ...]: ...


def why(
    part: str | None = None,
    seed: int = 1,
    *,
    model: str | None = None,
    watch: Callable[[WhyResult], Any] | None = None,
) -> WhyResult | tuple[WhyResult, ...]:
    """The smallest real experiment with and without `part`, in about a minute; None: all nine.

    "in-context" stands beside the nine and is run by its name only; `model` measures that model (what
    `load` takes) there instead of training one.

    A result says what the problem is, both figures with their units, a picture (`.picture(path)`,
    `.text()`), whether the effect was there this time, and the next problem. Everything is measured
    now; `seed` is that of every draw. `watch` is called with each result as soon as it is there.

    Raises:
        UserError: there is no such part; the message names them. A model without that part.
    """
    from budgerigar.errors import UserError
    from budgerigar.experiments import why as experiment

    if part is None and model is not None:
        raise UserError("a model can be given for in-context only: why in-context --model NAME")
    if part is not None:
        result = experiment.run(part, seed, model=model)
        if watch is not None:
            watch(result)
        return result
    found = []
    for result in experiment.why_all(seed):
        found.append(result)
        if watch is not None:
            watch(result)
    return tuple(found)


def why_screen(result: WhyResult, width: int) -> Any:
    """A whole result as something that rich prints."""
    from budgerigar.experiments.why.drawing import whole

    return whole(result, width)


def why_table(results: Sequence[WhyResult]) -> Any:
    """All results as one table for rich."""
    from budgerigar.experiments.why.drawing import overview

    return overview(results)
