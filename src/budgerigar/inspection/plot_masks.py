"""Masked cells of a heat map: hatched, each kind of mask its own way, and the legend that says why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.inspection.matrix import MASKED, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HATCHES = {
    "future": "////",
    "window": "\\\\\\\\",
    "document": "xxxx",
    "padding": "....",
    "source": "----",
}
_HATCH_COLOUR, _MASK_COLOUR = "#9a9a9a", "#efefef"


def hatch(axes: Axes, matrix: Matrix) -> None:
    """Hatch masked cells, each kind of mask its own way, as one path per kind."""
    from matplotlib.patches import PathPatch

    for reason in matrix.reasons:
        assert matrix.mask is not None
        path = _cells_path(matrix.mask.where(reason))
        axes.add_artist(  # add_patch would compute the limits from every cell
            PathPatch(
                path,
                facecolor=_MASK_COLOUR,
                edgecolor=_HATCH_COLOUR,
                hatch=_HATCHES[reason],
                linewidth=0.0,
                zorder=1,
            )
        )


def legend(figure: Figure, matrices: Sequence[Matrix], x: float, y: float) -> None:
    """What each hatch means, in one line at the foot."""
    from matplotlib.patches import Rectangle

    reasons = [r for r in MASKED if any(r in matrix.reasons for matrix in matrices)]
    wide, high = figure.get_size_inches()
    for reason in reasons:
        patch = Rectangle(
            (x, y),
            0.24 / wide,
            0.14 / high,
            transform=figure.transFigure,
            facecolor=_MASK_COLOUR,
            edgecolor=_HATCH_COLOUR,
            hatch=_HATCHES[reason],
            linewidth=0.5,
        )
        figure.add_artist(patch)
        figure.text(x + 0.30 / wide, y, MASKED[reason], size=8, va="bottom")
        x += (0.45 + len(MASKED[reason]) * 0.062) / wide


def _cells_path(cells: np.ndarray) -> Any:
    """The outlines of runs of True in each row of (T,S), as one compound path."""
    from matplotlib.path import Path as Outline

    vertices: list[tuple[float, float]] = []
    codes: list[Any] = []
    padded = np.pad(cells.astype(np.int8), ((0, 0), (1, 1)))
    changes: Any = np.argwhere(np.diff(padded, axis=1))  # (row, column), start and stop in turn
    for (row, start), (_, stop) in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
        left, right, up, down = start - 0.5, stop - 0.5, row - 0.5, row + 0.5
        vertices += [(left, up), (right, up), (right, down), (left, down), (left, up)]
        codes += [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO]
        codes.append(Outline.CLOSEPOLY)
    return Outline(vertices, codes)
