"""A whole site in a browser, below a path of a strict server: nothing is asked of anybody else, every
page of the lesson is complete in both languages, and every view of every question is drawn.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pages import opened_browser, visit
from toy import network

import budgerigar as bg
from budgerigar.api.model import Model
from budgerigar.explorer.lessons import LANGUAGES, lesson
from budgerigar.explorer.site import site_of

STRICT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)


class Strict(http.server.SimpleHTTPRequestHandler):
    """A plain server of files with a policy of its own."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", STRICT)
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """It says nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = partial(Strict, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_whole_site(
    translator_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budgerigar.inspection.besides.MOST_TRIED", 0)  # abilities take long
    translator = bg.load(translator_folder, device="cpu")
    words = translator.tokenizer
    short = {"n_layers": 1, "context_length": 100}  # too short for the first story
    decoder = network(words.vocab_size, **short)
    models = {"gpt": Model(decoder, words), "zh-en": translator}
    site_of(tmp_path / "web" / "deep" / "site", models)
    with served(tmp_path / "web") as host, opened_browser() as browser, visit(browser, host) as tab:
        place = f"http://{host}/deep/site"
        for language in LANGUAGES:
            for number in range(1, 1 + len(lesson(language))):
                tab.page.goto("about:blank")
                tab.page.goto(f"{place}/lesson-{number}-{language}.html")
                tab.page.wait_for_url("**/index.html*")
                tab.until("document.querySelector('.lesson-title')")
                tab.drawn()
                where = (language, number)
                lacking = tab.page.locator(".lesson .missing, .lesson .failure").all()
                assert not [each.inner_text() for each in lacking], where
                assert "…" not in tab.texts(".lesson .real"), where
                assert not tab.texts(".lesson .open-view:disabled"), where
        tab.page.goto("about:blank")
        tab.page.goto(f"{place}/")
        tab.drawn()
        for at in range(tab.page.locator("#ask-recorded option").count()):
            tab.page.locator("#ask-recorded").select_option(str(at))
            tab.drawn()
            views = tab.page.locator("button[data-view]:not(:disabled)")
            names = [each.get_attribute("data-view") for each in views.all()]
            assert {"roles", "off", "head", "lesson"} <= set(names)
            for name in names:
                tab.page.locator(f"button[data-view={name}]").click()
                tab.drawn()
                assert not tab.texts("main .failure, main [role=alert]"), (at, name)
        tab.page.locator("button[data-view=off]").click()
        tab.drawn()
        for switch in ("L0.H1", "L0.H0"):  # the second one alone: both together are not recorded
            tab.page.locator(f".switch[data-name='{switch}']").click()
            tab.until(f"document.querySelector('.chip')?.textContent.includes('{switch}')")
            tab.drawn()
        assert tab.page.locator(".chip").count() == 1
        assert not tab.texts("main .failure")
        assert not tab.wrong
        asked = [each for each in tab.asked if each != "about:blank"]
        assert all(each.startswith(f"{place}/") for each in asked)
