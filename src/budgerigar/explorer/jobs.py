"""Asks on their way to an answer: in threads of their own, with progress, and stoppable.

A quick ask (most views: one pass over a text) is answered in its model's thread, in the order in which
they came. A long one (head roles, checkpoints) has a thread of its own, and at each of its steps it
lets those through that wait: a model is never read by two at once, and the page stays alive meanwhile.
All who ask the same long thing share one job; it is stopped when the last of them has gone.

Threads are daemons: Ctrl-C waits for none of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.inspection.views.payload import pack
from budgerigar.said import said

MOST_LONG = 8
"""long asks of one model at the same time; more are refused"""


class BusyError(UserError):
    """Too many asks wait already, or the server is ending."""


class StoppedError(UserError):
    """Nobody waits for this answer any more."""


class Job:
    """One ask. `answer`: the payload to come; `report`, `part`: how far it is, and the payload of
    what is known so far (None: nothing yet). It is the `progress.Listener` of its own work.
    """

    def __init__(
        self, work: Callable[[], bytes], give_way: Callable[[], None] | None = None
    ) -> None:
        """give_way: called between two steps of a long ask."""
        self.answer: Future[bytes] = Future()
        self.answer.set_running_or_notify_cancel()  # one who goes away cancels it for nobody else
        self.report: progress.Report | None = None
        self.part: bytes | None = None
        self.stopped = False
        self._work, self._give_way = work, give_way
        self._waiting: list[Callable[[], Any]] = []
        self._lock, self._settled = threading.Lock(), False

    # -- of those who wait -----------------------------------------------------------------------
    def join(self, hear: Callable[[], Any]) -> bool:
        """Wait for it too: `hear` is called, in any thread, when there is news. False: too late."""
        with self._lock:
            if self.stopped:
                return False
            self._waiting.append(hear)
        self.answer.add_done_callback(lambda _: hear())
        return True

    def leave(self, hear: Callable[[], Any]) -> None:
        """Wait no more. Where nobody waits, it stops."""
        with self._lock:
            self._waiting.remove(hear)
            self.stopped = self.stopped or not (self._waiting or self._settled)

    def stop(self) -> None:
        """End at the next step; who waits is told now."""
        self.stopped = True
        self._settle(BusyError(said("the server is ending")))

    # -- of the work -----------------------------------------------------------------------------
    def run(self) -> None:
        """Do the work, unless everybody has gone by now."""
        try:
            self.step(None)
            with progress.listening(self):
                found: bytes | BaseException = self._work()
        except BaseException as error:
            found = error
        self._settle(found)

    def step(self, report: progress.Report | None) -> None:
        """As `progress.Listener`: news, and others first."""
        if self._give_way is not None:
            self._give_way()
        if self.stopped:
            raise StoppedError(said("it was stopped"))
        if report is not None:
            self.report = report
            self._tell()

    def so_far(self, value: Any) -> None:
        """As `progress.Listener`."""
        self.part = pack(value)
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for hear in waiting:
            hear()

    def _settle(self, found: bytes | BaseException) -> None:
        """The answer, once."""
        with self._lock:
            if self._settled:
                return
            self._settled = True
        if isinstance(found, BaseException):
            self.answer.set_exception(found)
        else:
            self.answer.set_result(found)


class Turns:
    """Who may read a model now: one at a time, in the order in which they came, quick asks first."""

    def __init__(self) -> None:
        self._free, self.taken = threading.Condition(), False
        self._waiting: dict[bool, deque[object]] = {True: deque(), False: deque()}

    def queue(self, quick: bool) -> object:
        """A place in the queue, held from now on: for `take`."""
        place = object()
        with self._free:
            self._waiting[quick].append(place)
        return place

    def take(self, place: object) -> None:
        """Wait for one's turn."""
        with self._free:
            self._free.wait_for(lambda: not self.taken and self._line()[:1] == [place])
            (self._waiting[True] or self._waiting[False]).popleft()
            self.taken = True

    def _line(self) -> list[object]:
        return [*self._waiting[True], *self._waiting[False]]

    def leave(self) -> None:
        """Let the next one read."""
        with self._free:
            self.taken = False
            self._free.notify_all()

    def give_way(self) -> None:
        """Of a long ask, between two of its steps: whoever waits goes first."""
        if self._line():
            place = self.queue(quick=False)
            self.leave()
            self.take(place)

    def close(self) -> None:
        """Nobody who waits comes any more."""
        with self._free:
            for line in self._waiting.values():
                line.clear()


class Desk:
    """Answers the asks about one model, each in its turn."""

    def __init__(self, name: str) -> None:
        self.name, self.turns = name, Turns()
        self._quick: deque[tuple[Job, object]] = deque()
        self._open: dict[Job, bool] = {}  # not answered yet -> whether it is a quick one
        self._more = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def quick(self, work: Callable[[], bytes], most: int) -> Job:
        """Answer after the quick asks that came before. `BusyError` where `most` wait already."""
        job = Job(work)
        with self._more:
            self._admit(job, True, most)
            self._quick.append((job, self.turns.queue(quick=True)))
            if self._thread is None:
                self._thread = self._start(self._answer_quick)
            self._more.notify()
        return job

    def long(self, work: Callable[[], bytes]) -> Job:
        """Answer in a thread of its own. `BusyError` where MOST_LONG are on their way already."""
        job = Job(work, self.turns.give_way)
        with self._more:
            self._admit(job, False, MOST_LONG)
            place = self.turns.queue(quick=False)
        self._start(lambda: self._answer(job, place))
        return job

    def _admit(self, job: Job, quick: bool, most: int) -> None:
        if self._closed:
            raise BusyError(said("the server is ending"))
        waiting = sum(each == quick and not other.stopped for other, each in self._open.items())
        if waiting >= most:
            raise BusyError(
                said(
                    "{n} questions wait for {name} already; ask again when they are answered",
                    n=waiting,
                    name=self.name,
                )
            )
        self._open[job] = quick

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"look-{self.name}", daemon=True)
        thread.start()
        return thread

    def _answer_quick(self) -> None:
        while True:
            with self._more:
                self._more.wait_for(lambda: self._quick or self._closed)
                if self._closed:
                    return
                job, place = self._quick.popleft()
            self._answer(job, place)

    def _answer(self, job: Job, place: object) -> None:
        self.turns.take(place)
        try:
            job.run()
        finally:
            with self._more:
                self._open.pop(job, None)
            self.turns.leave()

    @property
    def computes(self) -> bool:
        """Whether something is being computed now."""
        return self.turns.taken

    def close(self) -> None:
        """Tell all who wait that it ends; what is being computed ends at its next step."""
        with self._more:
            self._closed = True
            left = list(self._open)
            self._quick.clear()
            self._more.notify_all()
        self.turns.close()
        for job in left:
            job.stop()
