"""The page in a browser, served by the real server: its numbers are the library's, keys, addresses."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from pages import KeptVisit, Visit, check_for_all, value, visit
from served import Served

from budgerigar.api.model import Model
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.sampling import process_logits, processors
from budgerigar.generation.streaming import forbidden_ids

TEXT = "the cat sat on the 虎 mat ."
SOURCE = "轩辕有一只猫。"


def at(view: str, **more: Any) -> dict[str, Any]:
    return {"view": view, "q__model": "gpt", "q__text": TEXT, **more}


def percent(words: str) -> float:
    return float(re.sub(r"[^\d.]", "", words)) / 100


# -- the numbers are the library's -------------------------------------------------------------------


def test_surprise_and_what_was_expected(kept: Visit, models: dict[str, Model]) -> None:
    kept.go(**at("sentence", s__query=9))
    score = models["gpt"].score(TEXT)
    labels = models["gpt"].trace(TEXT).labels
    names = kept.page.locator(".view-sentence .strip button")
    assert names.count() == len(labels)
    for position in (1, 9, 20):
        name = names.nth(position).get_attribute("aria-label")
        assert name.startswith(f"{labels[position]}, position {position}, ")
        assert f"{score.per_token[position - 1][1]:.2f} nats" in name
    assert f"cost {score.per_token[8][1]:.3f} nats" in kept.text(".expected")
    shown = models["gpt"].logits(models["gpt"].encode(TEXT))[8].softmax(-1)
    first = percent(kept.texts(".expected .bar .figure")[0])
    assert first == pytest.approx(float(shown.max()), abs=6e-4)
    figures = [percent(each) for each in kept.texts(".expected .bar .figure")]
    assert sum(figures) == pytest.approx(1, abs=6e-3)  # with the rest, which is stated
    assert "others" in kept.texts(".expected .bar .label")[-1]


def test_bytes_are_joined_into_their_character(kept: Visit) -> None:
    kept.go(**at("sentence"))
    joined = kept.page.locator(".view-sentence .joined")
    assert joined.locator(".glyph").inner_text() == "虎"
    assert joined.locator("button").count() == 3


def test_the_next_token_is_the_true_softmax_and_the_sliders_the_sampling(
    kept: Visit, models: dict[str, Model]
) -> None:
    model = models["gpt"]
    logits = model.logits(model.encode(TEXT))[-1:]
    kept.go(**at("sentence"))
    figures = ".next .bar .figure"
    wanted = logits.softmax(-1)[0].sort(descending=True).values
    got = [percent(each) for each in kept.texts(figures)]
    assert got[:10] == pytest.approx(wanted[:10].tolist(), abs=6e-4)
    assert got[10] == pytest.approx(float(wanted[10:].sum()), abs=6e-4)
    for name, keys in (("temperature", 10), ("top-k", 6), ("top-p", -8)):
        slider = kept.page.get_by_role("slider", name=re.compile(name)).first
        for _ in range(abs(keys)):
            slider.press("ArrowRight" if keys > 0 else "ArrowLeft")
    options = SamplingOptions(temperature=1.5, top_k=8, top_p=0.6)
    drawn = logits.masked_fill(torch.from_numpy(forbidden_ids(model.tokenizer)), -torch.inf)
    chances = process_logits(drawn, processors(options, None)).softmax(-1)[0]
    best = [float(chances[i]) for i in logits[0].sort(descending=True, stable=True).indices[:10]]
    assert [percent(each) for each in kept.texts(figures)][:10] == pytest.approx(best, abs=6e-4)
    assert f"{int((chances > 0).sum())} of" in kept.text(".next")


def test_a_click_appends_exactly_that_token(kept: Visit, models: dict[str, Model]) -> None:
    model = models["gpt"]
    ids = model.encode(TEXT)
    best = model.logits(ids)[-1].topk(2).indices.tolist()
    kept.go(**at("sentence"))
    kept.page.locator(".next .bar button").nth(1).click()
    kept.until(f"document.querySelectorAll('.view-sentence .token').length === {len(ids) + 1}")
    kept.drawn()
    assert f"q.ids=%5B{'%2C'.join(map(str, [*ids, best[1]]))}%5D" in kept.page.url
    wanted = float(model.logits([*ids, best[1]])[-1].softmax(-1).max())
    assert percent(kept.texts(".next .figure")[0]) == pytest.approx(wanted, abs=6e-4)


def test_writing_on_shows_what_was_drawn_and_what_is_carried(
    kept: Visit, models: dict[str, Model], page_server: Served
) -> None:
    question = {"model": "gpt", "text": TEXT}
    asked = {"count": 20, "temperature": 0.8, "top_k": None, "top_p": None, "seed": 0}
    answer = page_server.ask(question, "generate", asked).value
    kept.go(**at("sentence"))
    kept.page.get_by_role("button", name="Write", exact=True).click()
    kept.until("document.querySelector('.player')")
    cells = kept.texts(".player tbody tr td:nth-child(2)")
    assert len(cells) == len(answer["tokens"])
    for cell, token in zip(cells, answer["tokens"], strict=True):
        if "<" not in cell and ">" not in cell:
            assert percent(cell) == pytest.approx(token["p"], abs=6e-4)
    carried = kept.texts(".player tbody tr td:nth-child(5)")
    assert carried[0] != carried[-1]  # the cache grew
    kept.page.get_by_role("button", name="One token back").click()
    kept.until(f"document.querySelectorAll('.player tbody tr').length === {len(cells) - 1}")


def test_a_head_shows_the_librarys_weights_with_the_right_labels(
    kept: Visit, models: dict[str, Model]
) -> None:
    trace = models["gpt"].trace(TEXT)
    head = trace.attention("L1.H2")
    kept.go(**at("head", s__layer=1, s__head=2, s__query=10, s__key=3))
    assert kept.text(".headname") == "L1.H2"
    readout = kept.text(".readout")
    assert readout.startswith(f"{trace.labels[10]} 10 → {trace.labels[3]} 3: ")
    assert f"{head.weights[10, 3]:.3f}" in readout
    assert "row sum 1.000" in readout
    kept.page.locator(".beside .twin summary").click()
    kept.until("document.querySelector('.beside tbody')")
    rows = kept.page.locator(".beside table tbody tr")
    assert rows.count() == len(trace.labels)
    for key in (0, 3, 10):
        position, label, weight = rows.nth(key).locator("th, td").all_inner_texts()
        assert (position, label) == (str(key), trace.labels[key])
        assert value(weight) == pytest.approx(float(head.weights[10, key]), abs=1e-6)
    assert "later tokens" in rows.nth(11).inner_text()
    kept.page.locator(".map .twin summary").click()
    kept.until("document.querySelector('.map .twin tbody')")
    names = [each.split()[1] for each in kept.texts(".map .twin tbody th") if len(each.split()) > 1]
    assert names[10] == trace.labels[10].split()[0]  # a row is named by its query


def test_links_are_the_librarys(kept: Visit, models: dict[str, Model]) -> None:
    found = models["gpt"].trace(TEXT).links(10, 3)
    kept.go(**at("links", s__query=10, s__key=3))
    kept.until("document.querySelector('.ranking')")
    rows = kept.texts(".ranking tbody tr")
    assert len(rows) == len(found)
    for row, link in zip(rows, found, strict=True):
        cells = row.split()
        assert cells[0] == link.name
        wanted = [link.weight, link.distance, link.untrained, link.uniform, link.rank]
        assert [value(each) for each in cells[1:]] == pytest.approx(wanted, abs=6e-4)
    kept.page.get_by_role("button", name=found[0].name, exact=True).click()
    kept.drawn()
    assert kept.text(".headname") == found[0].name


def test_the_grid_shows_every_head_and_sorts_them(kept: Visit, page_server: Served) -> None:
    question, params = {"model": "gpt", "text": TEXT}, {"of": "decoder", "kind": "self"}
    heads = []
    for layer in range(2):
        (got,) = page_server.ask(question, "grid", {"layer": layer, **params}).value["layers"]
        heads += [(float(e), f"L{layer}.H{h}") for h, e in enumerate(got["entropy"])]
    kept.go(**at("grid"))
    kept.until("document.querySelectorAll('.tile').length === 8")
    assert kept.texts(".tile strong") == [name for _, name in heads]
    kept.page.get_by_label("entropy, sharpest first").check()
    assert kept.texts(".tile strong") == [name for _, name in sorted(heads)]
    kept.page.locator(".tile").first.click()
    kept.drawn()
    assert kept.text(".headname") == min(heads)[1]


def test_a_translator_shows_its_rows_by_the_predicted_token(
    kept: Visit, models: dict[str, Model]
) -> None:
    trace = models["translator"].trace(SOURCE, "Xuanyuan has a cat .")
    head = trace.attention("L1.H0", of="decoder", kind="cross")
    asked = {"q__model": "translator", "q__source": SOURCE, "q__target": "Xuanyuan has a cat ."}
    kept.go(view="head", s__layer=1, s__query=0, s__key=1, **asked)
    readout = kept.text(".readout")
    assert readout.startswith(f"{head.query_labels[0]} 0 → {head.key_labels[1]} 1: ")
    assert f"{head.weights[0, 1]:.3f}" in readout
    assert "the token being predicted" in kept.text(".axes")
    assert kept.texts(".strip-name") == ["predicted", "source"]
    kept.page.get_by_label("encoder, self-attention").check()
    kept.drawn()
    assert "the token that looks" in kept.text(".axes")


def test_a_translation_word_by_word(kept: Visit, page_server: Served) -> None:
    begun = {"model": "translator", "source": SOURCE, "target": "", "prefix": True}
    first = page_server.ask(begun, "read", {"top": 10}).value
    label = first["words"][str(first["next"]["ids"][0])]
    kept.go(view="sentence", q__model="translator", q__source=SOURCE, q__target="null")
    kept.page.get_by_role("button", name="Translate word by word").click()
    kept.until("location.hash.includes('q.prefix=true')")
    kept.drawn()
    assert kept.texts(".next .bar .label")[0] == label
    kept.page.locator(".next .bar button").first.click()
    kept.until("!location.hash.includes('q.target=&')")
    kept.drawn()
    second = page_server.ask({**begun, "target": label.lstrip("␣")}, "read", {"top": 10}).value
    wanted = [float(each) for each in second["next"]["p"][:10]]
    got = [percent(each) for each in kept.texts(".next .bar .figure")][:10]
    assert got == pytest.approx(wanted, abs=6e-4)


def test_a_model_without_attention_has_its_sentence(kept: Visit, models: dict[str, Model]) -> None:
    kept.go(view="head", q__model="lstm", q__text=TEXT, s__query=4)  # falls back to what fits
    assert kept.text("h1") == "Sentence and prediction"
    nats = models["lstm"].score(TEXT).per_token[3][1]
    assert f"cost {nats:.3f} nats" in kept.text(".expected")
    assert kept.page.locator(".menu button[data-view=head]").is_disabled()


# -- one selection, one address ---------------------------------------------------------------------


def test_the_address_restores_what_was_looked_at(tab: Visit) -> None:
    tab.go(**at("head", s__layer=1, s__head=3, s__query=6, s__key=2, scale="log", hideSink=1))
    tab.page.get_by_label("transpose").check()
    tab.until("location.hash.includes('transpose=1')")
    seen = [tab.text(".readout"), tab.text(".headname"), tab.text(".legend")]
    assert "renormalised" in seen[2]
    tab.page.reload()
    tab.drawn()
    assert [tab.text(".readout"), tab.text(".headname"), tab.text(".legend")] == seen
    assert tab.page.get_by_label("transpose").is_checked()
    assert tab.page.get_by_label("log").is_checked()
    marked = tab.page.locator(".stickybar .token.query")
    assert marked.get_attribute("data-at") == "6"
    tab.page.get_by_role("button", name="All heads").click()
    tab.drawn()
    tab.page.go_back()
    tab.until("document.querySelector('.headname')")
    tab.drawn()
    assert tab.text(".readout") == seen[0]


def test_another_language_and_theme(tab: Visit) -> None:
    tab.go(**at("head", s__query=6))
    tab.page.get_by_label("Language").select_option("zh")
    tab.until("document.querySelector('h1')?.textContent === '一个头'")
    tab.drawn()
    assert tab.page.evaluate("document.documentElement.lang") == "zh-Hans"
    assert "掩码：后面的词元" in tab.text(".legend")
    tab.page.get_by_label("主题").select_option("dark")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    assert tab.page.evaluate(paper) == "rgb(20, 22, 26)"
    assert "language=zh" in tab.page.url or tab.until("location.hash.includes('language=zh')")


def test_back_and_forward_step_through_what_was_looked_at(tab: Visit) -> None:
    title = "document.querySelector('.lesson-title')?.textContent"
    tab.go(**at("lesson", v__page=5))
    first, begun = tab.text(".lesson-title"), tab.page.evaluate("history.length")
    tab.page.keyboard.press("n")
    tab.until(f"{title} !== {first!r} && location.hash.includes('v.page=6')")
    assert tab.page.evaluate("history.length") == begun + 1
    tab.page.locator(".menu button[data-view=head]").click()
    tab.drawn()
    for key in ("ArrowUp", "ArrowLeft", "]"):
        tab.page.locator(".stage").press(key)
    tab.until("location.hash.includes('s.head=1')")
    assert tab.page.evaluate("history.length") == begun + 2  # no step for a cursor
    tab.drawn()
    readout = tab.text(".readout")
    tab.page.go_back()
    tab.until(f"location.hash.includes('v.page=6') && {title}")
    tab.page.go_back()
    tab.until(f"{title} === {first!r}")
    tab.page.go_forward()
    tab.page.go_forward()
    tab.until("document.querySelector('.readout')?.textContent.includes('→')")
    assert tab.text(".readout") == readout
    tab.go(**at("lesson", v__page=5, q__text="x" * 1500))
    tab.until(f"{title} === {first!r}")
    assert "tokens" in tab.text(".lesson-unread")
    tab.page.locator(".menu button[data-view=head]").click()
    tab.until("document.querySelector('.failure')")
    tab.wrong.clear()  # the browser's own line about the refused question


# -- keyboard, screen readers, small screens ----------------------------------------------------------


def test_everything_by_keyboard(tab: Visit, models: dict[str, Model]) -> None:
    trace = models["gpt"].trace("the dog")
    tab.go(**at("head"))
    press = tab.page.keyboard.press
    field = tab.page.get_by_label("Text", exact=True)
    for _ in range(12):
        press("Tab")
        if field.evaluate("each => each === document.activeElement"):
            break
    press("Control+a")
    tab.page.keyboard.type("the dog")
    press("Enter")
    tab.until("document.querySelectorAll('.stickybar .token').length === 7")
    tab.drawn()
    stage = tab.page.locator(".stage")
    for _ in range(40):
        press("Tab")
        if stage.evaluate("each => each === document.activeElement"):
            break
    assert tab.text(".readout").startswith(f"{trace.labels[6]} 6 → ")
    press("Home")
    press("ArrowUp")
    assert tab.text(".readout").startswith(f"{trace.labels[5]} 5 → {trace.labels[0]} 0: ")
    assert tab.page.locator(".stickybar .token.query").get_attribute("data-at") == "5"
    press("Enter")
    assert tab.page.locator(".pins li").count() == 1
    press("]")
    press("}")
    tab.until("document.querySelector('.headname').textContent === 'L1.H1'")
    tab.drawn()
    weight = trace.attention("L1.H1").weights[5, 0]
    assert f"{weight:.3f}" in tab.text(".readout")
    assert tab.until("document.querySelector('[aria-live=polite][role=status]')?.textContent")
    press("?")
    assert tab.page.locator("dialog[open] h2").is_visible()
    press("Escape")
    assert tab.page.locator("dialog[open]").count() == 0
    press("Escape")
    assert tab.page.locator(".stickybar .token.query").count() == 0


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_axe_finds_nothing(browser: Any, page_server: Served, theme: str) -> None:
    with visit(browser, page_server.host, KeptVisit, color_scheme=theme) as shown:
        for view in ("sentence", "links", "grid", "head"):
            shown.go(**at(view, s__query=10, s__key=3))
            check_for_all(shown.page)


def test_narrow_screens_scroll_in_one_direction(browser: Any, page_server: Served) -> None:
    small = {"width": 320, "height": 640}
    calm = {"viewport": small, "reduced_motion": "reduce"}
    with visit(browser, page_server.host, KeptVisit, **calm) as shown:
        for view in ("sentence", "links", "grid", "head"):
            shown.go(**at(view, s__query=10, s__key=3))
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert shown.page.evaluate(wide) <= 0, view


# -- what is typed ------------------------------------------------------------------------------------


def test_markup_in_a_sentence_is_text(kept: Visit) -> None:
    kept.go(**at("sentence", q__text="</script><b>the <img src=x onerror=alert(1)>"))
    assert kept.page.locator(".view b, .view img").count() == 0
    labels = kept.texts(".view-sentence .token .text")
    assert "".join(labels).startswith("</script><b>the")


def test_an_error_is_told_and_the_page_goes_on(kept: Visit) -> None:
    kept.go(**at("sentence"))
    field = kept.page.get_by_label("Text", exact=True)
    field.fill("x" * 1500)
    field.press("Enter")
    kept.until("document.querySelector('.failure')")
    assert "tokens" in kept.text(".failure")
    field.fill("the mat")
    field.press("Enter")
    kept.until("document.querySelectorAll('.view-sentence .token').length === 7")
    kept.wrong.clear()  # the browser's own line about the refused question
