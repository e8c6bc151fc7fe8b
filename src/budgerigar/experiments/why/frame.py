"""What every `budgie why` returns: a problem, two results, a picture, a verdict, the next problem.

All that a result says in numbers was measured in this run; its words are `said`, so that a page can
have them in its own language (explorer/page/i18n/said.zh.json). A picture is described once, as
panels, and drawn twice: by matplotlib (pictures.py) and in a terminal (drawing.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from budgerigar.said import Said, said


@dataclass(frozen=True)
class Measured:
    """One side of the comparison."""

    what: str
    """with or without what, in words"""
    value: float
    unit: str
    """what the value counts: "nats per token", "% right", …"""
    digits: int = 2
    """after the point"""

    @property
    def words(self) -> Said:
        """Value and unit."""
        figure, gap = number(self.value, self.digits), "" if self.unit.startswith("%") else " "
        return said("{figure}{gap}{unit}", figure=figure, gap=gap, unit=self.unit)

    def __str__(self) -> str:
        return str(self.words)


@dataclass(frozen=True)
class Bars:
    """One bar per name."""

    title: str
    unit: str
    rows: Sequence[tuple[str, float]]
    top: float | None = None
    """the value of a full bar; None: the largest"""
    line: tuple[str, float] | None = None
    """a named mark to compare with, as chance"""


@dataclass(frozen=True)
class Lines:
    """Values over a number, one line per name."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    log_x: bool = False
    log_y: bool = False
    line: tuple[str, float] | None = None
    bottom: float | None = None
    top: float | None = None


@dataclass(frozen=True)
class Grid:
    """A number per cell, coloured by its size; rows and columns named."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    column_axis: str = ""


Panel = Bars | Lines | Grid


@dataclass(frozen=True)
class WhyResult:
    """One part of the Transformer, taken away and put back."""

    part: str
    seed: int
    problem: str
    """what fails without the part, in one sentence"""
    without: Measured
    with_part: Measured
    panels: tuple[Panel, ...]
    shows: str
    """what was measured and what one sees, numbers of this run in it"""
    held: bool
    """whether the effect was there this time, by the rule that `verdict` names"""
    verdict: str
    next_problem: str
    samples: tuple[tuple[str, str], ...] = ()
    """texts to read: (from what, the text)"""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """everything that was measured, by name"""
    following: str | None = None
    """the part that solves the next problem"""
    seconds: float = 0.0

    def picture(self, path: str | Path) -> Path:
        """Draw it into a file: PNG, SVG or PDF by the name's ending."""
        from budgerigar.experiments.why.pictures import draw

        return draw(self, path)

    def drawing(self, width: int = 96) -> Any:
        """The same picture for a terminal, as something that rich prints."""
        from budgerigar.experiments.why.drawing import drawing

        return drawing(self, width)

    def text(self, width: int = 96) -> str:
        """The whole result as plain text."""
        from budgerigar.experiments.why.drawing import as_text

        return as_text(self, width)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = dataclasses.asdict(self)
        found.pop("panels")
        found["with"] = found.pop("with_part")
        return found

    def __str__(self) -> str:
        return self.text()


def number(value: float, digits: int = 2) -> str:
    """Readable from 1e-300 to 1e300: 0.69, 1,234, 1.7e+06, 1e-11."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.{digits}f}"
    return f"{value:.1e}"
