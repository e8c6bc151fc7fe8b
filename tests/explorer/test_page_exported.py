"""Exported files in a browser: opened from the disk with the network off, in a notebook's frame, as a
site below a path; what the page derives from records is what the library's views say.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import viewed
from pages import Visit, opened_browser, visit, watched
from served import serving

from budgerigar.explorer.sessions import Sessions
from budgerigar.inspection.export import _page, page_of
from budgerigar.inspection.records import record
from budgerigar.inspection.site_folder import SitePage, write_site
from budgerigar.inspection.views import Look

HOSTILE = "the cat </script><b>sat</b> on the mat"
OUTPUTS = """<meta http-equiv="Content-Security-Policy" content="default-src 'none';
script-src https://outputs.example 'unsafe-inline' 'unsafe-eval'; connect-src https:;
style-src https://outputs.example 'unsafe-inline'; child-src https: data:">"""
"""a policy around what cells show, as strict as VS Code's"""
STOPPED = "document.querySelector('.view-body .panel, .failure') && "
STOPPED += "!document.querySelector('[aria-busy=true], .waiting, .stale')"


def slow(*names: str) -> list[Any]:
    """Cases that `make test` leaves out."""
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as opened:
        yield opened


@contextmanager
def opened(browser: Any, file: Path, **settings: Any) -> Iterator[Visit]:
    """A file from the disk in a browser without a network; it asks for nothing but itself."""
    context = browser.new_context(offline=True, locale="en-US", **settings)
    page = context.new_page()
    shown = watched(page)
    page.on("request", lambda request: shown.asked.append(request.url))
    try:
        page.goto(f"file://{file}")
        shown.drawn()
        yield shown
        assert not shown.wrong
        assert {address.partition("#")[0] for address in shown.asked} == {f"file://{file}"}
    finally:
        context.close()


def shown_number(tab: Visit, selector: str) -> float:
    return float(tab.text(selector).replace("−", "-"))


def test_a_file_opens_from_the_disk_and_shows_the_librarys_numbers(
    browser: Any, tmp_path: Path
) -> None:
    model = viewed.decoder("bpe")
    trace = model.trace(HOSTILE)
    head = trace.attention("L1.H2")
    with opened(browser, trace.html(tmp_path / "it.html", head="L1.H2")) as tab:
        last = head.weights[-1]
        assert tab.text(".headname") == "L1.H2"
        assert shown_number(tab, ".readout strong") == pytest.approx(last.max(), abs=5.1e-4)
        assert "by at most 0.000008" in tab.text(".map")
        assert "sums to" in tab.text(".beside")
        assert tab.page.locator("main b").count() == 0
        field = tab.page.get_by_label("Text", exact=True)
        assert field.is_disabled()
        assert field.input_value() == HOSTILE
        assert "budgie explore" in tab.text(".ask .note")
        tab.page.keyboard.press("]")
        tab.until("document.querySelector('.headname').textContent === 'L1.H3'")
        lacking = tab.page.get_by_role("button", name="Head roles")
        assert lacking.is_disabled()
        assert lacking.get_attribute("title") == "needs “budgie explore”"
        assert tab.page.get_by_role("button", name="Gates and memory").count() == 0
        for view in ("sentence", "links", "grid", "steps", "positions", "block", "lens", "reach"):
            tab.page.locator(f"button[data-view={view}]").click()
            tab.drawn()
            assert tab.page.locator("main .failure").count() == 0, view
            if view == "steps":
                assert "float16" in tab.text(".steps-place")
                assert tab.page.locator("[data-stage=output]").count() > 0
        tab.page.locator("select[aria-label]").first.select_option("zh")
        tab.until("document.documentElement.lang === 'zh-Hans'")


@pytest.mark.parametrize("kind", ["recurrent", *slow("encoder-decoder", "encoder", "ngram")])
def test_every_kind_of_model_has_a_page(browser: Any, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"{kind}.html"
    file.write_text(page_of(viewed.look(kind)), encoding="utf-8")
    with opened(browser, file, viewport={"width": 320, "height": 800}) as tab:
        items = tab.page.locator("button[data-view]:not(:disabled)")
        names = [one.get_attribute("data-view") for one in items.all()]
        special = {"encoder-decoder": "translation", "recurrent": "gates", "ngram": "backoff"}
        assert special.get(kind, "head") in names
        for name in names:
            tab.page.locator(f"button[data-view={name}]").click()
            tab.drawn()
            assert tab.page.locator("main .failure").count() == 0, name
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_notebooks_frame_runs_and_asks_nobody(browser: Any, tmp_path: Path) -> None:
    """srcdoc inside a page with a policy of its own, as Jupyter, VS Code and Colab show it."""
    head = viewed.decoder("bpe").trace(HOSTILE).attention("L0.H3")
    cell = tmp_path / "notebook.html"
    dark = "<body data-vscode-theme-kind=vscode-dark>"
    cell.write_text(f"<!doctype html>{OUTPUTS}{dark}{head._repr_html_()}", encoding="utf-8")
    context = browser.new_context(offline=True, locale="en-US")
    try:
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda line: line.type == "error" and wrong.append(line.text))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{cell}")
        inner = page.frame_locator("iframe")
        inner.locator(".readout strong").first.wait_for()
        assert inner.locator(".headname").first.inner_text() == "L0.H3"
        assert inner.locator("html").get_attribute("data-theme") == "dark"
        assert inner.get_by_role("button", name="All heads").is_disabled()
        inner.get_by_role("button", name="The four steps").click()
        inner.locator(".steps-place .vector").first.wait_for()
        assert not wrong
        assert set(asked) <= {f"file://{cell}", "about:srcdoc"}
    finally:
        context.close()


