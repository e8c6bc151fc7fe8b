"""Progress and remarks, on stderr: what is being done, how far, how fast, how long still.

Results belong on stdout; this module never writes there. Bars are drawn only on a terminal, so a
log file or a pipe stays clean; remarks (`note`) are printed everywhere unless `set_quiet(True)`.

Whoever runs a job for somebody else (the page's server) listens to it instead (`listening`): nothing
is drawn then, and the listener hears how far the job is and may end it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

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


# -- for somebody else -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """How far a job is: what it does, `done` of `total` units (None: nobody knows how many)."""

    description: str
    done: float
    total: float | None
    unit: str


class Listener(Protocol):
    """Who hears of a job. Both are called in the job's own thread; an error raised there ends it."""

    def step(self, report: Report | None) -> None:
        """One more step is done; report: of the outermost job (None: a job inside it went on)."""

    def so_far(self, value: Any) -> None:
        """What is known before all is done."""


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, in this thread, jobs report to `listener` and draw nothing."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def so_far(value: Any) -> None:
    """Hand out a result that is not whole yet to whoever listens."""
    listener = _listener.get()
    if listener is not None:
        listener.so_far(value)


@contextmanager
def _told(listener: Listener, description: str, total: float | None, unit: str) -> Iterator[Any]:
    """A job that is listened to; of jobs inside jobs the outermost alone is reported."""
    inner = _inside.get()
    _inside.set(True)  # without its token: a generator may end in another context than it began in
    try:
        job = _Told(listener, None if inner else Report(description, 0, total, unit))
        listener.step(job.report)
        yield job
    finally:
        _inside.set(inner)


# -- on a terminal ---------------------------------------------------------------------------------


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


class _Told(Tracker):
    """A job that is listened to. report: how far it is; None: a job inside another."""

    def __init__(self, listener: Listener, report: Report | None) -> None:
        super().__init__()
        self.listener, self.report = listener, report

    def advance(self, amount: float = 1, **fields: object) -> None:
        """As of every tracker."""
        self.done += amount
        if self.report is not None:
            self.report = replace(self.report, done=self.done)
        self.listener.step(self.report)

    def describe(self, text: str) -> None:
        """As of every tracker."""
        if self.report is not None:
            self.report = replace(self.report, description=text)


@contextmanager
def track(description: str, total: float | None = None, unit: str = "it") -> Iterator[Tracker]:
    """Show a job's progress: `with track("reading", total=n, unit="B") as job: job.advance(k)`."""
    listener = _listener.get()
    if listener is not None:
        with _told(listener, description, total, unit) as job:
            yield job
        return
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
