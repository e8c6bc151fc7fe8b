"""Heat maps and coloured text in a terminal, with 16 million, 256 or no colours.

Three sizes are tried, the first that fits the width is taken: cells with numbers; cells of two
columns under labels written downwards; one column per key with two queries per line (half blocks).
What is still too broad is cut into panels of keys. Masked cells are struck through, never painted
in the colour of zero. Without colours the cells are numbers.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence

from budgerigar.inspection.labels import pad, shorten, width
from budgerigar.inspection.matrix import MASKED, Matrix, scale_top
from budgerigar.inspection.palette import GREY, Colour, Depth, depth_of, ink, paint, viridis

_ROW_LABEL = 16  # columns for the label of a row, at most
_TALL = 10  # lines for a label written downwards, at most
_NUMBER = 5  # columns that a cell needs to show its number


def heatmap(
    matrix: Matrix,
    *,
    columns: int | None = None,
    depth: Depth | None = None,
    top: float | None = None,
) -> str:
    """Draw `matrix` (T,S) as text at most `columns` wide.

    columns: None asks the terminal (80 where there is none); depth: None looks at stdout and the
    environment (NO_COLOR); top: weight at the upper end of the colour scale, None fits it.
    """
    columns = columns or shutil.get_terminal_size().columns
    depth = depth or depth_of(sys.stdout)
    top = top or scale_top([matrix])
    label = min(_ROW_LABEL, max(map(width, matrix.query_labels), default=1))
    digits = len(str(max(0, len(matrix.query_labels) - 1)))
    painter = _Painter(matrix, depth, top, label, digits)
    room = max(8, columns - label - digits - 3)
    n = len(matrix.key_labels)
    lines = [matrix.name] if matrix.name else []
    lines += [matrix.about] if matrix.about else []
    lines.append(f"rows: {_axis(matrix.query_axis)}; columns: {_axis(matrix.key_axis)}")
    unit = "weights, · near 0"
    wanted = max(_NUMBER, min(9, max(map(width, matrix.key_labels), default=1) + 1))
    small = 2 if depth != "none" else 4
    if n * _NUMBER <= room:
        lines += painter.numbers(min(wanted, room // max(n, 1)))
    elif n * small <= room:
        lines += painter.cells(0, n, small)
        unit = "weights in per cent, · near 0"
    else:
        for start in range(0, n, room):
            stop = min(n, start + room)
            if start or stop < n:
                lines.append(f"keys {start} to {stop - 1} of {n}:")
            lines += painter.dense(start, stop)
        unit = "weights in tenths, . near 0"
    lines += _legend(matrix, depth, top, unit, columns)
    return "\n".join(shorten_line(line, columns) for line in lines)


def _axis(words: str) -> str:
    """`query: the token that looks` as `query (the token that looks)`."""
    name, _, meaning = words.partition(": ")
    return f"{name} ({meaning})"


def shorten_line(line: str, columns: int) -> str:
    """Cut a line of plain text; lines with colours were made to fit."""
    return line if "\x1b" in line else shorten(line, columns)


class _Painter:
    """Draws rows of one matrix; `label` and `digits` are the widths of a row's head."""

    def __init__(self, matrix: Matrix, depth: Depth, top: float, label: int, digits: int) -> None:
        self.matrix, self.depth, self.top = matrix, depth, top
        self.label, self.digits = label, digits
        self.queries, self.keys = matrix.query_labels, matrix.key_labels

    def head(self, row: int) -> str:
        name = pad(self.queries[row], self.label, right=True)
        return f"{row:>{self.digits}} {name} "

    def numbers(self, size: int) -> list[str]:
        """Cells that show their number, under labels written across."""
        blank = " " * (self.digits + self.label + 2)
        lines = [blank + "".join(_centre(shorten(k, size - 1), size) for k in self.keys)]
        for row in range(len(self.queries)):
            cells = "".join(self.cell(row, key, size) for key in range(len(self.keys)))
            lines.append(self.head(row) + cells)
        return lines

    def cells(self, start: int, stop: int, size: int) -> list[str]:
        """Small cells under labels written downwards."""
        lines = self.downwards(range(start, stop), size)
        for row in range(len(self.queries)):
            cells = "".join(self.cell(row, key, size) for key in range(start, stop))
            lines.append(self.head(row) + cells)
        return lines

    def dense(self, start: int, stop: int) -> list[str]:
        """One column per key; with colours two queries per line. Every second key is labelled."""
        lines = self.downwards(range(start, stop, 2), 2)
        if self.depth == "none":
            for row in range(len(self.queries)):
                lines.append(
                    self.head(row) + "".join(self.tenth(row, k) for k in range(start, stop))
                )
            return lines
        for row in range(0, len(self.queries), 2):
            cells = "".join(self.pair(row, key) for key in range(start, stop))
            lines.append(self.head(row) + cells)
        return lines

    def downwards(self, keys: Sequence[int], size: int) -> list[str]:
        """The labels of `keys`, one character below the other, ending on the same line."""
        names = [_column(self.keys[key]) for key in keys]
        height = max(map(len, names), default=0)
        blank = " " * (self.digits + self.label + 2)
        lines = []
        for line in range(height):
            marks = []
            for name in names:
                at = line - (height - len(name))
                marks.append(pad(name[at] if at >= 0 else "", size, right=size > 2))
            lines.append((blank + "".join(marks)).rstrip())
        return lines

    def share(self, row: int, key: int) -> float:
        return float(self.matrix.weights[row, key]) / self.top

    def cell(self, row: int, key: int, size: int) -> str:
        """One cell: struck through, or coloured, with its number where there is room."""
        if self.matrix.masked[row, key]:
            apart = 0 if self.depth != "none" else 1  # from the number before it
            return paint(" " * apart + "╱" * (size - apart), self.depth, foreground=GREY)
        weight = float(self.matrix.weights[row, key])
        if self.depth == "none":
            return _percent(weight, size) if size < _NUMBER else _centre(_number(weight), size)
        background = viridis(weight / self.top, self.depth)
        text = _centre(_number(weight), size) if size >= _NUMBER else " " * size
        return paint(text, self.depth, background, ink(background))

    def pair(self, row: int, key: int) -> str:
        """Two queries over each other in one character; a masked half keeps the background."""
        masked = self.matrix.masked
        upper = None if masked[row, key] else viridis(self.share(row, key), self.depth)
        below = row + 1 < len(self.queries)
        lower = (
            viridis(self.share(row + 1, key), self.depth)
            if below and not masked[row + 1, key]
            else None
        )
        if upper is None and lower is None:
            return paint("╱", self.depth, foreground=GREY)
        if upper is None:
            return paint("▄", self.depth, foreground=lower)
        return paint("▀", self.depth, background=lower, foreground=upper)

    def tenth(self, row: int, key: int) -> str:
        if self.matrix.masked[row, key]:
            return "/"
        weight = float(self.matrix.weights[row, key])
        return "." if weight < 0.05 else str(min(9, int(weight * 10 + 0.5)))


