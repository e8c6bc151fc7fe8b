"""A result as a picture: its panels beside each other, drawn by matplotlib."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.experiments.why.frame import Bars, Grid, Lines, WhyResult, number
from budgerigar.inspection.plots import blank_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito (2008): apart for colour-blind eyes too; and each line has its own mark
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKS = "osD^vP"
MOST_MARKS = 20
GREY = "#555555"
PANEL_WIDE, PANEL_HIGH = 5.4, 3.7  # inches


def draw(result: WhyResult, path: str | Path) -> Path:
    """Write the picture of `result`: PNG, SVG or PDF."""
    n = len(result.panels)
    wide, high = PANEL_WIDE * n, PANEL_HIGH + 1.75
    figure = blank_figure((wide, high))
    about = "\n".join(textwrap.wrap(result.problem, int(wide * 13.5)))
    heads: tuple[tuple[float, str, dict[str, Any]], ...] = (
        (0.14, f"why {result.part}?", {"size": 12, "weight": "bold"}),
        (0.42, about, {"size": 9}),
        (0.86, f"{result.without.what}   {result.without}", {"size": 9.5, "color": COLOURS[1]}),
        (1.06, f"{result.with_part.what}   {result.with_part}", {"size": 9.5, "color": COLOURS[0]}),
    )
    for down, text, style in heads:
        figure.text(0.12 / wide, 1 - down / high, text, va="top", **style)
    foot = f"{result.verdict}  (seed {result.seed})"
    lines = "\n".join(textwrap.wrap(foot, int(wide * 14.5)))
    figure.text(0.12 / wide, 0.08 / high, lines, size=8.5, va="bottom", color=GREY)
    for at, panel in enumerate(result.panels):
        left = at * PANEL_WIDE + (1.75 if isinstance(panel, Bars | Grid) else 0.95)
        right = (at + 1) * PANEL_WIDE - 0.3
        box = (left / wide, 0.98 / high, (right - left) / wide, (PANEL_HIGH - 0.75) / high)
        axes = figure.add_axes(box)
        axes.set_title(panel.title, size=10, loc="left")
        if isinstance(panel, Bars):
            _bars(axes, panel)
        elif isinstance(panel, Lines):
            _lines(axes, panel)
        else:
            _grid(axes, panel)
    return save(figure, path, dpi=120)


def _bars(axes: Axes, panel: Bars) -> None:
    names = [textwrap.fill(name, 22) for name, _ in panel.rows]
    values = [value for _, value in panel.rows]
    places = np.arange(len(names))
    axes.barh(places, values, color=COLOURS[0], height=0.62)
    top = panel.top or max([*values, *([panel.line[1]] if panel.line else [])]) or 1.0
    for place, value in zip(places, values, strict=True):
        label = f" {number(value)} {panel.unit}".replace(" %", "%").rstrip()
        axes.text(max(value, 0.0), float(place), label, va="center", size=8.5)
    if panel.line:
        axes.axvline(panel.line[1], color=GREY, linestyle="--", linewidth=1)
        axes.text(panel.line[1], -0.62, f" {panel.line[0]}", size=8, color=GREY, va="bottom")
    axes.set_yticks(places, names, size=8.5)
    axes.set_ylim(len(names) - 0.4, -0.75)
    axes.set_xlim(0, top * 1.3)
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= top * 1.01])
    axes.set_xlabel(panel.unit or panel.title, size=9)
    _plain(axes)


def _lines(axes: Axes, panel: Lines) -> None:
    for n, (name, values) in enumerate(panel.series.items()):
        heights = [np.nan if panel.log_y and not v > 0 else v for v in values]
        style: Any = {"color": COLOURS[n % 6], "linewidth": 1.6}
        if len(panel.x) <= MOST_MARKS:
            style |= {"marker": MARKS[n % 6], "markersize": 5}
        axes.plot(list(panel.x), heights, label=name, **style)
    if panel.line:
        axes.axhline(panel.line[1], color=GREY, linestyle="--", linewidth=1, label=panel.line[0])
    if panel.log_x:
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(panel.x), [f"{x:g}" for x in panel.x])
        axes.minorticks_off()
    if panel.log_y:
        axes.set_yscale("log")
    if panel.log_y:
        axes.set_ylim(bottom=panel.bottom, top=panel.top)
    elif panel.bottom is not None or panel.top is not None:
        low, high = axes.get_ylim()
        room = 0.03 * (high - low)
        axes.set_ylim(
            None if panel.bottom is None else panel.bottom - room,
            None if panel.top is None else panel.top + room,
        )
    axes.set_xlabel(panel.x_label, size=9)
    axes.set_ylabel(panel.y_label, size=9)
    axes.legend(fontsize=8, frameon=False)
    _plain(axes)


def _grid(axes: Axes, panel: Grid) -> None:
    values = np.asarray(panel.values, dtype=float)
    axes.imshow(values, cmap="viridis", vmin=0.0, vmax=max(1.0, float(values.max())), aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        ink = "black" if value > 0.55 else "white"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", size=9, color=ink)
    names = [textwrap.fill(name, 22) for name in panel.rows]
    axes.set_yticks(range(len(names)), names, size=8.5)
    axes.set_xticks(range(len(panel.columns)), list(panel.columns), size=9)
    axes.set_xlabel(panel.column_axis, size=9)
    axes.tick_params(length=0)


def _plain(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8.5)
