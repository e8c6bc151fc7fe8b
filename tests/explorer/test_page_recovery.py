"""The server ends while its page is open, and starts again: as it was, or with other models."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pages import PATIENCE, Visit, visit
from served import serving

from budgerigar.api.model import Model
from budgerigar.explorer.server import bind
from budgerigar.explorer.sessions import Sessions

SHOWN = "document.querySelector('.stickybar .strip')?.innerText.replace(/\\s/g, '')"
DRAWN = "document.querySelector('.view-body .panel') && !document.querySelector('[aria-busy=true]')"


def comes(tab: Visit, condition: str) -> None:
    """Wait for it, also while the page begins anew."""
    errors = pytest.importorskip("playwright.sync_api").Error
    end, found = time.monotonic() + PATIENCE, None
    while not found:
        assert time.monotonic() < end, f"never true: {condition}; {tab.wrong}"
        time.sleep(0.05)
        try:
            found = tab.page.evaluate(condition)
        except errors:  # its context is gone
            continue


def ask(tab: Visit, text: str) -> None:
    """Type it, and look."""
    tab.page.locator("#ask-text").fill(text)
    tab.page.keyboard.press("Enter")


@pytest.mark.slow
def test_the_page_goes_on_when_a_server_is_there_again(
    browser: Any, models: dict[str, Model]
) -> None:
    """A tab that asked while there was none, and one that did not notice."""
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    gpt, lstm = {"gpt": models["gpt"]}, {"lstm": models["lstm"]}
    host = f"127.0.0.1:{port}"
    with visit(browser, host) as tab, visit(browser, host) as quiet:
        with serving(Sessions(gpt), port=port):
            for each in (tab, quiet):
                each.go(view="grid", q__model="gpt", q__text="the cat")
            before = tab.page.evaluate(SHOWN)
        ask(tab, "the dog sat")
        tab.until("document.querySelector('.failure')")
        assert "goes on by itself" in tab.text(".failure")
        with serving(Sessions(gpt), port=port):
            comes(tab, f"{DRAWN} && {SHOWN} !== {before!r}")
            assert not tab.page.locator(".failure").count()
            assert tab.page.locator("#ask-text").input_value() == "the dog sat"
        with serving(Sessions(lstm), port=port):
            ask(quiet, "it")
            comes(quiet, f"{DRAWN} && document.querySelector('.ask select')?.value === 'lstm'")
            assert quiet.page.locator("#ask-text").input_value() == "it"
        for each in (tab, quiet):  # a browser's own lines about requests that failed
            assert not [line for line in each.wrong if "Failed to load resource" not in line]
