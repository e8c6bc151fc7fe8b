"""The files of an ablation: cells.csv, runs.csv, pictures (PNG, SVG) and one page, all offline."""

from __future__ import annotations

import html
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from budgerigar.experiments.ablate_dials import in_words
from budgerigar.experiments.ablate_results import Ablation
from budgerigar.experiments.ablate_statistics import Difference
from budgerigar.experiments.ablate_words import (
    EFFECT_HEAD,
    EFFECTS_ABOUT,
    UNITS,
    about,
    decision,
    effect_name,
    effect_rows,
    findings,
    head,
    ranked,
    rows,
    span,
    verdicts,
)
from budgerigar.experiments.compare_page import html_page, html_table, inline_svg, write_csv
from budgerigar.experiments.why.pictures import COLOURS, GREY
from budgerigar.formats.atomic import write_text
from budgerigar.inspection.plots import Texts, blank_figure, fit, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RUN_FIELDS = (
    "seed", "bits_per_byte", "loss", "bleu", "best_step", "training_seconds", "diverged",
)  # fmt: skip
ROW_HIGH, LETTER = 0.3, 0.075  # inches of a row, and of a letter beside it
TITLE = 0.28  # inches of the line above all
INK = {"better": COLOURS[0], "worse": COLOURS[1]}


def write_files(found: Ablation) -> None:
    """All files into the ablation's folder."""
    folder, dials = found.folder, [dial.name for dial in found.dials]
    runs = [
        [*map(in_words, cell.values), cell.parameters, cell.steps]
        + [getattr(run, name) for name in RUN_FIELDS]
        for cell in found.cells
        for run in cell.runs
    ]
    write_csv(folder / "runs.csv", [[*dials, "parameters", "steps", *RUN_FIELDS], *runs])
    write_csv(folder / "cells.csv", _cells(found))
    for ending in ("png", "svg"):
        draw_cells(found, folder / f"cells.{ending}")
        if found.effects:
            draw_effects(found, folder / f"effects.{ending}")
    write_text(folder / "ablate.html", page(found))


def _cells(found: Ablation) -> list[list[Any]]:
    """The table of cells with all digits, the base first."""
    measure = found.measure
    lines: list[list[Any]] = [
        [dial.name for dial in found.dials]
        + ["parameters", "steps", "n", "diverged", measure, "standard_deviation"]
        + ["difference", "low", "high", "p", "p_holm", "verdict"]
    ]
    for cell, d, verdict in zip(found.cells, found.differences, verdicts(found), strict=True):
        values = list(cell.by_seed(measure).values())
        mean = statistics.fmean(values) if values else None
        deviation = statistics.stdev(values) if len(values) > 1 else None
        compared = [None] * 5 if d is None else [d.mean, d.low, d.high, d.p, d.adjusted]
        counts = [cell.parameters, cell.steps, len(values), len(cell.diverged)]
        lines.append([*map(in_words, cell.values), *counts, mean, deviation, *compared, verdict])
    return lines


# -- pictures ------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """One line of a picture."""

    name: str
    values: Sequence[float]
    difference: Difference | None
    verdict: str


def draw_cells(found: Ablation, path: Path) -> None:
    """Left: each run, means and standard deviations. Right: differences to the base, intervals."""
    said = dict(zip(found.cells, verdicts(found), strict=True))
    differences = dict(zip(found.cells, found.differences, strict=True))
    lines = [
        _Row(c.label, list(c.by_seed(found.measure).values()), differences[c], said[c])
        for c in ranked(found)
    ]
    beside = 0.3 + LETTER * max(len(line.name) for line in lines)
    high = ROW_HIGH * len(lines) + 1.35 + TITLE
    figure = blank_figure((beside + 7.4, high))
    wide, box = beside + 7.4, (0.62 / high, 1 - (1.1 + TITLE) / high)
    left = figure.add_axes((beside / wide, box[0], 3.4 / wide, box[1]))
    right = figure.add_axes(((beside + 3.7) / wide, box[0], 3.5 / wide, box[1]))
    _values(left, lines)
    left.set_xlabel(f"{UNITS[found.measure]}: runs, mean ± deviation", size=9)
    left.set_yticks(range(len(lines)), [line.name for line in lines], size=8.5)
    _differences(right, lines)
    right.set_yticks(range(len(lines)), [""] * len(lines))
    right.set_xlabel("difference to the base, 95 % interval", size=9)
    _head(figure, found, path)
    save(figure, path)


