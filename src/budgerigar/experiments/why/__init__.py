"""Why each part of the Transformer exists: nine smallest real experiments, with and without it.

Every figure is measured when it is asked for; where an effect does not appear, the verdict says so.
Each part is one file with a function `run(seed, sizes) -> WhyResult`; the nine form a row, because
each ends with the problem that the next one solves. `MORE` are run by their name only.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.experiments.seeds import refuse_seed

if TYPE_CHECKING:
    from budgerigar.experiments.why.frame import WhyResult

PARTS = (
    "attention",
    "heads",
    "scale",
    "positions",
    "feed-forward",
    "residual",
    "mask",
    "cross-attention",
    "cache",
)
"""in the order of the lesson: each solves the problem that the one before leaves"""

MORE = ("in-context",)
"""what all of them together make possible"""


def run(part: str, seed: int = 1, quiet: bool = False, model: str | None = None) -> WhyResult:
    """One of `PARTS` or `MORE`, in about a minute; `seed` is that of every draw.

    model: for "in-context" alone: measure this model (whatever `formats.load` takes), train none.

    Raises:
        UserError: there is no such part; a model for another part, or one that does not fit.
    """
    refuse_seed(seed)
    name = checked(part)
    with _silence(quiet):
        started = time.perf_counter()
        result = _experiment(name, model)(seed)
        seconds = time.perf_counter() - started
    return dataclasses.replace(result, following=_following(name), seconds=seconds)


def _experiment(name: str, model: str | None) -> Callable[[int], WhyResult]:
    """The function of the part's file; with a model, that which measures it."""
    if model is not None and name != "in-context":
        raise UserError(
            f"why {name} trains its own small networks; a model can be given for in-context only"
        )
    if model is None:
        module = import_module(f"{__name__}.{name.replace('-', '_')}")
        return lambda seed: module.run(seed)
    from budgerigar.experiments.why import in_context_model

    return lambda seed: in_context_model.run(model, seed)


def _following(name: str) -> str | None:
    """The part after this one of the nine."""
    at = PARTS.index(name) + 1 if name in PARTS else len(PARTS)
    return PARTS[at] if at < len(PARTS) else None


def why_all(seed: int = 1, quiet: bool = False) -> Iterator[WhyResult]:
    """All nine in their order, each as soon as it is done."""
    refuse_seed(seed)
    with _silence(quiet), progress.track("why", total=len(PARTS), unit="parts") as job:
        for part in PARTS:
            job.describe(f"why {part}")
            yield run(part, seed, quiet)
            job.advance(1)


def checked(part: str) -> str:
    """The name of a part as it is in `PARTS` or `MORE`. `UserError` where there is none."""
    from difflib import get_close_matches

    name = part.strip().lower().replace("_", "-").replace(" ", "-")
    if name in (*PARTS, *MORE):
        return name
    near = get_close_matches(name, (*PARTS, *MORE), n=1, cutoff=0.4)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise UserError(
        f"there is no part {part!r} to ask about.{meant} The parts are {', '.join(PARTS)}; and "
        f"{', '.join(MORE)}."
    )


@contextmanager
def _silence(quiet: bool) -> Iterator[None]:
    before = progress.is_quiet()
    progress.set_quiet(before or quiet)
    try:
        yield
    finally:
        progress.set_quiet(before)
