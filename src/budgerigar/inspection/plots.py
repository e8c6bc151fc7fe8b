"""Heat maps as PNG, SVG or PDF: one head, the heads of one layer, all heads as a grid.

Row = query (the token that looks), column = key (the token looked at), both labelled in words; the
origin is at the top left, cells are square, masked cells hatched. The colour scale is viridis
(perceptually uniform), its numbers are the data's. Nothing here touches pyplot's global state.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.formats.atomic import file_aside
from budgerigar.inspection import fonts
from budgerigar.inspection.labels import is_wide, shorten, width
from budgerigar.inspection.matrix import (
    KEY_AXIS,
    PREDICTED_AXIS,
    QUERY_AXIS,
    SOURCE_AXIS,
    Matrix,
    scale_top,
)
from budgerigar.inspection.plot_masks import hatch, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHORT_AXES = {
    QUERY_AXIS: "query: looks",
    KEY_AXIS: "key: looked at",
    PREDICTED_AXIS: "query: predicted",
    SOURCE_AXIS: "key: source",
}
"""For pictures too small for the whole words."""
_LABEL_COLUMNS = 16  # a longer label loses its middle
_NUMBERED = 12  # up to so many queries and keys, cells show their number
_ENDINGS = (".png", ".svg", ".pdf")


def head_figure(matrix: Matrix, top: float | None = None, text_only: bool = False) -> Figure:
    """One head. top: weight at the upper end of the colour scale; None fits it.

    text_only: for SVG, whose reader brings the fonts, so none need be found here.
    """
    rows, columns = matrix.weights.shape
    cell = _cell_inches(max(rows, columns))
    left = 0.5 + _label_inches(matrix.query_labels, cell)
    above = 0.88 + _label_inches(matrix.key_labels, cell, upright=True)
    inches = (max(left + columns * cell + 0.95, 5.2), max(above + rows * cell, 2.4) + 0.45)
    figure = blank_figure(inches)
    box = (
        left / inches[0],
        (inches[1] - above - rows * cell) / inches[1],
        columns * cell / inches[0],
        rows * cell / inches[1],
    )
    axes = figure.add_axes(box)
    top = top or scale_top([matrix])
    texts = Texts([*matrix.query_labels, *matrix.key_labels, matrix.name, matrix.about], text_only)
    image = _draw(axes, matrix, top)
    _label_axes(axes, matrix, cell, texts)
    if max(rows, columns) <= _NUMBERED:
        _write_numbers(axes, matrix, top)
    bar_box = (box[0] + box[2] + 0.15 / inches[0], box[1], 0.16 / inches[0], box[3])
    _colour_bar(figure, image, figure.add_axes(bar_box), top)
    place = 0.12 / inches[0]
    write_title(figure, texts(matrix.name), texts(fit(matrix.about, inches[0])), texts.families)
    legend(figure, [matrix], place, 0.10 / inches[1])
    return figure


def layer_figure(matrices: Sequence[Matrix], text_only: bool = False) -> Figure:
    """All heads of one layer beside each other, on one colour scale."""
    if not matrices:
        raise UserError("there are no heads to draw")
    rows, columns = matrices[0].weights.shape
    longest = max(rows, columns)
    cell = min(_cell_inches(longest), 4.2 / longest)
    across = min(len(matrices), max(1, int(13 // (columns * cell + 1.4))))
    down = -(-len(matrices) // across)
    side = 0.45 + _label_inches(matrices[0].query_labels, cell)
    roof = 0.55 + _label_inches(matrices[0].key_labels, cell, upright=True)
    pitch = (side + columns * cell + 0.15, roof + rows * cell + 0.15)
    inches = (max(across * pitch[0] + 1.0, 5.2), down * pitch[1] + 1.1)
    figure = blank_figure(inches)
    top = scale_top(matrices)
    labels = [*matrices[0].query_labels, *matrices[0].key_labels]
    texts = Texts([*labels, matrices[0].about, *(m.name for m in matrices)], text_only)
    image = None
    for index, matrix in enumerate(matrices):
        x = (index % across) * pitch[0] + side
        y = inches[1] - 0.7 - (index // across + 1) * pitch[1] + 0.15
        axes = figure.add_axes(
            (x / inches[0], y / inches[1], columns * cell / inches[0], rows * cell / inches[1])
        )
        image = _draw(axes, matrix, top)
        _label_axes(axes, matrix, cell, texts)
        corner = ((x - side + 0.12) / inches[0], (y + rows * cell + roof - 0.15) / inches[1])
        figure.text(*corner, texts(matrix.short), size=10, weight="bold", va="top")
    title = _with_group("heads of one layer", matrices)
    _finish(figure, inches, matrices, image, top, texts, title)
    return figure


def grid_figure(
    rows: Sequence[Sequence[Matrix]], about: str = "", text_only: bool = False
) -> Figure:
    """All heads: a row of thumbnails per layer, layer 0 at the top, on one colour scale."""
    heads = [matrix for row in rows for matrix in row]
    if not heads:
        raise UserError("there are no heads to draw")
    across, down = max(map(len, rows)), len(rows)
    wide, high = _thumbnail(min(2.2, 15 / across), *heads[0].weights.shape)
    inches = (max(across * (wide + 0.12) + 1.15, 5.2), max(down * (high + 0.32), 1.2) + 1.15)
    figure = blank_figure(inches)
    top = scale_top(heads)
    texts = Texts([about or heads[0].about], text_only)
    image = None
    for y, row in enumerate(rows):
        for x, matrix in enumerate(row):
            left = 0.2 + x * (wide + 0.12)
            bottom = inches[1] - 0.7 - (y + 1) * (high + 0.32) + 0.05
            axes = figure.add_axes(
                (left / inches[0], bottom / inches[1], wide / inches[0], high / inches[1])
            )
            image = _draw(axes, matrix, top)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(matrix.short, size=9, pad=3)
    bar = 0.35 + across * (wide + 0.12)
    title = _with_group("all heads, layer 0 at the top", heads)
    _finish(figure, inches, heads, image, top, texts, title, about, bar)
    return figure


def _thumbnail(size: float, rows: int, columns: int) -> tuple[float, float]:
    """Width and height in inches of square cells, the longer side `size`, neither too thin to see."""
    longest = max(rows, columns)
    return max(size * columns / longest, 0.55), max(size * rows / longest, 0.3)


def _with_group(title: str, matrices: Sequence[Matrix]) -> str:
    group = matrices[0].group
    return f"{title}: {group}" if group else title


def save(figure: Figure, path: str | Path, dpi: int = 150) -> Path:
    """Write `figure` as the ending of `path` says: .png, .svg (text stays text) or .pdf."""
    import matplotlib

    target = Path(path)
    if target.suffix.lower() not in _ENDINGS:
        raise UserError(
            f"a picture cannot be written as {target.name!r}: its name must end in "
            + ", ".join(_ENDINGS)
        )
    if not target.parent.is_dir():
        raise UserError(f"there is no folder {target.parent} to write {target.name} into")
    # No date and a fixed salt: the same data gives the same file.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "budgerigar", "hatch.linewidth": 0.4}
    vector = target.suffix.lower() == ".svg"
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        if vector:  # measured here, but drawn by the reader's fonts
            warnings.filterwarnings("ignore", message="Glyph .* missing")
        metadata = {"Date": None} if vector else {}
        with file_aside(target) as aside:
            ending = target.suffix.lower().removeprefix(".")
            figure.savefig(aside, dpi=dpi, metadata=metadata, format=ending)
    return target


class Texts:
    """Which fonts draw the labels of a figure; characters that no font has are replaced."""

    def __init__(self, texts: Sequence[str], text_only: bool) -> None:
        self.families, self.missing = fonts.families_for([*texts, "…“”"])
        if text_only:
            self.missing = set()
        fonts.note_missing(self.missing)

    def __call__(self, text: str) -> str:
        return fonts.readable(text, self.missing)


def blank_figure(inches: tuple[float, float]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _cell_inches(n: int) -> float:
    """Side of a cell: large enough for a number where there are few, 11 inches in all for 128."""
    return float(min(0.46, max(9.0 / max(n, 1), 0.086)) if n > _NUMBERED else 0.46)


def _font_size(cell: float) -> float:
    """Points that fit a row of `cell` inches."""
    return float(min(9.5, max(5.0, cell * 72 * 0.78)))


def _label_inches(labels: Sequence[str], cell: float, upright: bool = False) -> float:
    """Room for the longest label, beside the rows or (upright) above the columns."""
    size = _font_size(cell)
    em = size / 72
    stacked = [label for label in labels if upright and _stacks(label)]
    across = [width(shorten(label, _LABEL_COLUMNS)) for label in labels if label not in stacked]
    high = max((len(label) * 1.25 * em for label in stacked), default=0.0)
    return max(high, max(across, default=0) * 0.62 * em + 0.08)


def _stacks(label: str) -> bool:
    """Whether a label reads better with one character below the other: Chinese and its kin."""
    return is_wide(label) and len(label) <= 6


def _stride(n: int, cell: float) -> int:
    """Every so many labels are written, so that none touches the next."""
    return max(1, int(np.ceil(_font_size(cell) * 1.05 / 72 / cell - 1e-9)))


def _draw(axes: Axes, matrix: Matrix, top: float) -> Any:
    """Cells and hatches, without labels. Returns the image for the colour bar."""
    from matplotlib import colormaps

    rows, columns = matrix.weights.shape
    hatch(axes, matrix)
    cells = np.ma.masked_array(matrix.weights, mask=matrix.masked)
    image = axes.imshow(
        cells,
        cmap=colormaps["viridis"].with_extremes(bad=(0, 0, 0, 0)),
        vmin=0.0,
        vmax=top,
        interpolation="nearest",
        aspect="equal",
        zorder=2,
    )
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)
    return image


def _label_axes(axes: Axes, matrix: Matrix, cell: float, texts: Texts) -> None:
    """Words at rows and columns, and what rows and columns are."""
    rows, columns = matrix.weights.shape
    size, stride = _font_size(cell), _stride(max(rows, columns), cell)
    queries, keys = range(0, rows, stride), range(0, columns, stride)
    style: Any = {"fontsize": size, "family": texts.families, "parse_math": False}
    axes.set_yticks(
        list(queries),
        [texts(shorten(matrix.query_labels[q], _LABEL_COLUMNS)) for q in queries],
        **style,
    )
    axes.xaxis.tick_top()
    names = [matrix.key_labels[k] for k in keys]
    written = ["\n".join(n) if _stacks(n) else shorten(n, _LABEL_COLUMNS) for n in names]
    axes.set_xticks(list(keys), [texts(name) for name in written], **style)
    for label, name in zip(axes.get_xticklabels(), names, strict=True):
        label.set_rotation(0 if _stacks(name) else 90)
    axes.tick_params(axis="x", pad=2)
    axes.tick_params(axis="y", pad=2)
    axes.xaxis.set_label_position("top")
    every = f" (every {_ordinal(stride)} labelled)" if stride > 1 else ""
    short = min(rows, columns) * cell < 2.2
    axis_names = (matrix.key_axis, matrix.query_axis)
    across, down = (_SHORT_AXES.get(name, name) if short else name for name in axis_names)
    axes.set_xlabel(across + every, size=8.5, labelpad=4)
    axes.set_ylabel(down + every, size=8.5, labelpad=4)


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _write_numbers(axes: Axes, matrix: Matrix, top: float) -> None:
    for (row, key), weight in np.ndenumerate(matrix.weights):
        if not matrix.masked[row, key]:
            colour = "black" if weight / top > 0.55 else "white"
            axes.text(key, row, f"{weight:.2f}", ha="center", va="center", size=8, color=colour)


def _colour_bar(figure: Figure, image: Any, axes: Axes, top: float) -> None:
    high = axes.get_position().height * figure.get_size_inches()[1]
    ticks = np.linspace(0.0, top, 6 if high > 1.0 else 2)
    bar = figure.colorbar(image, cax=axes, ticks=ticks)
    bar.ax.set_yticklabels([f"{value:g}" for value in np.round(ticks, 6)])
    bar.ax.tick_params(labelsize=8, length=2)
    bar.set_label("weight", size=8.5)
    bar.outline.set_linewidth(0.6)


def write_title(figure: Figure, title: str, about: str, families: list[str]) -> None:
    """What the picture shows, in the top left corner."""
    wide, high = figure.get_size_inches()
    figure.text(0.12 / wide, 1 - 0.10 / high, title, size=12, weight="bold", va="top")
    style: Any = {"family": families, "parse_math": False}
    figure.text(0.12 / wide, 1 - 0.34 / high, about, size=8.5, va="top", **style)


def _finish(
    figure: Figure,
    inches: tuple[float, float],
    matrices: Sequence[Matrix],
    image: Any,
    top: float,
    texts: Texts,
    title: str,
    about: str = "",
    bar_left: float | None = None,
) -> None:
    """Title, colour bar and legend of a figure with several heads."""
    place = 0.12 / inches[0]
    write_title(figure, title, texts(fit(about or matrices[0].about, inches[0])), texts.families)
    rows, columns = (
        axis.replace(":", ",") for axis in (matrices[0].query_axis, matrices[0].key_axis)
    )
    axes_line = f"rows: {rows}; columns: {columns}; from the top left"
    figure.text(place, 1 - 0.52 / inches[1], axes_line, va="top", size=7.5, color="#444444")
    height = min(2.6, inches[1] - 1.6)
    left = inches[0] - 0.75 if bar_left is None else bar_left
    bar = (left / inches[0], (inches[1] - 0.9 - height) / inches[1])
    axes = figure.add_axes((*bar, 0.16 / inches[0], height / inches[1]))
    _colour_bar(figure, image, axes, top)
    legend(figure, matrices, place, 0.08 / inches[1])


def fit(text: str, inches: float) -> str:
    """`text` in 8.5 points, shortened to a figure's width."""
    return shorten(text, max(20, int((inches - 0.3) / 0.066)))
