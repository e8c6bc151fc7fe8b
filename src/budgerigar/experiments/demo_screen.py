"""What the demo draws with: paragraphs, a story with coloured words, bars, a falling curve.

On a terminal a frame replaces the one before it; anywhere else each frame is one plain line of a
log, without colours or cursor movements, and nothing waits for a key.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.style import Style
from rich.text import Text

from budgerigar.inspection.palette import ink, viridis

WIDEST = 96  # columns; longer lines are hard to read


class Screen:
    """Prints the demo on stdout; `animated` is true where frames can be redrawn."""

    def __init__(self, file: IO[str] | None = None, width: int | None = None) -> None:
        console = Console(file=file, highlight=False, width=width)
        if width is None and console.width > WIDEST:
            console = Console(file=file, highlight=False, width=WIDEST)
        self.console = console
        self.animated = console.is_terminal and not console.is_dumb_terminal

    @property
    def width(self) -> int:
        """Columns that may be used."""
        return self.console.width

    @property
    def height(self) -> int:
        """Lines that a frame may have."""
        return self.console.height

    def heading(self, text: str) -> None:
        """A title with a rule to the edge."""
        rule = "─" * max(2, self.width - cell_len(text) - 4)
        self.console.print()
        self.console.print(Text.assemble(("── ", "dim"), (text, "bold"), (f" {rule}", "dim")))
        self.console.print()

    def say(self, text: str, style: str = "") -> None:
        """A paragraph, wrapped; its own line ends are only spaces."""
        self.show(Text(" ".join(textwrap.dedent(text).split()), style=style))

    def show(self, *parts: RenderableType) -> None:
        """Print anything that rich can draw, then an empty line."""
        self.console.print(Group(*parts))
        self.console.print()

    def line(self, text: str | Text) -> None:
        """One line as it is; on a log it is written at once."""
        self.console.print(text, soft_wrap=not self.animated)
        self.console.file.flush()

    @contextmanager
    def frames(self) -> Iterator[Live | None]:
        """`live.update(frame)` redraws in place; None where that cannot be."""
        if not self.animated:
            yield None
            return
        with Live(
            console=self.console, auto_refresh=False, transient=False, vertical_overflow="crop"
        ) as live:
            yield live


class Frames:
    """A training callback: once a second a frame of `live`, or rarer lines where there is none."""

    def __init__(self, live: Any, seconds_between_lines: float) -> None:
        self.live = live
        self.every = 1.0 if live is not None else seconds_between_lines
        self.next = 0.0
        self.started: float | None = None

    def on_step(self, event: Any) -> None:
        """Draw when it is time for the next frame, and at the last step."""
        now = time.perf_counter()
        if self.started is None:
            self.started = now
        last = event.step >= event.total_steps
        if event.step < 2 or (now < self.next and not last):
            return
        self.next = now + self.every
        self.draw(event, now - self.started)

    def draw(self, event: Any, seconds: float) -> None:
        """A frame or a line, `seconds` after the first step."""
        raise NotImplementedError


def clock(seconds: float) -> str:
    """12 s, 1 min 05 s."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def weighted_words(words: Sequence[str], weights: Sequence[float], gap: bool = True) -> Text:
    """A story whose words stand on the colour of their weight (0 plain, 1 yellow)."""
    text = Text()
    for word, weight in zip(words, weights, strict=True):
        if weight >= 0.02:
            background = viridis(weight)
            style = Style(color=_rgb(ink(background)), bgcolor=_rgb(background), bold=weight > 0.5)
            text.append(word, style)
        else:
            text.append(word, "dim" if weight < 0.005 else "")
        text.append(" ")
    if gap:
        text.append("____", "bold underline")
    return text


def story_text(words: Sequence[str], marked: Mapping[int, str], gap: bool = True) -> Text:
    """A story with some words (by their number) in a style."""
    text = Text()
    for number, word in enumerate(words):
        text.append(word, marked.get(number, ""))
        text.append(" ")
    if gap:
        text.append("____", "bold underline")
    return text


def colour_scale() -> Text:
    """The legend of `weighted_words`."""
    text = Text("  weight 0 ", "dim")
    for step in range(16):
        text.append(" ", Style(bgcolor=_rgb(viridis(step / 15))))
    return text.append(" 1", "dim")


