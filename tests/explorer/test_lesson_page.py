"""The lesson in a browser: hand-set models against the library, pages clicked through, own tours."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Visit, value, visit
from served import Served, serving
from toy import network

import budgerigar as bg
from budgerigar.api.model import Model
from budgerigar.explorer.lessons import lesson
from budgerigar.explorer.sessions import Sessions
from budgerigar.models.worked import IT_WORDS, apple, it, it_steps, worked_steps

SENTENCES = ["the dear black apple", "the dear apple", "the black apple", "the apple"]


@pytest.fixture(scope="module")
def models(little_run: Path, translator_folder: Path) -> dict[str, Model]:
    """As elsewhere, but the GPT reads texts as long as the lesson's in bytes."""
    tokenizer = bg.load(little_run, device="cpu").tokenizer
    long = network(tokenizer.vocab_size, context_length=512)
    return {"gpt": Model(long, tokenizer), "translator": bg.load(translator_folder, device="cpu")}


def run(tab: Visit, module: str, expression: str, given: Any = None) -> Any:
    """An expression of `m` (the module) and `given`, computed in the browser."""
    script = f'async (given) => {{ const m = await import("/{module}"); return {expression}; }}'
    return tab.page.evaluate(script, given)


def test_the_hand_set_models_of_the_page_are_the_librarys(kept: Visit) -> None:
    kept.go(view="lesson", v__page=2)
    draw = random.Random(4)
    start = run(kept, "worked.js", "m.IT_SCORES")
    assert start == pytest.approx(it_steps(it()).scores.tolist(), abs=1e-6)
    tries = [(start, True), (start, False)]
    tries += [([draw.uniform(-9, 9) for _ in IT_WORDS], draw.random() < 0.5) for _ in range(6)]
    for scores, divided in tries:
        got = run(kept, "worked.js", "m.itSteps(given[0], given[1])", [scores, divided])
        wanted = it_steps(it(dict(zip(IT_WORDS, scores, strict=True)), divided))
        assert got["weights"] == pytest.approx(wanted.weights.tolist(), abs=2e-6)
        assert got["scaled"] == pytest.approx(wanted.scaled.tolist(), abs=2e-5)
    dials = [(1.3, -1.0, 0.7)]
    dials += [(draw.uniform(0, 2), draw.uniform(-2, 2), draw.uniform(-2, 2)) for _ in range(3)]
    for threshold, fruit, tech in dials:
        given = {"threshold": threshold, "toFruit": fruit, "toTech": tech}
        for sentence in SENTENCES:
            got = run(kept, "worked.js", "m.appleSteps(given[0], given[1])", [sentence, given])
            wanted = worked_steps(apple(threshold, fruit, tech), sentence)
            assert got["gathered"] == pytest.approx(wanted.after_attention.tolist(), abs=1e-6)
            assert got["after"] == pytest.approx(wanted.after_feed_forward.tolist(), abs=2e-6)
            for mine, theirs in zip(got["weights"], wanted.weights.tolist(), strict=True):
                assert mine == pytest.approx(theirs, abs=1e-6)


def test_numbers_are_dragged_by_keyboard(kept: Visit) -> None:
    kept.go(view="lesson", v__page=2)
    rows = ".worked-it tbody tr"
    assert kept.texts(f"{rows} td:last-child") == ["0.097", "0.050", "0.700", "0.084", "0.069"]
    kept.page.locator(".worked-it input[type=range]").nth(2).focus()
    kept.page.keyboard.press("Home")
    assert kept.page.locator(".worked-it input[type=number]").nth(2).input_value() == "-20"
    assert kept.texts(f"{rows} td:last-child")[2].startswith(("0.000", "8", "9", "1"))
    kept.page.locator(".worked-it input[type=number]").nth(2).fill("6.8")
    assert kept.texts(f"{rows} td:last-child")[2] == "0.700"
    kept.page.get_by_label("divide by").uncheck()
    assert kept.texts(f"{rows} td:last-child")[2] == "0.992"
    kept.page.get_by_role("button", name="Back to the beginning").click()
    assert kept.texts(f"{rows} td:last-child")[2] == "0.700"


def test_the_apple_decides_only_when_dear_and_black(kept: Visit) -> None:
    kept.go(view="lesson", v__page=5)
    last = ".worked-apple tbody tr:last-child td"
    assert kept.texts(last) == ["0.90", "0.90", "0.10", "0.95"]
    assert "rather tech" in kept.text(".worked-apple")
    for sentence, wanted in zip(SENTENCES[1:3], ([0.9, 0.1], [0.1, 0.9]), strict=True):
        kept.page.get_by_label(sentence, exact=True).check()
        assert kept.texts(last) == [f"{value:.2f}" for value in (*wanted, 0.6, 0.6)]
        assert "Undecided" in kept.text(".worked-apple")


@pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.slow)])
def test_the_whole_walk(tab: Visit, page_server: Served, language: str) -> None:
    titles = [page["title"] for page in lesson(language)]
    tab.go(view="lesson", language=language)
    for number, title in enumerate(titles, 1):
        tab.until(f"document.querySelector('.lesson-title')?.textContent === {title!r}")
        tab.until(
            "!document.querySelector('.lesson .waiting') && "
            "![...document.querySelectorAll('.real')].some((each) => each.textContent === '…')"
        )
        tab.until("!document.querySelector('.figure-place:empty')")
        if number > 1:
            tab.until(f"location.hash.includes('v.page={number}&')")
        assert not page_server.said
        if number < len(titles):
            tab.page.keyboard.press("n")
    tab.page.keyboard.press("p")
    tab.until(f"document.querySelector('.lesson-title').textContent === {titles[-2]!r}")
    tab.until(f"location.hash.includes('v.page={len(titles) - 1}&')")
    tab.page.reload()
    tab.until(f"document.querySelector('.lesson-title')?.textContent === {titles[-2]!r}")


