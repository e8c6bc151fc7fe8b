"""A long answer on the page: how far it is, what is known so far, Stop, and going on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pages import Visit, hash_of
from served import Served

from budgerigar import progress
from budgerigar.inspection.views import VIEWS, View

pytestmark = pytest.mark.slow


def test_it_tells_how_far_it_is_and_can_be_stopped(
    tab: Visit, page_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, real = threading.Event(), VIEWS["roles"]

    def slow(look: Any) -> Any:
        with progress.track("measuring head roles", 4, unit="texts") as job:
            for _ in range(4):
                job.advance()
                go.wait(20)
        return real.run(look)

    monkeypatch.setitem(VIEWS, "roles", View(slow, {}, real.refusal, lambda _: True))
    state = {"view": "roles", "q__model": "gpt", "q__text": "the cat sat"}
    tab.page.goto(f"http://{page_server.host}/{hash_of(state)}")  # `go` would wait for the answer
    box = tab.page.locator(".job")
    box.wait_for()
    assert "Measuring head roles: 25 %" in box.inner_text()
    stop = tab.page.get_by_role("button", name="Stop")
    stop.focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_text("Stopped.").wait_for()
    go.set()
    tab.page.get_by_role("button", name="Go on").click()
    tab.page.locator("table.roles").first.wait_for()
    assert tab.page.locator(".job").count() == 0
