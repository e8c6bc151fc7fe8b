"""Views of single numbers in a browser: the four steps, positions, the block, the lens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pages import Visit, check_for_all, numbers, value, visit
from served import Served

from budgerigar.api.model import Model
from budgerigar.inspection.attribution import attribute_logit
from budgerigar.inspection.block import block_at, without_residual
from budgerigar.inspection.lens import logit_lens
from budgerigar.inspection.position_views import rotary_turns, shuffle, slide

TEXT = "the cat sat on the mat ."
SOURCE = "轩辕有一只猫。"
VIEWS = ("steps", "positions", "block", "lens")
ROW, KEY = 10, 3


@pytest.fixture(scope="module")
def page(browser: Any, page_server: Served) -> Iterator[Visit]:
    """A page that is loaded once; each test turns to its own view of it."""
    with visit(browser, page_server.host) as shown:
        shown.go(**at("sentence"))
        yield shown
        assert not shown.wrong
        assert all(each.startswith(f"http://{page_server.host}/") for each in shown.asked)


def at(view: str, **more: Any) -> dict[str, Any]:
    return {"view": view, "q__model": "gpt", "q__text": TEXT, **more}


def steps_at(**more: Any) -> dict[str, Any]:
    return at("steps", s__layer=1, s__head=2, s__query=ROW, s__key=KEY, **more)


def cell(page: Visit, column: str, key: int) -> Any:
    return page.page.locator(f".keys [data-column={column}][data-key='{key}']")


# -- the four steps ----------------------------------------------------------------------------------


def test_every_number_of_the_steps_is_the_librarys(page: Visit, models: dict[str, Model]) -> None:
    head = models["gpt"].trace(TEXT).attention("L1.H2")
    page.turn(**steps_at())
    for key in range(len(head.key_labels)):
        assert head.key_labels[key] in page.text(f".keys tr[data-at='{key}'] th")
        score, scaled = (value(cell(page, c, key).inner_text()) for c in ("score", "scaled"))
        assert score == pytest.approx(head.scores[ROW, key], abs=6e-4)
        assert scaled == pytest.approx(head.scaled[ROW, key], abs=6e-4)
        if key <= ROW:
            shown = [value(cell(page, c, key).inner_text()) for c in ("masked", "weight")]
            assert shown == pytest.approx([head.scaled[ROW, key], head.weights[ROW, key]], abs=6e-4)
        else:
            words = [cell(page, c, key).inner_text() for c in ("masked", "weight")]
            assert words == ["−∞", "0"]
            assert cell(page, "masked", key).get_attribute("title") == "masked: later tokens"
    assert value(page.texts(".keys tfoot .sum td")[-3]) == pytest.approx(1, abs=1e-5)
    heading = page.texts(".keys thead th")
    assert heading[3].startswith("÷ 2")  # sqrt(d_head), d_head = 4
    said = re.search(r"max difference (\S+)", page.text(".steps-place .facts"))
    assert said
    assert value(said[1]) == pytest.approx(head.difference, abs=0.06 * max(head.difference, 1e-9))


def test_a_cell_says_how_it_came_about_and_outlines_its_inputs(
    page: Visit, models: dict[str, Model]
) -> None:
    head = models["gpt"].trace(TEXT).attention("L1.H2")
    page.turn(**steps_at())
    cell(page, "score", KEY).focus()
    terms = head.queries[ROW] * head.keys[KEY]
    found = numbers(page.text(".formula .numbers"))
    shown = [a * b for a, b in zip(found[:-1:2], found[1:-1:2], strict=True)]
    assert len(shown) == len(terms)
    assert shown == pytest.approx(terms.tolist(), abs=5e-3)
    assert found[-1] == pytest.approx(terms.sum(), abs=6e-4)
    sources = page.page.locator(".source")
    assert sources.count() == 2
    assert [sources.nth(i).get_attribute("class").split()[2] for i in (0, 1)] == ["q", "k"]
    cell(page, "weight", KEY).focus()
    assert page.page.locator(".source").count() == ROW + 1  # all visible scores
    assert numbers(page.text(".formula .numbers"))[-1] == pytest.approx(
        head.weights[ROW, KEY], abs=6e-5
    )
    cell(page, "weight", ROW + 1).focus()
    assert "= 0" in page.text(".formula .equation")
    assert "later tokens" in page.text(".formula")


def test_vectors_show_their_numbers_and_where_these_are_from(
    page: Visit, models: dict[str, Model]
) -> None:
    trace = models["gpt"].trace(TEXT)
    head, network = trace.attention("L1.H2"), models["gpt"].network
    page.turn(**steps_at())
    page.page.locator(".card-q .vector.line").first.focus()  # q before its position turns it
    page.page.keyboard.press("ArrowRight")
    assert ", number 1" in page.text(".formula-title")
    assert page.page.locator(".source").count() == 2  # W_Q's row and what it reads
    weights = head.module.query.weight[2 * 4 + 1].detach().numpy()
    block = list(network.decoder.blocks())[1]
    read = trace.tensor("decoder.1.residual_before")[0, ROW]
    wanted = float(weights @ block.attention_norm(read).detach().numpy())
    assert numbers(page.text(".formula .numbers"))[-1] == pytest.approx(wanted, abs=6e-4)
    page.page.locator(".card-q .vector.line").nth(1).focus()
    page.page.keyboard.press("ArrowRight")
    turned = page.text(".formula .numbers")
    assert "×" in turned  # computed on the page from the pair and its angle, and it agreed
    assert numbers(turned)[-1] == pytest.approx(head.queries[ROW, 1], abs=6e-4)
    angle = ROW * rotary_turns(network.config, 1).frequencies[1]
    assert f"= {angle:.3f} radians" in page.text(".formula")
    page.page.locator(".keys tfoot .vector").hover(position={"x": 2, "y": 5})
    assert numbers(page.text(".formula .numbers"))[-1] == pytest.approx(
        head.head_output[ROW, 0], abs=6e-4
    )
    page.page.locator(".vector-line .vector").last.focus()
    after = trace.tensor("decoder.1.residual_middle")[0, ROW]
    found = numbers(page.text(".formula .numbers"))
    assert found[-1] == pytest.approx(float(after[0]), abs=6e-4)
    assert sum(found[:-1]) == pytest.approx(float(after[0]), abs=2e-3)


def test_step_by_step_by_keyboard(page: Visit) -> None:
    page.turn(**steps_at())
    press = page.page.keyboard.press
    names = []
    for _ in range(9):
        press("n")
        page.until("document.querySelector('.explained h3')")
        names.append(page.text(".explained h3"))
        if len(names) == 2:
            assert cell(page, "score", KEY).is_visible()
            assert not cell(page, "weight", KEY).is_visible()
            assert not page.page.get_by_text("The head's output, back").is_visible()
    assert names[1:5] == ["1. Compare", "2. Scale", "3. Mask", "4. Softmax"]
    assert names[-1] == names[-2] == "Into the residual stream"
    press("p")
    assert page.text(".explained h3") == names[-3]
    page.until("location.hash.includes('v.step=%22output%22')")
    cell(page, "weight", 0).focus()
    press("ArrowDown")
    press("ArrowLeft")
    assert page.page.evaluate("document.activeElement.dataset.column") == "masked"
    cell(page, "k", 1).focus()
    press("Shift+ArrowRight")
    assert ", number 1" in page.text(".formula-title")
    press("Enter")
    assert page.page.locator(".keys tr.chosen").get_attribute("data-at") == "1"
    assert page.page.locator(".stickybar .token.key").get_attribute("data-at") == "1"
    press("]")
    page.until("document.querySelector('.headname').textContent === 'L1.H3'")


def test_the_steps_of_cross_attention(page: Visit, models: dict[str, Model]) -> None:
    trace = models["translator"].trace(SOURCE, "Xuanyuan has a cat .")
    head = trace.attention("L0.H1", of="decoder", kind="cross")
    asked = {"q__model": "translator", "q__source": SOURCE, "q__target": "Xuanyuan has a cat ."}
    page.turn(view="steps", s__head=1, s__query=2, s__of="decoder", s__kind="cross", **asked)
    assert head.query_labels[2] in page.text(".asked")
    assert "about to be written" in page.text(".asked")
    rows = page.page.locator(".keys tbody tr")
    assert rows.count() == len(head.key_labels)
    for key in range(rows.count()):
        assert value(cell(page, "weight", key).inner_text()) == pytest.approx(
            head.weights[2, key], abs=6e-4
        )
    page.page.locator("[data-step=vectors]").click()
    assert "what the encoder wrote" in page.text(".explained")


# -- lens and attribution ------------------------------------------------------------------------------


def test_the_lens_and_the_bars_that_sum_to_the_logit(page: Visit, models: dict[str, Model]) -> None:
    trace = models["gpt"].trace(TEXT)
    found = logit_lens(trace, 5)
    page.turn(**at("lens", s__query=ROW))
    cells = page.page.locator(".lens-cell")
    assert cells.count() == len(found.rows) * len(trace.labels)
    names = cells.nth(len(trace.labels) + 4).get_attribute("aria-label")
    assert names.startswith(f"L0, {trace.labels[4]}: ")
    assert f"{found.chances[1, 4, 0]:.1%}".replace("%", " %") in names
    cells.nth(len(trace.labels) + 4).click()
    page.drawn()
    assert page.page.locator(".stickybar .token.query").get_attribute("data-at") == "4"
    drawn = page.page.locator(".chart-number").all_text_contents()
    kl = [numbers(each)[-1] for each in drawn[len(found.rows) :]]
    assert kl == pytest.approx(found.divergence[:, 4].tolist(), abs=6e-3)
    ranks = [int(each) for each in drawn[: len(found.rows)]]
    assert ranks == found.final_rank[:, 4].tolist()
    parts = attribute_logit(trace, 4)
    written = [value(each) for each in page.texts(".falls tbody td.strong")]
    assert written == pytest.approx([v for _, v in parts.by_layer()], abs=6e-4)
    total, logit = (value(each) for each in page.texts(".falls tfoot td.strong"))
    assert total == pytest.approx(logit, abs=2e-4)
    assert logit == pytest.approx(float(trace.logits[4].max()), abs=6e-5)
    assert sum(written) == pytest.approx(logit, abs=5e-3)
    ids = trace.logits[4].topk(2).indices.tolist()
    page.page.get_by_label("minus that of").select_option(str(ids[1]))
    page.until("document.querySelector('.falls')?.textContent.includes('difference of logits')")
    page.page.get_by_label("every head alone").check()
    page.until("document.querySelector('.falls')?.textContent.includes('L1.H3')")
    page.drawn()
    both = attribute_logit(trace, 4, ids[0], ids[1])
    written = [value(each) for each in page.texts(".falls tbody td.strong")]
    assert written == pytest.approx([part.logit for part in both.parts], abs=6e-4)
    page.page.locator(".lens-cell[tabindex='0']").focus()
    for key in ("ArrowUp", "ArrowRight"):
        page.page.keyboard.press(key)
    name = page.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert name.startswith(f"embedding, {trace.labels[5]}: ")
    assert "position 5" in page.text(".view-lens .asked")


# -- the block -----------------------------------------------------------------------------------------


def test_the_block_and_its_residual_connection(page: Visit, models: dict[str, Model]) -> None:
    trace = models["gpt"].trace(TEXT)
    found = block_at(trace, 1, ROW, units=12)
    page.turn(**at("block", s__layer=1, s__query=ROW))
    stages = [numbers(each) for each in page.texts(".flow-line:not(.flow-added) .flow-figures")]
    wanted = [[stage.length, stage.cosine] for stage in found.stages]
    assert np.allclose(stages, wanted, atol=6e-3)
    added = [numbers(each) for each in page.texts(".flow-added .flow-figures")]
    for shown, each in zip(added, found.added, strict=True):
        along = [each.length, each.length / each.before, each.along, each.cosine]
        assert shown == pytest.approx(along, abs=6e-3)
    units = page.texts(".units tbody th")
    assert [int(each) for each in units] == [unit.number for unit in found.units]
    values = [value(each) for each in page.texts(".units tbody td:nth-child(2)")]
    assert values == pytest.approx([unit.value for unit in found.units], abs=6e-4)
    page.page.locator(".flow .vector").nth(2).focus()
    page.page.keyboard.press("End")
    shown = numbers(page.text(".formula .numbers"))
    assert shown[0] + shown[1] == pytest.approx(found.stages[1].vector[-1], abs=2e-3)
    assert page.page.locator(".source").count() == 2
    page.page.get_by_label("residual connections of this layer").uncheck()
    page.until("document.querySelector('.view-block .two')")
    without = without_residual(trace, 1)
    assert f"{without.divergence[ROW]:.3f} nats" in page.text(".view-block .panel >> nth=2")


# -- positions -----------------------------------------------------------------------------------------


def test_positions_turn_slide_and_shuffle(page: Visit, models: dict[str, Model]) -> None:
    trace = models["gpt"].trace(TEXT)
    page.turn(**at("positions", s__layer=1, s__head=2, s__query=ROW))
    assert page.page.get_by_role("button", name="Move along").count() == 1
    turns = rotary_turns(models["gpt"].network.config, 1)
    slider = page.page.get_by_role("slider", name=re.compile("before it by"))
    slider.press("ArrowRight")
    apart = [numbers(each)[-1] for each in page.texts(".dial span:last-child")]
    wanted = np.degrees(6 * turns.frequencies) % 360
    assert apart == pytest.approx(wanted.tolist(), abs=0.06)
    before = page.page.locator(".dial-q").first.get_attribute("x2")
    page.page.get_by_role("slider", name=re.compile("position of the query")).press("ArrowRight")
    assert page.page.locator(".dial-q").first.get_attribute("x2") != before
    assert [numbers(each)[-1] for each in page.texts(".dial span:last-child")] == apart
    slid = slide(trace, "L1.H2", 100)
    assert "Slid by 100" in page.text(".outcome")
    assert ("stay" in page.text(".outcome")) == (slid.relative < 1e-4)
    rows = [numbers(each) for each in page.texts(".slide tbody td:nth-child(2)")]
    largest_first = np.sort(slid.before[ROW, : ROW + 1])[::-1]
    assert np.allclose(np.ravel(rows), largest_first, atol=6e-5)
    mixed = shuffle(trace, 0)
    shown = [int(each) for each in page.texts(".shuffle tbody td:nth-child(3)")]
    assert shown == mixed.order.tolist()
    apart = [value(each) for each in page.texts(".shuffle tbody td.strong")]
    assert apart == pytest.approx(mixed.apart.tolist(), abs=6e-4)
    page.page.get_by_role("button", name="Another order").click()
    page.until("location.hash.includes('v.shuffle=1')")
    page.drawn()
    shown = [int(each) for each in page.texts(".shuffle tbody td:nth-child(3)")]
    assert shown == shuffle(trace, 1).order.tolist()


@pytest.mark.slow
def test_the_table_of_sinusoids(page: Visit) -> None:
    asked = {"q__model": "translator", "q__source": SOURCE, "q__target": "Xuanyuan has a cat ."}
    page.turn(view="positions", s__of="decoder", s__kind="self", **asked)
    stage = page.page.locator(".view-positions .stage").first
    stage.focus()
    for key in ("ArrowUp", "Home", "ArrowUp", "ArrowRight"):
        page.page.keyboard.press(key)
    position, number, wanted = numbers(page.text(".view-positions .readout"))[:3]
    wave = numbers(page.text(".view-positions .readout"))[3]
    angle = position * 2 * np.pi / wave
    assert number == 1  # a cosine, where they alternate
    assert wanted == pytest.approx(np.cos(angle), abs=0.05 * position + 1e-3)
    assert "turn" not in page.text(".view-positions .panel")


# -- for everybody -------------------------------------------------------------------------------------


def test_a_view_that_does_not_fit_is_not_offered(page: Visit) -> None:
    page.go(view="steps", q__model="lstm", q__text=TEXT)
    assert page.text("h1") == "Sentence and prediction"
    for view in VIEWS:
        assert page.page.locator(f".menu button[data-view={view}]").is_disabled()


SEEN = [("positions", "light"), ("lens", "dark")]  # the largest; all of them take a minute
REST = [
    (view, theme)
    for view in ("steps", "positions", "block", "lens")
    for theme in ("light", "dark")
    if (view, theme) not in SEEN
]


@pytest.mark.parametrize(
    ("view", "theme"), [*SEEN, *(pytest.param(*each, marks=pytest.mark.slow) for each in REST)]
)
def test_for_all_eyes_and_all_screens(
    browser: Any, page_server: Served, view: str, theme: str
) -> None:
    calm = {"color_scheme": theme, "reduced_motion": "reduce"}
    with visit(browser, page_server.host, **calm) as shown:
        more = {"s__query": 3, "s__key": 1, "v__block.without": "true", "q__text": "the cat"}
        shown.go(**at(view, **more))
        check_for_all(shown.page)
        shown.page.set_viewport_size({"width": 320, "height": 640})
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert shown.page.evaluate(wide) <= 0
        assert shown.page.get_by_role("button", name="Move along").count() == 0
        assert not shown.wrong
