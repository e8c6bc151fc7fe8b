"""Ctrl-C, SIGTERM and SIGHUP ask a run to stop at the next step; a second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopRequest:
    """`with StopRequest() as stop:` … `if stop.asked: save and leave`.

    Handlers are put in only in the main thread (Python allows no other) and taken out at the end.
    """

    def __init__(self) -> None:
        self.asked: str | None = None
        self._before: dict[int, object] = {}

    def ask(self, why: str) -> None:
        """Ask for a stop from inside the program."""
        self.asked = self.asked or why

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                if number is not None:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = signal.Signals(number).name

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
