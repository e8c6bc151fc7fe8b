"""Asks that take long: progress, parts, stopping, who goes first, who shares."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from budgerigar import progress
from budgerigar.explorer import jobs
from budgerigar.explorer.jobs import BusyError, Desk, Job, StoppedError, Turns
from budgerigar.inspection.views.payload import unpack


def _counting(steps: int, at: Callable[[int], object]) -> Callable[[], bytes]:
    """Work of some steps; `at` is called in each."""

    def work() -> bytes:
        with progress.track("counting", steps, unit="steps") as job:
            for n in range(steps):
                at(n)
                with progress.track("inside", 2) as inner:
                    inner.advance()
                job.advance()
                progress.so_far({"n": n})
        return b"done"

    return work


def test_a_job_tells_how_far_it_is_and_what_it_knows() -> None:
    seen: list[tuple[float, object]] = []
    job = Job(_counting(3, lambda _: None))

    def hear() -> None:
        assert job.report is not None
        part = None if job.part is None else unpack(job.part)["n"]
        seen.append((job.report.done, part))

    assert job.join(hear)
    job.run()
    assert job.answer.result() == b"done"
    assert seen == [(0, None), (1, None), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (3, 2)]
    assert job.report == progress.Report("counting", 3, 3, "steps")  # never the one inside


def test_the_last_who_leaves_stops_it() -> None:
    def hear() -> None: ...

    def also() -> None: ...

    job = Job(_counting(9, lambda n: n == 2 and job.leave(hear)))
    assert job.join(hear)
    assert job.join(also)
    job.run()
    assert job.answer.result() == b"done"  # somebody waited still
    job.leave(also)
    assert not job.stopped  # it is done, and its answer good
    again = Job(_counting(9, lambda n: n == 2 and again.leave(hear)))
    assert again.join(hear)
    again.run()
    assert again.report is not None
    assert again.report.done == 2
    assert isinstance(again.answer.exception(), StoppedError)
    assert not again.join(also)


def test_work_that_nobody_waits_for_any_more_is_not_begun() -> None:
    begun: list[int] = []
    job = Job(_counting(1, begun.append))
    assert job.join(list)
    job.leave(list)
    job.run()
    assert not begun


def test_quick_asks_go_first_at_every_step() -> None:
    desk, order = Desk("m"), list[str]()
    started, go = threading.Event(), threading.Event()

    def step(n: int) -> None:
        order.append(f"step {n}")
        started.set()
        go.wait(10)

    def quick() -> bytes:
        order.append("quick")
        return b""

    long = desk.long(_counting(2, step))
    started.wait(10)
    answers = [desk.quick(quick, 5) for _ in range(2)]
    go.set()
    assert long.answer.result(10) == b"done"
    for each in answers:
        each.answer.result(10)
    assert order[0] == "step 0"
    assert order.index("quick") < order.index("step 1")
    desk.close()


def test_two_long_asks_take_turns_and_never_read_at_once() -> None:
    desk, reading, order = Desk("m"), list[int](), list[str]()
    both = threading.Event()

    def work(name: str) -> Callable[[], bytes]:
        def step(n: int) -> None:
            both.wait(10)
            reading.append(1)
            assert len(reading) == 1
            order.append(name)
            reading.pop()

        return _counting(4, step)

    first, second = desk.long(work("a")), desk.long(work("b"))
    both.set()
    assert first.answer.result(10) == second.answer.result(10) == b"done"
    assert order != sorted(order)  # neither waits for the other's end
    desk.close()


def test_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_LONG", 1)
    desk, go = Desk("m"), threading.Event()
    long = desk.long(_counting(1, lambda _: go.wait(10)))
    with pytest.raises(BusyError, match="1 questions wait for m already"):
        desk.long(_counting(1, lambda _: None))
    quick = [desk.quick(lambda: b"", 2) for _ in range(2)]
    with pytest.raises(BusyError, match="2 questions wait for m already"):
        desk.quick(lambda: b"", 2)
    go.set()
    assert [one.answer.result(10) for one in (long, *quick)] == [b"done", b"", b""]
    desk.close()


def test_who_waits_at_the_end_is_told_at_once() -> None:
    desk, started, go = Desk("m"), threading.Event(), threading.Event()
    reached: list[int] = []

    def step(n: int) -> None:
        reached.append(n)
        started.set()
        go.wait(10)

    long, quick = desk.long(_counting(5, step)), None
    started.wait(10)
    quick = desk.quick(lambda: b"", 5)
    desk.close()
    for one in (long, quick):
        with pytest.raises(BusyError, match="the server is ending"):
            one.answer.result(1)  # while it still computes
    assert desk.computes
    go.set()
    for _ in range(1000):
        if not desk.computes:
            break
        threading.Event().wait(0.005)
    assert not desk.computes
    assert reached == [0]
    with pytest.raises(BusyError, match="ending"):
        desk.quick(lambda: b"", 5)


def test_an_error_is_the_answer() -> None:
    def fail() -> bytes:
        raise ValueError("no")

    desk = Desk("m")
    with pytest.raises(ValueError, match="no"):
        desk.quick(fail, 5).answer.result(10)
    assert desk.quick(lambda: b"yes", 5).answer.result(10) == b"yes"  # it lives on
    desk.close()


def test_turns_are_in_order() -> None:
    turns, order = Turns(), list[int]()
    turns.take(turns.queue(quick=False))
    done: list[Future[None]] = []

    def reader(n: int, place: object, end: Future[None]) -> None:
        turns.take(place)
        order.append(n)
        turns.leave()
        end.set_result(None)

    for n, quick in enumerate([False, True, False, True]):
        end: Future[None] = Future()
        given = (n, turns.queue(quick), end)
        threading.Thread(target=reader, args=given, daemon=True).start()
        done.append(end)
    turns.leave()
    for end in done:
        end.result(10)
    assert order == [1, 3, 0, 2]