TOUR = """---
title: A <b>tour</b>
model: decoder
sentence: the cat sat on the mat .
---
Weight {weight query=cat key=the head=L1.H1}, {tokens} tokens, by {model}; {weight query=dog key=cat}.
A share of {p word=mat}, a score of {score query=cat key=the head=L1.H1}.

:: row query=cat head=L1.H1
:: steps query=cat head=L0.H1 key=the
:: open head query=cat head=L1.H1
"""


@pytest.fixture
def own(models: dict[str, Model], browser: Any, tmp_path: Path) -> Iterator[Visit]:
    """A page with a tour of one's own."""
    file = tmp_path / "mine.md"
    file.write_text(TOUR, encoding="utf-8")
    with (
        serving(Sessions(models), own_tours=[file]) as served,
        visit(browser, served.host) as shown,
    ):
        shown.go(view="lesson")
        yield shown
        assert not shown.wrong


def test_a_tour_of_ones_own(own: Visit, models: dict[str, Model]) -> None:
    own.until(
        "document.querySelector('.figure-row .bars') && document.querySelector('.figure-steps table')"
    )
    own.until("![...document.querySelectorAll('.real')].some((each) => each.textContent === '…')")
    assert own.text(".lesson-title") == "A <b>tour</b>"
    trace = models["gpt"].trace("the cat sat on the mat .")
    head = trace.attention("L1.H1")
    at = trace.spelling.find("cat")[-1]
    keys = trace.spelling.find("the", 1)
    assert len(keys) == 3  # a model that reads characters: all of the word's count
    text = "the cat sat on the mat ."
    nats = models["gpt"].score(text + " mat").nats - models["gpt"].score(text).nats
    score = head.scores[at, keys[int(head.weights[at, keys].argmax())]]
    shown = own.texts(".real")
    assert shown[:4] == [f"{head.weights[at, keys].sum():.2f}", str(len(trace.ids)), "gpt", "–"]
    assert shown[4] == ("< 0.01 %" if nats > 9.21 else f"{100 * math.exp(-nats):.1f} %")
    assert value(shown[5]) == pytest.approx(float(score), abs=6e-3)
    assert "“the” (3)" in own.text(".lesson-remark")
    together = trace.attention("L0.H1").weights[at, keys].sum()
    assert f"all of “the”: {100 * together:.1f} %" in own.text(".figure-steps p.soft")
    own.page.get_by_role("button", name="Open this in: One head").click()
    own.until("location.hash.includes('view=head') && document.querySelector('.view-head .panel')")
    assert "s.layer=1" in own.page.url
    assert f"s.query={at}" in own.page.url


def test_an_experiment_runs_from_the_page(kept: Visit) -> None:
    kept.go(view="lesson", v__page=5)
    kept.page.get_by_role("button", name="Run it here").click()
    kept.until("document.querySelector('.why-result .verdict')", seconds=60)
    assert "apple" in kept.text(".why-result").lower()


def test_a_mistake_in_a_tour_and_in_an_experiment_is_told(page_server: Served) -> None:
    answer = page_server.ask({}, "why", {"part": "colours"})
    assert answer.status == 422
    assert "'colours'" in answer.words


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_a_phone_is_wide_enough(
    browser: Any, page_server: Served, theme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with visit(browser, page_server.host, viewport={"width": 320, "height": 800}) as shown:
        for number in (2, 5, 8, 9, 10):
            shown.go(view="lesson", theme=theme, language="en", v__page=number)
            shown.until("!document.querySelector('.figure-place:empty')")
            shown.page.evaluate(
                "document.querySelectorAll('details').forEach((d) => (d.open = true))"
            )
            found = axe.run(shown.page).response["violations"]
            assert not found, [(each["id"], each["nodes"][0]["html"]) for each in found]
            assert shown.page.evaluate("document.documentElement.scrollWidth") <= 320, number
            cut = (
                "[...document.querySelectorAll('.lesson .scroll')].filter((each) => "
                "each.scrollWidth > each.clientWidth + 4).map((each) => each.textContent)"
            )
            assert not shown.page.evaluate(cut), number


@pytest.fixture
def short(models: dict[str, Model], browser: Any) -> Iterator[Visit]:
    """A page whose first model reads less than the first page's story; its second reads all of it."""
    tokenizer = models["gpt"].tokenizer
    few = Model(network(tokenizer.vocab_size, context_length=200), tokenizer)
    both = {"short": few, "long": models["gpt"], "alone": few}
    with serving(Sessions(both)) as served, visit(browser, served.host) as shown:
        yield shown


def test_a_story_too_long_for_the_model_that_is_chosen(short: Visit) -> None:
    shown = "document.querySelector('.lesson .soft')?.textContent.endsWith('on long')"
    short.go(view="lesson", v__page=1, q__model="short", q__text="the cat")
    short.until(shown)
    assert short.texts(".lesson-remark")[0] == (
        "The story is too long for short, chosen above: this page speaks of long."
    )
    assert not short.wrong  # nothing was asked that would be refused
    assert not short.texts(".failure")
    told = run(
        short,
        "lesson_scene.js",
        "m.stories(given)",
        "One had a bird . It was green . He fell . But he remembered that",
    )
    assert told == [
        "One had a bird . It was green . He fell . But he remembered that",
        "One had a bird . It was green . But he remembered that",
        "One had a bird . But he remembered that",
    ]
