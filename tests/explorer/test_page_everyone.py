"""The page for everyone: axe on all of it, colours that are seen, a focus that is never lost."""

from __future__ import annotations

import http.server
import itertools
import re
import threading
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import viewed
from pages import Visit, hash_of, visit
from served import Served

import budgerigar as bg
from budgerigar.api.model import Model
from budgerigar.explorer.lessons import lesson
from budgerigar.inspection.export import page_of
from budgerigar.inspection.site_folder import SitePage, write_site

TEXT = "the cat sat on the mat . the dog sat"
SOURCE = "轩辕有一只猫。"
LOOKS = list(itertools.product(("en", "zh"), ("light", "dark")))
PAGE = files("budgerigar.explorer") / "page"


# -- colours, from the style sheet alone --------------------------------------------------------------


def colours(theme: int) -> dict[str, str]:
    """Of style.css: name -> #rrggbb; theme 0 is light, 1 dark."""
    sheet = (PAGE / "style.css").read_text(encoding="utf-8")
    return {
        name: (light, dark)[theme]
        for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", sheet)
    }


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_words_are_read_and_marks_are_seen(theme: int) -> None:
    found = colours(theme)
    papers = [found[name] for name in ("paper", "card", "well")]
    tints = [found[f"{name}-soft"] for name in ("query", "key", "value", "accent")]
    for name in ("ink", "soft", "accent", "query", "key", "value", "wrong"):
        assert min(contrast(found[name], each) for each in papers + tints) >= 4.5, name
    assert contrast(found["accent"], found["on-accent"]) >= 4.5
    assert min(contrast(found["edge"], each) for each in papers + tints) >= 3
    assert contrast(found["hatch"], found["well"]) >= 3
    script = (PAGE / "colours.js").read_text(encoding="utf-8")
    listed = re.search(r"PINNED = \[(.*?)\]", script, re.DOTALL)
    assert listed
    pens = [re.findall(r"#\w{6}", each) for each in re.findall(r'"([^"]*)"', listed[1])]
    assert len(pens) == 6
    assert min(contrast(pen[-1 if theme else 0], each) for pen in pens for each in papers) >= 3


# -- the focus ----------------------------------------------------------------------------------------

FOCUSED = "document.activeElement.id || document.activeElement.className"


def test_the_focus_is_never_lost(tab: Visit) -> None:
    tab.go(view="head", q__model="gpt", q__text=TEXT, q__off='["L1.H1"]', q__how="zero")
    press, focused = tab.page.keyboard.press, lambda: tab.page.evaluate(FOCUSED)
    tab.page.focus("#switch-language")
    press("ArrowDown")
    tab.until("document.documentElement.lang === 'zh-Hans'")
    tab.drawn()
    assert focused() == "switch-language"
    assert "budgerigar" in tab.page.title().lower()
    chinese = tab.page.title()
    press("ArrowUp")
    tab.until("document.documentElement.lang === 'en'")
    tab.drawn()
    assert tab.page.title() == "One head · Budgerigar: look inside" != chinese
    tab.page.focus("#switch-theme")
    press("ArrowDown")
    tab.until("document.documentElement.dataset.theme === 'light'")
    tab.drawn()
    assert focused() == "switch-theme"
    tab.page.focus(".about .chip")
    press("Enter")
    tab.until("!document.querySelector('.about .chip')")
    tab.drawn()
    assert focused() == "view"
    tab.page.focus("button[data-view=sentence]")
    press("Enter")
    tab.until("document.querySelector('.view-sentence')")
    tab.drawn()
    assert tab.page.evaluate("document.activeElement.dataset.view") == "sentence"
    assert tab.page.title().startswith("Sentence and prediction · ")
    tab.until(
        "document.querySelector('body > [aria-live=polite]').textContent.startsWith('Sentence')"
    )


def test_a_model_chosen_by_keyboard_gets_its_fields(tab: Visit) -> None:
    tab.go(view="sentence", q__model="gpt", q__text=TEXT)
    tab.page.focus("#ask-model")
    tab.page.keyboard.press("ArrowDown")
    tab.until("document.querySelector('#ask-source') && document.querySelector('#ask-target')")
    tab.drawn()
    assert tab.page.evaluate(FOCUSED) == "ask-model"


# -- axe on everything --------------------------------------------------------------------------------