def draw_effects(found: Ablation, path: Path) -> None:
    """What each dial does over the settings of the others."""
    lines = [
        _Row(effect_name(one), (), one.difference, decision(one.difference))
        for one in found.effects
    ]
    beside = 0.3 + LETTER * max(len(line.name) for line in lines)
    wide, high = beside + 4.6, ROW_HIGH * len(lines) + 1.35 + TITLE
    figure = blank_figure((wide, high))
    axes = figure.add_axes((beside / wide, 0.62 / high, 4.4 / wide, 1 - (1.1 + TITLE) / high))
    _differences(axes, lines)
    axes.set_yticks(range(len(lines)), [line.name for line in lines], size=8.5)
    axes.set_xlabel(f"{UNITS[found.measure]}, mean over the other dials, 95 % interval", size=9)
    _head(figure, found, path)
    save(figure, path)


def _values(axes: Axes, lines: Sequence[_Row]) -> None:
    """A hollow dot per run, the mean full, the standard deviation as a bar."""
    for at, line in enumerate(lines):
        if not line.values:
            axes.text(
                0.02, at, line.verdict, transform=axes.get_yaxis_transform(), size=8.5, va="center"
            )
            continue
        mean = float(np.mean(line.values))
        deviation = float(np.std(line.values, ddof=1)) if len(line.values) > 1 else 0.0
        axes.errorbar(mean, at, xerr=deviation, fmt="o", color="black", markersize=4, capsize=3)
        places = [at + 0.24] * len(line.values)
        axes.scatter(line.values, places, s=14, facecolors="none", edgecolors=GREY, linewidths=0.9)
    for at, line in enumerate(lines):  # beside the dots, when their range is known
        if line.values and line.verdict.startswith("diverged"):
            low, high = axes.get_xlim()
            right = float(np.mean(line.values)) < (low + high) / 2
            place, side = (0.98, "right") if right else (0.02, "left")
            across = axes.get_yaxis_transform()
            axes.text(place, at, line.verdict, transform=across, size=8.5, va="center", ha=side)
    _plain(axes, len(lines))


def _differences(axes: Axes, lines: Sequence[_Row]) -> None:
    """Dots with their intervals, coloured by the verdict, beside a line at 0."""
    axes.axvline(0, color=GREY, linestyle="--", linewidth=1)
    known = [line.difference for line in lines if line.difference is not None]
    for at, line in enumerate(lines):
        d = line.difference
        if d is None:
            axes.annotate(
                line.verdict, (0, at), (5, 0), textcoords="offset points", size=8.5, va="center"
            )
            continue
        bars = None if d.low is None or d.high is None else [[d.mean - d.low], [d.high - d.mean]]
        ink = INK.get(line.verdict, GREY)
        full = "full" if line.verdict in INK else "none"
        mark = "x" if line.verdict.startswith("diverged") else "o"
        axes.errorbar(
            d.mean, at, xerr=bars, fmt=mark, color=ink, markersize=5, capsize=3, fillstyle=full
        )
    if known:
        low, high = span(known)
        room = 0.04 * (high - low)
        axes.set_xlim(low - room, high + room)
    _plain(axes, len(lines))


def _plain(axes: Axes, n: int) -> None:
    axes.set_ylim(n - 0.5, -0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8.5)
    axes.locator_params(axis="x", nbins=6)
    axes.grid(axis="x", alpha=0.25, linewidth=0.6)


def _head(figure: Any, found: Ablation, path: Path) -> None:
    """What was varied on what, and what the colours mean, above."""
    wide, high = figure.get_size_inches()
    texts = Texts([found.recipe, found.corpus], path.suffix == ".svg")
    title = fit(f"{found.recipe} on {found.corpus}: {varied(found)}", wide)
    style: dict[str, Any] = {"family": texts.families, "parse_math": False, "weight": "bold"}
    figure.text(0.15 / wide, 1 - 0.1 / high, texts(title), size=9.5, va="top", **style)
    marks = (
        (0.15, "● better", INK["better"]),
        (0.9, "● worse", INK["worse"]),
        (1.6, "○ within noise", GREY),
        (2.75, "× a run diverged", GREY),
    )
    for inches, text, ink in marks:
        place = (inches / wide, 1 - (0.12 + TITLE) / high)
        figure.text(*place, text, size=8.5, color=ink, va="top")


def varied(found: Ablation) -> str:
    """The dials by name."""
    return " and ".join(dial.name for dial in found.dials)


# -- the page ------------------------------------------------------------------------------------


def page(found: Ablation) -> str:
    """The page; pictures are inside it."""
    title = f"{found.recipe}: {varied(found)}"
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{html.escape(about(found))}</p>",
        html_table(head(found), rows(found), left=len(found.dials)),
        *(f"<p>{html.escape(sentence)}</p>" for sentence in findings(found)),
        "<h2>The cells</h2>",
        inline_svg(found.folder / "cells.svg"),
    ]
    if found.effects:
        body += [
            "<h2>The dials</h2>",
            f"<p>{EFFECTS_ABOUT}</p>",
            html_table(EFFECT_HEAD, effect_rows(found)),
            inline_svg(found.folder / "effects.svg"),
        ]
    return html_page(title, body)
