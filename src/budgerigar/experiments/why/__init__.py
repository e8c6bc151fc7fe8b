"""Why each part of the Transformer exists: nine smallest real experiments, with and without it.

Every figure is measured when it is asked for; where an effect does not appear, the verdict says so.
Each part is one file with a function `run(seed, sizes) -> WhyResult`; they form a row, because each
ends with the problem that the next one solves.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
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


def run(part: str, seed: int = 1, quiet: bool = False) -> WhyResult:
    """One of `PARTS`, in less than a minute; `seed` is that of every draw.

    Raises:
        UserError: there is no such part.
    """
    refuse_seed(seed)
    name = checked(part)
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    with _silence(quiet):
        started = time.perf_counter()
        result: WhyResult = module.run(seed)
        seconds = time.perf_counter() - started
    at = PARTS.index(name)
    following = PARTS[at + 1] if at + 1 < len(PARTS) else None
    return dataclasses.replace(result, following=following, seconds=seconds)


def why_all(seed: int = 1, quiet: bool = False) -> Iterator[WhyResult]:
    """All nine in their order, each as soon as it is done."""
    refuse_seed(seed)
    with _silence(quiet), progress.track("why", total=len(PARTS), unit="parts") as job:
        for part in PARTS:
            job.describe(f"why {part}")
            yield run(part, seed, quiet)
            job.advance(1)


def checked(part: str) -> str:
    """The name of a part as it is in `PARTS`. `UserError` where there is none."""
    from difflib import get_close_matches

    name = part.strip().lower().replace("_", "-").replace(" ", "-")
    if name in PARTS:
        return name
    near = get_close_matches(name, PARTS, n=1, cutoff=0.4)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise UserError(
        f"there is no part {part!r} to ask about.{meant} The parts are {', '.join(PARTS)}."
    )


@contextmanager
def _silence(quiet: bool) -> Iterator[None]:
    before = progress.is_quiet()
    progress.set_quiet(before or quiet)
    try:
        yield
    finally:
        progress.set_quiet(before)