class Checker:
    """axe, loaded once into a tab that is never loaded anew; what it found, by rule and element."""

    def __init__(self, tab: Visit) -> None:
        api = pytest.importorskip("axe_playwright_python.sync_playwright")
        self.tab, self.checked = tab, 0
        self.found: dict[tuple[str, str], str] = {}
        self.script = api.Axe().axe_script

    def load(self) -> None:
        self.tab.page.evaluate(self.script)

    def turn(self, **state: Any) -> None:
        """Another state by the address alone, until it is drawn."""
        self.tab.page.evaluate(
            "address => { document.querySelector('.view').dataset.old = ''; location.hash = address; }",
            hash_of(state),
        )
        self.tab.until("document.querySelector('.view:not([data-old])')")
        self.tab.drawn()
        self.tab.until("!document.querySelector('.figure-place:empty')")

    def check(self, label: str, look: tuple[str, str] = LOOKS[0]) -> None:
        """Everything that can be opened is opened; all rules of WCAG A and AA, and good practice.

        In the two looks that bring no new element, only the contrast of the colours. What waits for an
        answer is paler, and becomes dark again within a moment: that is waited for.
        """
        self.tab.until("!document.querySelector('.stale, [aria-busy=true]')")
        rules: Any = {"rules": {"target-size": {"enabled": True}}}
        if look in (LOOKS[1], LOOKS[2]):
            rules = {"runOnly": ["color-contrast"]}
        found = self.tab.page.evaluate(
            """async (rules) => {
              document.querySelectorAll("details").forEach((each) => (each.open = true));
              await new Promise((done) => setTimeout(done, 40));
              await Promise.allSettled(document.getAnimations().map((each) => each.finished));
              return (await axe.run(document, { resultTypes: ["violations"], ...rules })).violations
                .flatMap(({ id, nodes }) => nodes.map(({ html }) => [id, html.slice(0, 200)]));
            }""",
            rules,
        )
        self.checked += 1
        for rule, html in found:
            self.found.setdefault((rule, html), label)

    def views(self) -> list[str]:
        names = self.tab.page.evaluate(
            "[...document.querySelectorAll('.menu button:not(:disabled)')].map((e) => e.dataset.view)"
        )
        return [name for name in names if name != "lesson"]


@pytest.fixture
def checker(browser: Any, page_server: Served) -> Iterator[Checker]:
    with visit(browser, page_server.host) as shown:
        yield Checker(shown)


@pytest.fixture(scope="module")
def models(little_run: Path, translator_folder: Path) -> dict[str, Model]:
    """One of each kind."""
    return {
        "gpt": bg.load(little_run, device="cpu"),
        "translator": bg.load(translator_folder, device="cpu"),
        "lstm": viewed.recurrent(),
        "ngram": viewed.ngram(4),
        "feed-forward": viewed.feed_forward(),
        "encoder": viewed.encoder(),
    }


KINDS = ["gpt", "translator", "lstm", "ngram", "feed-forward", "encoder"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_on_any_view(checker: Checker, kind: str) -> None:
    asked = {"q__source": SOURCE} if kind == "translator" else {"q__text": TEXT}
    state = {"q__model": kind, "s__query": 3, "s__key": 1, **asked}
    checker.tab.go(view="sentence", **state)
    checker.load()
    views = checker.views()
    assert len(views) >= 2
    for view in views:
        for language, theme in LOOKS:
            checker.turn(view=view, language=language, theme=theme, **state)
            checker.check(f"{view} {language} {theme}", (language, theme))
    assert not checker.found
    assert checker.checked == len(LOOKS) * len(views)


@pytest.mark.slow
def test_axe_finds_nothing_in_the_lesson(checker: Checker) -> None:
    state = {"view": "lesson", "q__model": "gpt", "q__text": TEXT}
    checker.tab.go(**state)
    checker.load()
    for number in range(1, len(lesson("en")) + 1):
        for language, theme in LOOKS:
            checker.turn(language=language, theme=theme, v__page=number, **state)
            title = lesson(language)[number - 1]["title"]
            checker.tab.until(f"document.querySelector('.lesson-title')?.textContent === {title!r}")
            checker.check(f"lesson {number} {language} {theme}", (language, theme))
    assert not checker.found


def every_view(checker: Checker, label: str) -> None:
    checker.load()
    for view in checker.views():
        for language, theme in LOOKS:
            checker.turn(view=view, language=language, theme=theme)
            checker.check(f"{label} {view} {language} {theme}", (language, theme))


@pytest.mark.slow
def test_axe_finds_nothing_in_a_file(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "trace.html"
    file.write_text(page_of(viewed.look("decoder")), encoding="utf-8")
    with visit(browser, "", offline=True) as shown:
        shown.page.goto(f"file://{file}")
        shown.drawn()
        checker = Checker(shown)
        every_view(checker, "file")
        assert not checker.found
        assert checker.checked >= 20


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """A plain server of files says nothing."""


@pytest.mark.slow
def test_axe_finds_nothing_on_a_site(browser: Any, tmp_path: Path) -> None:
    looks = [viewed.look("decoder"), viewed.look("encoder")]
    for look, name in zip(looks, ("gpt", "encoder"), strict=True):
        look.question["model"] = name
    site = write_site(tmp_path / "site", [SitePage("both", "Both", looks)])
    handler = partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        with visit(browser, host) as shown:
            checker = Checker(shown)
            shown.page.goto(f"http://{host}/")
            checker.load()
            checker.check("the list of pages")
            shown.page.goto(f"http://{host}/both.html")
            shown.drawn()
            every_view(checker, "site")
        server.shutdown()
    assert not checker.found
    assert checker.checked >= 20
