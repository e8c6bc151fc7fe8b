"""An alignment drawn: two rows of words, and lines between them, the thicker the larger the weight.

In a terminal the lines are dots of braille characters, eight to a character; where the rows do not
fit its width, each word of the translation gets a line of its own. A picture is PNG, SVG or PDF.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.inspection.labels import pad, shorten, visible, width
from budgerigar.inspection.palette import Colour, Depth, depth_of, paint, viridis
from budgerigar.inspection.terminal import bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from budgerigar.inspection.alignments import WordAlignment

FAINTEST = 0.1  # weights below are not drawn
NOTHING = "(nothing)"
_GAP = 2  # columns between two words
_LINES = 5  # of text, between the rows of words
# how many dots wide a line is from which weight on
_THICKNESS = ((0.7, 3), (0.4, 2), (FAINTEST, 1))
# bit of each dot of a braille character, by (x, y)
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_INK, _FAINT, _ALONE = "#0072b2", "#8fb8d0", "#757575"


# -- in a terminal ---------------------------------------------------------------------------------


def drawing(
    alignment: WordAlignment, *, columns: int | None = None, depth: Depth | None = None
) -> str:
    """The alignment as text at most `columns` wide (None: the terminal's, 80 without one)."""
    columns = columns or shutil.get_terminal_size().columns
    depth = depth or depth_of(sys.stdout)
    lines = [f"alignment by cross-attention {alignment.head}", alignment.about]
    lines = [shorten(line, columns) for line in lines if line]
    sides = [_shown(side.texts) for side in (alignment.source, alignment.target)]
    if not all(sides):
        return "\n".join([*lines, "there are no words to align"])
    across = max(_row_width(words) for words in sides)
    if across <= columns:
        tops, feet = (_centres(words, across) for words in sides)
        lines.append(_row(sides[0], tops))
        lines += _Canvas(across, _LINES).between(tops, feet, alignment.weights, depth)
        lines.append(_row(sides[1], feet))
        lines += ["", *_links(alignment, columns)]
    else:
        lines += _one_by_one(alignment, columns)
    return "\n".join(lines)


def _shown(words: Sequence[str]) -> list[str]:
    return [visible(word, spaces=False) for word in words]


def _row_width(words: Sequence[str]) -> int:
    return sum(map(width, words)) + _GAP * (len(words) - 1)


def _centres(words: Sequence[str], across: int) -> list[int]:
    """The column of each word's middle, the whole row centred in `across`."""
    at = (across - _row_width(words)) // 2
    middles = []
    for word in words:
        middles.append(at + width(word) // 2)
        at += width(word) + _GAP
    return middles


def _row(words: Sequence[str], centres: Sequence[int]) -> str:
    line = ""
    for word, middle in zip(words, centres, strict=True):
        line += " " * (middle - width(word) // 2 - width(line)) + word
    return line


def _links(alignment: WordAlignment, columns: int) -> list[str]:
    """`word ← source word 0.98` for each word of the translation, several to a line."""
    lines = [""]
    for word, source, weight in alignment.pairs():
        item = f"{visible(word)} ← {visible(source or NOTHING)} {weight:.2f}"
        if lines[-1] and width(lines[-1]) + 3 + width(item) > columns:
            lines.append("")
        lines[-1] += ("   " if lines[-1] else "") + item
    return [shorten(line, columns) for line in lines]


def _one_by_one(alignment: WordAlignment, columns: int) -> list[str]:
    """A line for each word of the translation, with a bar for the weight."""
    names = [(visible(t), visible(s or NOTHING), w) for t, s, w in alignment.pairs()]
    most = max(1, min(18, (columns - 16) // 2))
    left = min(most, max(width(target) for target, _, _ in names))
    right = min(most, max(width(source) for _, source, _ in names))
    rows = [
        (f"{pad(target, left, right=True)} ← {pad(source, right)}", weight)
        for target, source, weight in names
    ]
    return bars(rows, columns=columns, label=left + right + 3).split("\n")


class _Canvas:
    """Dots, two by four to a character, and the largest weight drawn in each character."""

    def __init__(self, columns: int, lines: int) -> None:
        self.dots = np.zeros((4 * lines, 2 * columns), dtype=bool)
        self.weights = np.zeros((lines, columns))

    def between(
        self, tops: Sequence[int], feet: Sequence[int], weights: np.ndarray, depth: Depth
    ) -> list[str]:
        """Lines of text that join the source words at columns `tops` with those at `feet`."""
        for target, foot in enumerate(feet):
            for source, top in enumerate(tops):
                self.line(2 * top + 1, 2 * foot + 1, float(weights[target, source]))
        return [self.text(line, depth).rstrip() for line in range(len(self.weights))]

    def line(self, top: int, foot: int, weight: float) -> None:
        """From dot column `top` at the upper edge to `foot` at the lower one."""
        thick = next((dots for least, dots in _THICKNESS if weight >= least), 0)
        if not thick:
            return
        high, wide = self.dots.shape
        steps = 4 * max(high, abs(foot - top))
        y = np.rint(np.linspace(0, high - 1, steps)).astype(int)
        x = np.linspace(top, foot, steps)
        for offset in range(thick):
            dots = np.clip(np.rint(x + offset - (thick - 1) / 2).astype(int), 0, wide - 1)
            self.dots[y, dots] = True
            cells = (y // 4, dots // 2)
            self.weights[cells] = np.maximum(self.weights[cells], weight)

    def text(self, line: int, depth: Depth) -> str:
        shown = ""
        for column, weight in enumerate(self.weights[line]):
            block = self.dots[4 * line : 4 * line + 4, 2 * column : 2 * column + 2]
            bits = sum(_DOTS[x][y] for y, x in np.argwhere(block))
            mark = chr(0x2800 + bits) if bits else " "
            colour: Colour | None = viridis(0.25 + 0.7 * weight, depth) if bits else None
            shown += paint(mark, depth, foreground=colour)
        return shown


# -- as a picture ----------------------------------------------------------------------------------


def write_picture(alignment: WordAlignment, path: str | Path) -> Path:
    """Write PNG, SVG or PDF, as the ending of `path` says."""
    from budgerigar.inspection import plots

    svg = Path(path).suffix.lower() == ".svg"
    return plots.save(alignment_figure(alignment, text_only=svg), path)


def alignment_figure(alignment: WordAlignment, text_only: bool = False) -> Figure:
    """Source words above, the translation's below; text_only: for SVG, see `plots.head_figure`."""
    from budgerigar.inspection import plots

    sides = [_shown(side.texts) for side in (alignment.source, alignment.target)]
    size, column = 13.0, 0.112  # points, and inches of a narrow character of that size
    rows = [_inches(words, column) for words in sides]
    across = max(max((right for _, right in row), default=0.0) for row in rows)
    inches = (max(across + 0.6, 6.6), 3.1)
    figure = plots.blank_figure(inches)
    texts = plots.Texts([*sides[0], *sides[1], alignment.about], text_only)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, inches[0])
    axes.set_ylim(0, inches[1])
    axes.axis("off")
    heights = (2.15, 0.62)
    centres = []
    for words, row, height in zip(sides, rows, heights, strict=True):
        left = (inches[0] - (row[-1][1] if row else 0.0)) / 2
        centres.append([left + (a + b) / 2 for a, b in row])
        for number, (word, middle) in enumerate(zip(words, centres[-1], strict=True)):
            alone = len(centres) == 2 and alignment.best[number] is None
            style: Any = {"family": texts.families, "parse_math": False, "size": size}
            style["color"] = _ALONE if alone else "black"
            axes.text(middle, height, texts(word), ha="center", va="center", **style)
    _draw_lines(axes, alignment, centres, (heights[0] - 0.16, heights[1] + 0.17))
    plots.write_title(
        figure,
        texts(f"alignment by cross-attention {alignment.head}"),
        texts(plots.fit(alignment.about, inches[0])),
        texts.families,
    )
    _legend(axes)
    return figure


def _inches(words: Sequence[str], column: float) -> list[tuple[float, float]]:
    """(left, right) of each word of a row, from 0."""
    at, places = 0.0, []
    for word in words:
        wide = max(1, width(word)) * column
        places.append((at, at + wide))
        at += wide + 0.22
    return places


def _draw_lines(
    axes: Any, alignment: WordAlignment, centres: list[list[float]], ends: tuple[float, float]
) -> None:
    """A line for each weight that can be seen; the links themselves darker and on top."""
    best = alignment.best
    for target, foot in enumerate(centres[1]):
        for source, top in enumerate(centres[0]):
            weight = float(alignment.weights[target, source])
            if weight < FAINTEST:
                continue
            linked = best[target] == source
            axes.plot(
                (top, foot),
                ends,
                color=_INK if linked else _FAINT,
                linewidth=_line_width(weight),
                solid_capstyle="round",
                zorder=2 if linked else 1,
            )


def _line_width(weight: float) -> float:
    return 0.4 + 4.6 * weight


def _legend(axes: Any) -> None:
    """What the thickness means."""
    x = 0.14
    for weight in (1.0, 0.5, FAINTEST):
        axes.plot((x, x + 0.3), (0.22, 0.22), color=_INK, linewidth=_line_width(weight))
        axes.text(x + 0.37, 0.22, f"{weight:g}", size=8, va="center")
        x += 0.75
    words = f"weight; darker: the link; below {FAINTEST:g}: not drawn; grey: linked to nothing"
    axes.text(x, 0.22, words, size=8, va="center")
