"""Progress and remarks, on stderr: what is being done, how far, how fast, how long still.

Results belong on stdout; this module never writes there. Bars are drawn only on a terminal, so a
log file or a pipe stays clean; remarks (`note`) are printed everywhere unless `set_quiet(True)`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_quiet = False
_notes = True
_bars: Any = None  # the one live display; a job inside a job is another line of it


def set_quiet(quiet: bool) -> None:
    """Silence bars and remarks (`--quiet`)."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether `set_quiet(True)` holds."""
    return _quiet


@contextmanager
def without_notes() -> Iterator[None]:
    """Leave out the remarks of a job that is one of many; bars stay."""
    global _notes
    before, _notes = _notes, False
    try:
        yield
    finally:
        _notes = before


def note(text: str) -> None:
    """Print one remark on stderr."""
    if _quiet or not _notes:
        return
    if _bars is None:
        print(text, file=sys.stderr, flush=True)
    else:  # above the live lines, without breaking them
        _bars.console.print(text, markup=False, highlight=False, soft_wrap=True)


def shown() -> bool:
    """True where a bar would be seen: stderr is a terminal and nobody asked for quiet."""
    return not _quiet and sys.stderr.isatty()


class Tracker:
    """One running job. Without a terminal it counts and draws nothing."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task = bar, task
        self.done: float = 0

    def advance(self, amount: float = 1, **fields: object) -> None:
        """Count `amount` more units as done; `fields` are shown beside the bar."""
        self.done += amount
        if self._bar is not None:
            info = "  ".join(f"{name} {value}" for name, value in fields.items())
            self._bar.update(self._task, advance=amount, **({"info": info} if fields else {}))

    def describe(self, text: str) -> None:
        """Change the words before the bar."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)


@contextmanager
def track(description: str, total: float | None = None, unit: str = "it") -> Iterator[Tracker]:
    """Show a job's progress: `with track("reading", total=n, unit="B") as job: job.advance(k)`."""
    if not shown():
        yield Tracker()
        return
    global _bars
    if _bars is not None:
        task = _bars.add_task(description, total=total, info="", unit=unit)
        try:
            yield Tracker(_bars, task)
        finally:
            _bars.remove_task(task)
        return
    with _new_bars() as _bars:
        try:
            yield Tracker(_bars, _bars.add_task(description, total=total, info="", unit=unit))
        finally:
            bars, _bars = _bars, None
            bars.stop()


def _new_bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:,.0f} {task.fields['unit']}/s" if task.speed else "")

    columns = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[info]}"),
        Speed(),
        TimeRemainingColumn(compact=True),
    ]
    # Results printed meanwhile must reach stdout; only on a terminal may they go above the bar.
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=on_terminal
    )