def _legend(matrix: Matrix, depth: Depth, top: float, unit: str, columns: int) -> list[str]:
    """The colour scale with its numbers, and which masks the strokes stand for."""
    kinds = [MASKED[reason].removeprefix("masked: ") for reason in matrix.reasons]
    masks = "╱ masked: " + " / ".join(kinds) if kinds else ""
    scale, room = unit, width(unit)
    if depth != "none":
        cells = max(2, min(20, columns - 14))
        bar = "".join(paint(" ", depth, viridis(k / (cells - 1), depth)) for k in range(cells))
        scale, room = f"weight 0 {bar} {top:g}", cells + 10 + len(f"{top:g}")
    if not masks or room + 3 + width(masks) > columns:
        return [scale, masks] if masks else [scale]
    return [f"{scale}   {masks}"]


def _column(label: str) -> list[str]:
    """A label as characters to be written downwards, its middle left out when it is long."""
    marks: list[str] = []
    for character in label:
        if width(character) == 0 and marks:
            marks[-1] += character  # an accent stays on its letter
        else:
            marks.append(character)
    if len(marks) > _TALL:
        head = _TALL // 2
        marks = [*marks[:head], "⋮", *marks[len(marks) - (_TALL - head - 1) :]]
    return marks


def _centre(text: str, size: int) -> str:
    left = (size - width(text)) // 2
    return " " * left + text + " " * (size - width(text) - left)


def _number(weight: float) -> str:
    if weight < 0.005:
        return "·"
    return "1.0" if weight >= 0.995 else f"{weight:.2f}"[1:]


def _percent(weight: float, size: int) -> str:
    percent = round(weight * 100)
    return ("·" if percent == 0 else str(percent)).rjust(size)


def coloured_text(
    pieces: Sequence[str],
    shares: Sequence[float | None],
    *,
    columns: int | None = None,
    depth: Depth | None = None,
    notes: Sequence[str] = (),
    colour: Callable[[float, Depth], Colour] = viridis,
) -> str:
    """Running text, each piece on the `colour` of its share (0..1); None is left plain.

    Lines end at newlines of the text and are wrapped at `columns`. Without colours each piece is
    followed by its note in brackets.
    """
    columns = columns or shutil.get_terminal_size().columns
    depth = depth or depth_of(sys.stdout)
    lines, line, used = [], "", 0
    for index, (piece, share) in enumerate(zip(pieces, shares, strict=True)):
        shown = piece
        if depth == "none" and notes and notes[index]:
            shown = f"{piece}[{notes[index]}]"
        shown = shorten(shown, columns)
        if used and used + width(shown) > columns:
            lines.append(line)
            line, used = "", 0
        background = None if share is None else colour(share, depth)
        line += paint(shown, depth, background, None if background is None else ink(background))
        used += width(shown)
        if piece.endswith("↵"):
            lines.append(line)
            line, used = "", 0
    return "\n".join([*lines, line] if line else lines)


def bars(rows: Sequence[tuple[str, float]], *, columns: int = 60, label: int = 20) -> str:
    """One line per (name, weight 0..1) with a bar; readable without colours."""
    size = min(label, max((width(name) for name, _ in rows), default=1))
    room = max(4, columns - size - 9)
    lines = []
    for name, weight in rows:
        lines.append(f"{pad(name, size, right=True)} {weight:6.3f} " + _bar(weight, room))
    return "\n".join(lines)


def _bar(weight: float, room: int) -> str:
    eighths = round(min(max(weight, 0.0), 1.0) * room * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
