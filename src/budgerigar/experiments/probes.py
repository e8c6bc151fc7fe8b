"""What the probes of `budgie compare --probe` give back: a table, charts, what they say; and files."""

from __future__ import annotations

import html
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from budgerigar.errors import UserError
from budgerigar.experiments.compare_page import draw, html_page, html_table, inline_svg, write_csv
from budgerigar.experiments.compare_words import lined_up
from budgerigar.experiments.folders import read_kept, refuse_strangers
from budgerigar.experiments.why.drawing import panel_text
from budgerigar.experiments.why.frame import Lines
from budgerigar.formats.atomic import write_text

MARK = "probe.json"


@dataclass(frozen=True)
class Chart:
    """Lines over their own points."""

    name: str
    """also the name of its file"""
    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    line: tuple[str, float] | None = None
    log_x: bool = True
    log_y: bool = False

    def panel(self) -> Lines:
        """For a terminal: all series at the same points."""
        xs = sorted({x for points in self.series.values() for x, _ in points})
        series = {
            name: [dict(points).get(x, math.nan) for x in xs]
            for name, points in self.series.items()
        }
        log_x = self.log_x and all(x > 0 for x in xs)
        return Lines(
            self.title, self.x_label, self.y_label, xs, series, log_x, self.log_y, self.line
        )


@dataclass(frozen=True)
class Probe:
    """One probe's result. Everything in it was measured in this run."""

    name: str
    title: str
    about: str
    seed: int
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    charts: tuple[Chart, ...]
    says: tuple[str, ...]
    """a sentence each"""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "probe": self.name,
            "about": self.about,
            "seed": self.seed,
            "says": list(self.says),
            **self.numbers,
            "folder": None if self.folder is None else str(self.folder),
        }

    def __str__(self) -> str:
        out = io.StringIO()
        console = Console(file=out, width=116, highlight=False, color_system=None)
        console.print(self.title, markup=False)
        console.print(self.about, markup=False)
        console.print(lined_up(self.head, self.rows, wrap=True))
        for chart in self.charts:
            console.print(f"  {chart.title}", markup=False)
            console.print(panel_text(chart.panel(), 116))
            console.print()
        for sentence in self.says:
            console.print(sentence, markup=False)
        return out.getvalue()

    def write(self) -> Probe:
        """Page, pictures, table and numbers into the folder."""
        assert self.folder is not None
        write_csv(self.folder / "table.csv", [self.head, *self.rows])
        for chart in self.charts:
            for ending in ("png", "svg"):
                draw(
                    list(chart.series.items()),
                    chart.x_label,
                    chart.y_label,
                    self.folder / f"{chart.name}.{ending}",
                    title=chart.title,
                    about=self.title,
                    line=chart.line,
                    log_x=chart.log_x,
                    log_y=chart.log_y,
                )
        body = [f"<h1>{html.escape(self.title)}</h1>", f"<p>{html.escape(self.about)}</p>"]
        body.append(html_table(self.head, self.rows))
        body += [f"<p>{html.escape(sentence)}</p>" for sentence in self.says]
        for chart in self.charts:
            body.append(f"<h2>{html.escape(chart.title)}</h2>")
            body.append(inline_svg(self.folder / f"{chart.name}.svg"))
        write_text(self.folder / f"{self.name}.html", html_page(self.title, body))
        return self


def probe_folder(out: Path | None, name: str, settings: Mapping[str, Any]) -> Path:
    """The folder of a probe with these settings, made if it is not there; the same probe goes on.

    Raises:
        UserError: it holds something else.
    """
    folder = out or Path("runs") / f"probe-{name}"
    now = json.loads(json.dumps({"probe": name, **settings}))
    path = folder / MARK
    refuse_strangers(folder, MARK, "probe")
    if path.is_file() and read_kept(path, mark=True) != now:
        raise UserError(
            f"{folder} holds a probe with other settings; choose another --out or remove it."
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(now, indent=2))
    return folder


def kept(folder: Path, name: str) -> Any:
    """What `keep` put aside; None if nothing."""
    path = folder / f"{name}.json"
    return read_kept(path) if path.is_file() else None


def keep(folder: Path, name: str, value: Any) -> None:
    """Put a finished part aside, for a probe that is stopped before its end."""
    write_text(folder / f"{name}.json", json.dumps(value))
