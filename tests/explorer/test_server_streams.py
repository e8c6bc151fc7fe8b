"""Long answers on real sockets: frames, progress, parts, stopping by going away, several tabs."""

from __future__ import annotations

import http.client
import json
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from served import Served, asked, refused

import budgerigar as bg
from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.explorer.streaming import FRAMES
from budgerigar.inspection.views import VIEWS, View, unpack
from budgerigar.inspection.views.params import whole

PROGRESS, PART, ANSWER = 0, 1, 2


class Slow:
    """A view of so many steps, each of which waits until it is let go."""

    def __init__(self) -> None:
        self.go, self.reached, self.runs = threading.Event(), 0, 0

    def __call__(self, look: Any, steps: int, fail: int) -> dict[str, Any]:
        self.runs += 1
        with progress.track("counting", steps, unit="steps") as job:
            for n in range(steps):
                self.go.wait(10) if n else None
                self.reached = n
                if n == fail:
                    raise UserError("not this one")
                job.advance()
                progress.so_far({"n": n})
                time.sleep(0.02)
        return {"all": steps}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    view = Slow()
    params = {"steps": whole(1, 100, 3), "fail": whole(0, None, 1000)}
    monkeypatch.setitem(VIEWS, "slow", View(view, params, long=lambda _: True))
    yield view
    view.go.set()


class Tab:
    """A page that reads frames."""

    def __init__(
        self, served: Served, params: dict[str, Any] | None = None, **headers: str
    ) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        body = json.dumps({"question": asked(), "name": "slow", "params": params or {}})
        sent = {"content-type": "application/json", "accept": f"{FRAMES}, */*", **headers}
        self.connection.request("POST", "/api/ask", body, sent)
        self.answer = self.connection.getresponse()

    def frame(self) -> tuple[int, bytes]:
        head = self.answer.read(8)
        kind, length = struct.unpack("<II", head)
        return kind, self.answer.read(length)

    def frames(self) -> list[tuple[int, bytes]]:
        found = [self.frame()]
        while found[-1][0] < ANSWER:
            found.append(self.frame())
        assert self.answer.read() == b""
        return found

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def test_progress_parts_and_the_answer(served: Served, slow: Slow) -> None:
    tab = Tab(served)
    assert tab.answer.status == 200
    assert tab.answer.getheader("content-type") == FRAMES
    assert tab.answer.getheader("cache-control") == "no-store"
    assert "default-src 'none'" in tab.answer.getheader("content-security-policy", "")
    first = tab.frame()
    assert first[0] == PART  # the first step was done while it waited
    assert unpack(first[1]) == {"n": 0}
    kind, content = tab.frame()
    assert kind == PROGRESS
    told = {"description": "counting", "done": 1, "total": 3, "unit": "steps"}
    assert json.loads(content) == told
    slow.go.set()
    found = tab.frames()
    assert found[-1][0] == ANSWER
    assert unpack(found[-1][1]) == {"all": 3}
    assert not served.said


def test_who_reads_no_frames_gets_the_payload(served: Served, slow: Slow) -> None:
    slow.go.set()
    answer = served.ask(asked(), "slow", {"steps": 2})
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.value == {"all": 2}


def test_a_quick_answer_comes_whole(served: Served, slow: Slow) -> None:
    row = {"layer": 0, "head": 0, "query": 1}
    answer = served.ask(asked(), "row", row, Accept=FRAMES)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "content-length" in answer.headers
    refused(served, served.ask(asked(), "slow", {"fail": 0}, Accept=FRAMES), 422, "not this one")


def test_an_error_after_a_while_is_the_last_frame(served: Served, slow: Slow) -> None:
    tab = Tab(served, {"fail": 1})
    slow.go.set()
    kind, content = tab.frames()[-1]
    assert kind == 422
    assert json.loads(content)["error"] == "not this one"
    assert served.said == ["refused: POST /api/ask: 422 not this one"]


def test_other_questions_are_answered_meanwhile(served: Served, slow: Slow) -> None:
    tab = Tab(served, {"steps": 3})
    other = threading.Timer(0.1, slow.go.set)  # a step ends, and the question is let through
    other.start()
    assert served.ask(asked(), "row", {"layer": 0, "head": 0, "query": 1}).status == 200
    assert tab.frames()[-1][0] == ANSWER


def test_closing_the_tab_stops_the_work(served: Served, slow: Slow) -> None:
    tab = Tab(served, {"steps": 100})
    tab.frame()
    slow.go.set()
    tab.close()
    deadline = time.monotonic() + 5
    while served.sessions.job(asked(), "slow", {"steps": 1}).answer.result(10) is None:
        pass  # the model answers again
    while not served.sessions.rests(0) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert served.sessions.rests(0)
    assert slow.reached < 99
    assert not served.said


def test_two_tabs_share_one_work_and_one_may_go(served: Served, slow: Slow) -> None:
    first, second = Tab(served, {"steps": 5}), Tab(served, {"steps": 5})
    other = Tab(served, {"steps": 2})
    first.frame()
    first.close()
    slow.go.set()
    assert unpack(second.frames()[-1][1]) == {"all": 5}
    assert unpack(other.frames()[-1][1]) == {"all": 2}
    assert slow.runs == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_strangers_start_no_work(
    served: Served, slow: Slow, headers: dict[str, str], status: int
) -> None:
    tab = Tab(served, **headers)
    assert tab.answer.status == status
    assert slow.runs == 0
    tab.close()


def test_checkpoints_come_one_by_one_and_are_kept(
    served: Served, little: bg.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    from budgerigar.inspection import behaviours, role_probes

    for name in ("repeats", "stories", "code"):
        made = getattr(role_probes, name)
        monkeypatch.setattr(role_probes, name, lambda *a, made=made, **k: made(*a, **{**k, "n": 4}))
    monkeypatch.setattr(behaviours, "N_GAPS", 4)
    parts: list[Any] = []

    class Heard:
        def step(self, report: progress.Report | None) -> None:
            if report is not None:
                done.append(report.done)

        def so_far(self, value: Any) -> None:
            parts.append(value["checkpoints"])

    from budgerigar.inspection.views import look_at, value_of

    done: list[float] = []
    with progress.listening(Heard()):
        whole_answer = value_of(look_at(little, asked()), "born", {"most": 3})
        measured = len(done)
        again = value_of(look_at(little, asked()), "born", {"most": 3})
    names = little.checkpoints
    assert parts == [names[:1], names[:2], names, names]
    assert whole_answer["births"] == again["births"]
    assert done[measured - 1] == pytest.approx(4)  # three checkpoints and the untrained copy
    assert len(done) == measured + 1  # only that there is nothing to do
