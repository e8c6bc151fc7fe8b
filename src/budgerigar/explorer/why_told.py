"""What came out of an experiment, as the page gets it: words, both sides, the pictures as data."""

from __future__ import annotations

from typing import Any

from budgerigar.experiments.why.frame import Bars, Grid, Lines, Panel, WhyResult, number
from budgerigar.inspection.views.payload import Stored


def why_told(result: WhyResult) -> dict[str, Any]:
    """WHY: {"part", "seed", "problem", "without": SIDE, "with": SIDE, "shows", "held", "verdict",
    "next_problem", "seconds", "panels": [PANEL], "samples": [[from what, text]], "text": the whole
    result as a terminal shows it}

    SIDE: {"what", "words"}
    PANEL, one of
     {"kind": "bars", "title", "unit", "top", "rows": [[name, value, words]]}
     {"kind": "lines", "title", "x_label", "y_label", "x": [P numbers], "log_x", "log_y", "bottom",
      "top", "series": [[name, f4 (P)]], "line": [name, value]|null}
     {"kind": "grid", "title", "rows": [names], "columns": [names], "values": [[numbers]],
      "column_axis"}
    """
    sides = {"without": result.without, "with": result.with_part}
    return {
        "part": result.part,
        "seed": result.seed,
        **{name: {"what": side.what, "words": side.words} for name, side in sides.items()},
        "problem": result.problem,
        "shows": result.shows,
        "held": result.held,
        "verdict": result.verdict,
        "next_problem": result.next_problem,
        "seconds": result.seconds,
        "panels": [_panel(panel) for panel in result.panels],
        "samples": [list(sample) for sample in result.samples],
        "text": result.text(84),
    }


def _panel(panel: Panel) -> dict[str, Any]:
    if isinstance(panel, Bars):
        return _bars(panel)
    if isinstance(panel, Lines):
        return _lines(panel)
    return _grid(panel)


def _bars(panel: Bars) -> dict[str, Any]:
    rows = [*panel.rows, *([panel.line] if panel.line else [])]
    return {
        "kind": "bars",
        "title": panel.title,
        "unit": panel.unit,
        "top": panel.top or max((value for _, value in rows), default=1.0) or 1.0,
        "rows": [[name, value, number(value)] for name, value in rows],
    }


def _lines(panel: Lines) -> dict[str, Any]:
    import numpy as np

    return {
        "kind": "lines",
        "title": panel.title,
        "x_label": panel.x_label,
        "y_label": panel.y_label,
        "x": list(panel.x),
        "log_x": panel.log_x,
        "log_y": panel.log_y,
        "bottom": panel.bottom,
        "top": panel.top,
        "series": [
            [name, Stored(np.array(values, dtype=np.float32))]
            for name, values in panel.series.items()
        ],
        "line": None if panel.line is None else list(panel.line),
    }


def _grid(panel: Grid) -> dict[str, Any]:
    return {
        "kind": "grid",
        "title": panel.title,
        "rows": list(panel.rows),
        "columns": list(panel.columns),
        "values": [[float(value) for value in row] for row in panel.values],
        "column_axis": panel.column_axis,
    }