def test_only_the_pages_script_runs(browser: Any, tmp_path: Path) -> None:
    """A file into which somebody wrote a script afterwards does not run it."""
    page = page_of(viewed.look("ngram"), steps=False)
    evil = "<script>document.title = 'taken over'</script><img src=x onerror=alert(1)>"
    file = tmp_path / "x.html"
    file.write_text(page.replace("</body>", f"{evil}</body>"), encoding="utf-8")
    context = browser.new_context(offline=True)
    try:
        tab = context.new_page()
        tab.goto(f"file://{file}")
        tab.wait_for_selector(".view-body .panel")
        assert tab.title() != "taken over"
    finally:
        context.close()


# -- what is derived -------------------------------------------------------------------------------

DIALS: dict[str, dict[str, Any]] = {
    "gqa rotary": {"positions": "rotary", "n_kv_heads": 2, "qk_norm": "head", "norm": "rms"},
    "alibi cap sink": {"positions": "alibi", "attention_softcap": 5.0, "sink_logit": True},
    "window post": {"norm_place": "post", "attention_window": 4, "sink_tokens": 1},
    "parallel": {"positions": "none", "parallel_residual": True},
}
DERIVED_FROM = 290_000  # bytes: all but blocks at every position
SPREAD = """async ([recorded, question, asked]) => {
  const { recordedSource } = await import("/recorded.js");
  const source = recordedSource(recorded);
  const found = [];
  for (const [name, params] of asked) {
    if (!source.has(question, name, params)) found.push("missing");
    else found.push(await source.ask(question, name, params));
  }
  const plain = (key, each) => (ArrayBuffer.isView(each) ? Array.from(each) : each);
  return JSON.parse(JSON.stringify(found, plain));
}"""


@pytest.fixture(scope="module")
def modules(browser: Any) -> Iterator[Visit]:
    """A page from which a test can import the page's modules."""
    with serving(Sessions({})) as served, visit(browser, served.host) as shown:
        shown.page.goto(f"http://{served.host}/index.html")
        yield shown


def recorded(look: Look) -> dict[str, Any]:
    text = _page([look], [record(look, limit=DERIVED_FROM)], None)
    found = re.search(r'id="recorded">(.*?)</script>', text, re.DOTALL)
    assert found
    value = json.loads(found[1])
    assert isinstance(value, dict)
    return value


def derived(modules: Visit, look: Look, asked: list[tuple[str, Any]]) -> list[Any]:
    data = recorded(look)
    given = [data, data["looks"][0]["question"], asked]
    found = modules.page.evaluate(SPREAD, given)
    assert isinstance(found, list)
    return found


def same(told: Any, wanted: Any, path: str = "", room: float = 2e-3) -> None:
    """What the browser derived is what the library says, arrays within `room` of their largest."""
    if isinstance(wanted, dict):
        for key, part in wanted.items():
            same(None if told is None else told.get(key), part, f"{path}.{key}", room)
    elif isinstance(wanted, np.ndarray):
        assert told is not None, path
        assert told["shape"] == list(wanted.shape), path
        array = np.array(told["data"], dtype=np.float64).reshape(wanted.shape)
        most = float(np.abs(wanted).max(initial=0.0))
        np.testing.assert_allclose(array, wanted, rtol=0, atol=room * most + 1e-6, err_msg=path)
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        assert len(told) == len(wanted), path
        for at, (one, other) in enumerate(zip(told, wanted, strict=True)):
            same(one, other, f"{path}[{at}]", room)
    elif isinstance(wanted, float):
        assert told == pytest.approx(wanted, rel=room, abs=1e-4), path
    else:
        assert told == wanted, path


