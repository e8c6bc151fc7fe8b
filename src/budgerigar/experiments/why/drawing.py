"""A result in a terminal: bars of eighths of a column, lines of marks, coloured cells."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from budgerigar.experiments.demo_screen import alignment_grid, bar
from budgerigar.experiments.why.frame import Bars, Grid, Lines, Measured, Panel, WhyResult, number

MARKS = "●○▲△■□"
STYLES = ("bold cyan", "bold yellow", "bold magenta", "bold green", "bold red", "bold blue")
HEIGHT = 11  # lines of a drawing of lines
SAMPLE_WORDS = 40
MOST_VALUES = 9  # more points are not written out


def as_text(result: WhyResult, width: int = 96) -> str:
    """The whole result without colours."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, color_system=None).print(whole(result, width))
    return out.getvalue()


def whole(result: WhyResult, width: int = 96) -> Group:
    """Problem, both results, the drawing, what it shows, the verdict, the next problem."""
    sides = comparison(result.without, result.with_part)
    parts: list[Any] = [
        Text(result.problem, "bold"),
        Text(),
        sides,
        Text(),
        drawing(result, width),
    ]
    for title, text in result.samples:
        words = text.split()
        cut = " ".join(words[:SAMPLE_WORDS]) + (" …" if len(words) > SAMPLE_WORDS else "")
        parts += [Text(f"  {title}:", "dim"), Padding(Text(cut), (0, 0, 0, 4)), Text()]
    parts += [
        Text(result.shows),
        Text(),
        Text(result.verdict, "bold green" if result.held else "bold red"),
        Text(f"The next problem: {result.next_problem}"),
        Text(f"(seed {result.seed}, {result.seconds:.0f} s)", "dim"),
    ]
    return Group(*parts)


def comparison(without: Measured, with_part: Measured) -> Text:
    """Two lines: what, and how much."""
    broad = max(cell_len(without.what), cell_len(with_part.what))
    text = Text()
    for n, (side, style) in enumerate(((without, "bold yellow"), (with_part, "bold cyan"))):
        gap = " " * (broad - cell_len(side.what))
        text.append("\n" if n else "").append(f"  {side.what}{gap}  ").append(str(side), style)
    return text


def drawing(result: WhyResult, width: int = 96) -> Group:
    """All panels, one below the other."""
    parts: list[Any] = []
    for panel in result.panels:
        parts += [Text(f"  {panel.title}", "bold"), panel_text(panel, width), Text()]
    return Group(*parts)


def panel_text(panel: Panel, width: int) -> Text:
    """One panel, at most `width` columns wide."""
    if isinstance(panel, Bars):
        return _bars(panel, width)
    if isinstance(panel, Lines):
        return _lines(panel, width)
    return alignment_grid(panel.values, panel.rows, panel.columns)


def _bars(panel: Bars, width: int) -> Text:
    named = [*panel.rows, *([panel.line] if panel.line else [])]
    broad = max(cell_len(name) for name, _ in named)
    top = panel.top or max((value for _, value in named), default=1.0) or 1.0
    values = [f"{number(value)} {panel.unit}".replace(" %", "%").rstrip() for _, value in named]
    beside = max(map(len, values))
    room = max(8, min(40, width - broad - beside - 8))
    text = Text()
    for n, (name, value) in enumerate(named):
        is_line = n >= len(panel.rows)
        text.append("\n" if n else "")
        text.append(f"  {name}{' ' * (broad - cell_len(name))}  ", "dim" if is_line else "")
        text.append(f"{values[n]:>{beside}}  ", "dim" if is_line else "")
        text.append(bar(value / top, room), "dim" if is_line else "cyan")
    return text


def _lines(panel: Lines, width: int) -> Text:
    across = _scale(list(panel.x), panel.log_x)
    values = [v for line in panel.series.values() for v in line if _drawable(v, panel.log_y)]
    ends = [v for v in (panel.bottom, panel.top) if v is not None]
    lowest = -math.inf if panel.bottom is None else panel.bottom
    values = [max(v, lowest) for v in values]  # what lies below is drawn at the bottom
    up = _scale([*values, *ends, *([panel.line[1]] if panel.line else [])], panel.log_y)
    columns = max(24, min(64, width - 14))
    cells = [[(" ", "")] * columns for _ in range(HEIGHT)]

    def row_of(value: float) -> int:
        return round((1 - up(value)) * (HEIGHT - 1))

    if panel.line:
        cells[row_of(panel.line[1])] = [("╌", "dim")] * columns
    for n, line in reversed(list(enumerate(panel.series.values()))):  # the first one is on top
        for x, value in zip(panel.x, line, strict=True):
            if _drawable(value, panel.log_y):
                column = round(across(x) * (columns - 1))
                cells[row_of(value)][column] = (MARKS[n % 6], STYLES[n % 6])
    text = Text(f"  {panel.y_label}\n", "dim")
    labels = {0: _extreme(values, ends, max), HEIGHT - 1: _extreme(values, ends, min)}
    for row, line_cells in enumerate(cells):
        label = number(labels[row]) if row in labels else ""
        text.append(f"{label:>9} │", "dim")
        for character, style in line_cells:
            text.append(character, style)
        text.append("\n")
    left, right = _plain(panel.x[0]), _plain(panel.x[-1])
    text.append(f"{'':9} └{'─' * columns}\n{'':11}{left}", "dim")
    middle = panel.x_label.center(max(1, columns - len(left) - len(right)))
    text.append(f"{middle}{right}\n", "dim")
    return text.append_text(_legend(panel))


def _legend(panel: Lines) -> Text:
    text = Text()
    for n, (name, line) in enumerate(panel.series.items()):
        text.append("\n" if n else "").append(f"  {MARKS[n % 6]} ", STYLES[n % 6]).append(name)
        text.append(f"  {_values(line)}", "dim")
    if panel.line:
        text.append(f"\n  ╌ {panel.line[0]}  {number(panel.line[1])}", "dim")
    return text


def _values(line: Sequence[float]) -> str:
    """All of them, or of many the first and the last."""
    said = [number(v) if math.isfinite(v) else "-" for v in line]
    return " · ".join(said) if len(said) <= MOST_VALUES else f"{said[0]} → {said[-1]}"


def _drawable(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _extreme(values: Sequence[float], ends: Sequence[float], choose: Callable[..., float]) -> float:
    return choose([*values, *ends], default=0.0)


def _scale(values: Sequence[float], log: bool) -> Callable[[float], float]:
    """A function from a value to its place, 0 to 1, among `values`."""
    change = math.log if log else float
    places = [change(v) for v in values if _drawable(v, log)] or [0.0, 1.0]
    low, high = min(places), max(places)
    span = high - low or 1.0
    return lambda value: min(1.0, max(0.0, (change(value) - low) / span))


def _plain(value: float) -> str:
    return f"{value:,g}" if value == int(value) else f"{value:g}"


def overview(results: Sequence[WhyResult]) -> Any:
    """All results as one table."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("part", "without", "with", "held", "seconds"):
        table.add_column(name, justify="right" if name == "seconds" else "left")
    for result in results:
        table.add_row(
            result.part,
            f"{result.without.what}\n[yellow]{result.without}[/]",
            f"{result.with_part.what}\n[cyan]{result.with_part}[/]",
            "yes" if result.held else "[red]NO[/]",
            f"{result.seconds:.0f}",
        )
        table.add_section()
    return table


__all__ = ["Grid", "as_text", "comparison", "drawing", "overview", "panel_text", "whole"]