def guess_bars(guesses: Sequence[tuple[str, float]], answer: str, room: int = 30) -> Text:
    """One line per guess: the word, its probability, a bar; the right one is green."""
    broad = max((cell_len(word) for word, _ in guesses), default=1)
    text = Text()
    for number, (word, probability) in enumerate(guesses):
        style = "bold green" if word == answer else ""
        name = word + " " * (broad - cell_len(word))
        text.append(f"{chr(10) if number else ''}    {name} {probability:6.1%} ", style)
        text.append(bar(probability, room), style or "blue")
    return text


def bar(share: float, room: int) -> str:
    """A bar of eighths of a column."""
    eighths = round(min(max(share, 0.0), 1.0) * room * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def level(share: float) -> str:
    """One character that is as high as the share; a dot for next to nothing."""
    return "·▁▂▃▄▅▆▇█"[min(8, max(0, round(share * 8)))]


def loss_chart(
    points: Sequence[tuple[float, float]],
    lines: Mapping[str, float],
    until: float,
    width: int = 64,
    height: int = 14,
) -> Text:
    """A loss that falls past named lines. points: (seconds, nats); lines: name -> nats.

    The vertical axis is stretched to the lines and the points; a line that was passed is green.
    """
    values = [value for _, value in points] + list(lines.values())
    if not values:
        return Text("")
    top, bottom = max(values), min(values)
    margin = 0.04 * (top - bottom or 1.0)
    top, bottom = top + margin, bottom - margin
    beside = max((cell_len(name) for name in lines), default=0) + 6
    columns = max(16, width - 8 - beside)

    def row_of(value: float) -> int:
        return min(height - 1, max(0, round((top - value) / (top - bottom) * (height - 1))))

    lowest = points[-1][1] if points else float("inf")
    grid = [[(" ", "")] * columns for _ in range(height)]
    names: dict[int, tuple[str, str]] = {}
    for name, value in lines.items():
        style = "green" if lowest < value else "yellow"
        grid[row_of(value)] = [("╌", style)] * columns
        names[row_of(value)] = (f" {value:.2f} {name}", style)
    for seconds, value in points:
        column = min(columns - 1, int(seconds / max(until, 1e-9) * (columns - 1)))
        grid[row_of(value)][column] = ("●", "bold cyan")
    text = Text()
    for row, cells in enumerate(grid):
        text.append(f"  {f'{top:.1f}' if row == 0 else '':>4} │", "dim")
        for character, style in cells:
            text.append(character, style)
        text.append(*names.get(row, ("", "")))
        text.append("\n")
    text.append("  nats └" + "─" * columns + f"\n{'':8}0 s", "dim")
    text.append(f"{clock(until):>{columns - 3}}", "dim")
    return text


def _rgb(colour: tuple[int, int, int]) -> str:
    return "rgb({},{},{})".format(*colour)


def results_table(rows: Sequence[Sequence[str]]) -> Any:
    """The closing table; the first row is its head."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(rows[0]):
        table.add_column(name, justify="right" if number == 1 else "left")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def alignment_grid(
    weights: Any, rows: Sequence[str], columns: Sequence[str], size: int = 6
) -> Text:
    """Weights (rows, columns) as coloured cells with their numbers, words of any width as labels.

    Without colours the numbers tell; next to nothing is a dot.
    """
    broad = max((cell_len(name) for name in rows), default=1)
    sizes = [max(size, cell_len(name) + 2) for name in columns]
    text = Text("  " + " " * broad + "  ")
    for name, room in zip(columns, sizes, strict=True):
        text.append(_centred(name, room))
    for row, name in enumerate(rows):
        text.append("\n  " + " " * (broad - cell_len(name)) + name + "  ", "bold")
        for column, room in enumerate(sizes):
            weight = float(weights[row][column])
            background = viridis(min(max(weight, 0.0), 1.0))
            number = "·" if weight < 0.005 else f"{weight:.2f}"
            style = Style(color=_rgb(ink(background)), bgcolor=_rgb(background))
            text.append(_centred(number, room), style)
    return text


def _centred(text: str, room: int) -> str:
    left = (room - cell_len(text)) // 2
    return " " * left + text + " " * (room - cell_len(text) - left)
