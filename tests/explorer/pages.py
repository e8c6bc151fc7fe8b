"""The page in the system's Chromium: a browser, a tab that may ask our server alone, and waiting."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
PATIENCE = 60.0  # seconds for anything to happen: far more than it takes, as machines may be busy
HOW = (
    "the page's tests need a browser and found none of "
    f"{', '.join(NAMES)}. On Debian and Ubuntu: sudo apt-get install chromium"
)


def browser_path() -> str:
    """The system's Chromium. Without one: a failure where CI=true, else a skipped test."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(HOW)
    pytest.skip(HOW)


@contextmanager
def opened_browser() -> Iterator[Any]:
    """A browser without a window that finds no host but this machine.

    Cut off by the browser itself: letting requests through one by one would slow all of them.
    """
    path = browser_path()
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[ALONE])
        try:
            yield browser
        finally:
            browser.close()


def hash_of(state: Mapping[str, Any]) -> str:
    """The address of a state: view="head", s__layer=1 as #view=head&s.layer=1."""
    parts = (f"{name.replace('__', '.')}={quote(str(v))}" for name, v in state.items())
    return "#" + "&".join(parts)


def value(words: str) -> float:
    """A number as the page writes it."""
    return float(words.replace("−", "-").replace("+", ""))


def numbers(words: str) -> list[float]:
    """Every number in a text."""
    return [value(each) for each in re.findall(r"[+−]?\d+(?:\.\d+)?(?:e−?\d+)?", words)]


def check_for_all(page: Any) -> None:
    """axe finds no fault in what the page shows, everything that can be opened opened."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = axe.run(page).response["violations"]
    assert not found, [(each["id"], each["nodes"][0]["html"]) for each in found]


@dataclass
class Visit:
    """One tab. `asked`: every address that it wanted; `wrong`: errors of its scripts and console."""

    page: Any
    host: str
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def go(self, **state: Any) -> None:
        """Open the page with this state in the address, and wait until its view is drawn."""
        self.page.goto("about:blank")
        self.page.goto(f"http://{self.host}/{hash_of(state)}")
        self.drawn()

    def turn(self, view: str, **state: Any) -> None:
        """The same without loading the page anew; by way of another view, so that it is drawn."""
        end = time.monotonic() + PATIENCE
        between = "sentence" if view != "sentence" else "grid"
        for each in (between, view):
            address = hash_of({"view": each, **state})
            while not self.page.evaluate(f"document.querySelector('.view-{each}') !== null"):
                assert time.monotonic() < end, f"the page never turned to {each}; {self.wrong}"
                self.page.evaluate("address => { location.hash = address; }", address)
                time.sleep(0.03)
        self.drawn()

    def drawn(self) -> None:
        """Wait for the view: its first panel stands and nothing is being asked."""
        self.until(
            "document.querySelector('.view-body .panel, .failure') && "
            "!document.querySelector('[aria-busy=true], .waiting, .stale')"
        )

    def until(self, condition: str, seconds: float = PATIENCE) -> Any:
        """What a JavaScript expression gives once that is true; polled, for the page allows no eval."""
        end = time.monotonic() + seconds
        while not (found := self.page.evaluate(condition)):
            assert time.monotonic() < end, f"never true: {condition}; {self.wrong}"
            time.sleep(0.02)
        return found

    def text(self, selector: str) -> str:
        """What stands there, blanks joined."""
        found: str = self.page.locator(selector).first.inner_text()
        return " ".join(found.split())

    def texts(self, selector: str) -> list[str]:
        return [" ".join(each.split()) for each in self.page.locator(selector).all_inner_texts()]


class KeptVisit(Visit):
    """A tab that many tests share: `go` changes the address of the page that stands there already.

    The browser reads and starts the page's modules once, which is most of what a visit costs. Another
    view is drawn in between, so that the view is new whatever the test before left in it.
    """

    def go(self, **state: Any) -> None:
        if not self.page.url.startswith(f"http://{self.host}/"):
            super().go(**state)
            return
        between = hash_of({"view": "links", "q__model": "gpt", "q__text": "the"})
        for address in (between, hash_of(state)):
            self.page.evaluate(
                "address => new Promise(done => {"
                "  if (location.hash === address) return done();"
                "  addEventListener('hashchange', () => setTimeout(done), { once: true });"
                "  location.hash = address; })",
                address,
            )
        self.drawn()


def twin(tab: Visit, place: str) -> list[list[str]]:
    """Cells of the table that says the same in words, opened; blanks joined."""
    tab.page.locator(f"{place} > summary").first.click()
    tab.until(f"document.querySelector('{place} tbody')")
    rows = tab.page.locator(f"{place} tbody tr")
    return [[" ".join(cell.split()) for cell in row.locator("th, td").all_inner_texts()]
            for row in rows.all()]  # fmt: skip


def watched(page: Any, host: str = "", kind: type[Visit] = Visit) -> Visit:
    """A visit whose errors are remembered, and which is patient."""
    shown = kind(page, host)
    page.set_default_timeout(1000 * PATIENCE)

    def heard(line: Any) -> None:
        if line.type == "error":
            shown.wrong.append(line.text)

    page.on("pageerror", lambda error: shown.wrong.append(error.stack or str(error)))
    page.on("console", heard)
    return shown


@contextmanager
def visit(browser: Any, host: str, kind: type[Visit] = Visit, **settings: Any) -> Iterator[Visit]:
    """A tab; every address that it asks for is remembered."""
    size = {"width": 1280, "height": 900}
    context = browser.new_context(**{"viewport": size, "locale": "en-US", **settings})
    page = context.new_page()
    shown = watched(page, host, kind)

    context.on("request", lambda request: shown.asked.append(request.url))
    try:
        yield shown
    finally:
        context.close()