def rows_asked(look: Look) -> list[tuple[str, Any]]:
    """Steps, rows and links of a head of each kind of attention, first, middle and last query."""
    found: list[tuple[str, Any]] = []
    for site in look.trace.sites:
        place = {"layer": len(site.modules) - 1, "head": site.modules[0].n_heads - 1}
        place |= {"of": site.of, "kind": site.kind}
        rows, columns = len(site.query_spelling), len(site.key_spelling)
        for query in sorted({0, rows // 2, rows - 1}):
            found += [("row", {**place, "query": query}), ("steps", {**place, "query": query})]
        ends = {"query": rows - 1, "of": site.of, "kind": site.kind}
        keys = range(min(2, columns - 1), min(4, columns))
        for key, untrained in ((keys[0], True), (list(keys), True), (keys[0], False)):
            found.append(("links", {**ends, "key": key, "untrained": untrained}))
    return found


def check(modules: Visit, look: Look, asked: list[tuple[str, Any]]) -> None:
    for (name, params), told in zip(asked, derived(modules, look, asked), strict=True):
        assert told != "missing", (name, params)
        wanted = viewed.view(look, name, **params)
        if name == "row":
            wanted.pop("order")  # of weights that are alike in 16 bits, any comes first
        if name == "links":  # nor have such heads an order
            for each in (told, wanted):
                each["links"].sort(key=lambda link: link["name"])
                for link in each["links"]:
                    link.pop("rank")
        same(told, wanted, f"{name} {params}")


@pytest.mark.parametrize("dials", ["gqa rotary", *slow(*list(DIALS)[1:])])
def test_rows_steps_and_links_of_a_decoder(modules: Visit, dials: str) -> None:
    look = viewed.look("decoder", **DIALS[dials])
    check(modules, look, rows_asked(look))
    if look.config.positions in ("rotary", "alibi"):
        kind = {"of": "decoder", "kind": "self"}
        check(modules, look, [("positions", {"layer": 1, **kind}), ("positions", kind)])


@pytest.mark.parametrize("kind", ["rnn-encoder-decoder", *slow("encoder", "encoder-decoder")])
def test_rows_steps_and_links_of_other_kinds(modules: Visit, kind: str) -> None:
    look = viewed.look(kind)
    check(modules, look, rows_asked(look))


def test_a_later_token_cannot_be_looked_at(modules: Visit) -> None:
    look = viewed.look("decoder")
    asked = {"query": 1, "key": 5, "of": "decoder", "kind": "self", "untrained": False}
    with pytest.raises(Exception, match=r"links\.later|cannot look at"):
        derived(modules, look, [("links", asked)])


def test_positions_begin_anew_with_each_document(modules: Visit) -> None:
    model = viewed.decoder(positions="rotary")
    end, words = model.tokenizer.end_id, model.tokenizer.encode(" he was young .")
    look = viewed.look_at(model, {"ids": [end, *words, end, *words]})
    place = {"layer": 1, "head": 2, "of": "decoder", "kind": "self"}
    assert look.trace.inputs["positions"][0, -1] == len(words)
    check(modules, look, [("steps", {**place, "query": len(look.trace.ids) - 1})])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_units_of_a_recurrent_model(modules: Visit, cell: str) -> None:
    look = viewed.look("recurrent", cell=cell)
    check(modules, look, [("unit", {"layer": 1, "unit": 3}), ("gates", {"layer": 0})])


def test_a_document_opens_with_an_empty_memory(modules: Visit) -> None:
    model = viewed.recurrent("gru")
    end, words = model.tokenizer.end_id, model.tokenizer.encode(" he was young .")
    look = viewed.look_at(model, {"ids": [end, *words, end, *words]})
    before = viewed.view(look, "unit", layer=0, unit=3)["before"]
    assert [at for at, value in enumerate(before) if value == 0] == [0, 1 + len(words)]
    check(modules, look, [("unit", {"layer": 0, "unit": 3})])


def test_what_is_not_in_a_file_is_missing(modules: Visit) -> None:
    look = viewed.look("decoder")
    asked = [("generate", {"count": 5}), ("roles", {}), ("steps", {"layer": 0, "head": 0})]
    assert derived(modules, look, asked) == ["missing"] * 3


# -- a site ----------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """A plain server of files says nothing."""


def test_a_site_below_a_path_of_any_server(browser: Any, tmp_path: Path) -> None:
    first, second = viewed.look("decoder"), viewed.look("encoder-decoder")
    first.question["model"], second.question["model"] = "gpt", "zh-en"
    write_site(
        tmp_path / "web" / "deep" / "site",
        [SitePage("both", "Both", [first, second], besides=False)],
    )
    handler = partial(Quiet, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        with visit(browser, host) as tab:
            tab.page.goto(f"http://{host}/deep/site/")
            tab.page.get_by_role("link", name="Both").click()
            tab.drawn()
            assert "decoder" in tab.text(".about")
            loaded = [each for each in tab.asked if "/records/" in each]
            assert len(loaded) == 1
            chooser = tab.page.get_by_label("Recorded", exact=True)
            assert chooser.locator("option").count() == 2
            chooser.select_option("1")
            tab.until("document.querySelector('.about').textContent.includes('encoder')")
            tab.drawn()
            assert len([each for each in tab.asked if "/records/" in each]) == 2
            assert not tab.wrong
            assert all(
                f"//{host}/deep/site/" in each for each in tab.asked if "favicon" not in each
            )
        server.shutdown()
