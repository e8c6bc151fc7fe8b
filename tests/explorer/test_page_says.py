"""What the page says beside its numbers: what is left out, what they hold for, what cannot be."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pages import KeptVisit, Visit, value, visit
from served import serving
from toy import STORY, network

from budgerigar import progress
from budgerigar.api.model import Model
from budgerigar.errors import UserError
from budgerigar.explorer import lessons
from budgerigar.explorer.sessions import Sessions
from budgerigar.text.tokenizers import train_tokenizer

TEXT = " It had green feathers ."
LONGER = " It had young green feathers ."
TOUR = """---
title: Another order
model: decoder
sentence: It had green feathers .
---
:: shuffle
:: heat query=green key=It head=L1.H2
"""


@pytest.fixture(scope="module")
def word_model() -> Model:
    """A GPT with random weights that knows the words of a story."""
    tokenizer = train_tokenizer([STORY] * 3, kind="word", end=True)
    return Model(network(tokenizer.vocab_size), tokenizer)


@pytest.fixture(scope="module")
def page(
    word_model: Model, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visit]:
    file = tmp_path_factory.mktemp("tour") / "order.md"
    file.write_text(TOUR, encoding="utf-8")
    with (
        serving(Sessions({"gpt": word_model}), own_tours=[file]) as served,
        visit(browser, served.host, KeptVisit) as shown,
    ):
        yield shown
        assert not shown.wrong


def test_words_without_a_counterpart_are_named(page: Visit) -> None:
    other = f'{{"model":"gpt","text":"{LONGER}"}}'
    page.go(view="compare", q__model="gpt", q__text=TEXT, v__other=other)
    page.drawn()
    assert "of the second young" in page.text(".lone")
    note = page.text(".view-compare .heatmap + div .note")
    # up to "young" alone, though "green" and "feathers" are the same words in both
    assert value(note.split("difference ")[1].split(")")[0]) < 1e-5
    assert "masked in both" in page.text(".legend")


def test_nothing_predicted_and_less_than_a_guess(page: Visit, word_model: Model) -> None:
    page.go(view="sentence", q__model="gpt", q__text="")
    assert "nothing was predicted" in page.text(".totals")
    page.go(view="sentence", q__model="gpt", q__text="It zzzz had")
    nats = word_model.score("It zzzz had").nats_per_token
    worse = nats > np.log(word_model.network.vocab_size)
    assert ("worse than guessing evenly" in page.text(".totals")) == worse
    assert "zzzz" in page.text(".view-sentence .note")


def test_the_lesson_shuffles_as_the_view_does_and_knows_what_is_off(page: Visit) -> None:
    page.go(view="positions", q__model="gpt", q__text="It had green feathers .")
    page.drawn()
    rows = page.page.locator("table.shuffle tbody tr").all_inner_texts()
    wanted = [(each.split()[1], each.split()[2], each.split()[0]) for each in rows]
    state = {"view": "lesson", "v__tour": '"order"', "q__model": "gpt", "q__text": "It had"}
    page.go(**state, q__off='["L1.H2"]', q__how="zero", q__of="decoder", q__kind="self")
    page.until(
        "document.querySelector('.figure-shuffle table') && document.querySelector('canvas')"
    )
    cells = [
        each.split() for each in page.page.locator(".figure-shuffle tbody tr").all_inner_texts()
    ]
    assert [tuple(each[:3]) for each in cells] == wanted
    assert any("L1.H2 switched off" in each for each in page.texts(".lesson-remark"))
    assert "✓" not in page.text(".figure-heat p.soft")  # what is off agrees with nothing


def test_two_clicks_choose_a_link_and_another_text_forgets_it(page: Visit) -> None:
    page.go(view="links", q__model="gpt", q__text=TEXT)
    page.until("location.hash.includes('s.query') && location.hash.includes('s.key')")  # a pair
    tokens = page.page.locator(".stickybar .token")
    tokens.nth(3).click()
    tokens.nth(1).click()
    page.until("location.hash.includes('s.query=3') && location.hash.includes('s.key=1')")
    tokens.nth(1).click()
    tokens.nth(3).click()
    page.until("location.hash.includes('s.query=1') && location.hash.includes('s.key=3')")
    tokens.nth(1).click()  # the word that is there already stays
    assert page.page.locator("input[value=key]").is_checked()
    page.drawn()
    assert "which comes later" in page.text(".view-links .note")
    page.page.get_by_role("button", name="Turn it round").click()
    page.until("document.querySelector('.ranking')")
    page.go(view="head", q__model="gpt", q__text=TEXT, s__query=3, s__key=1)
    page.page.locator("#ask-text").fill(" feathers It young green .")
    page.page.keyboard.press("Enter")
    page.until("!location.hash.includes('s.query') && !location.hash.includes('s.key')")
    assert "young" in page.text(".stickybar")


def test_a_number_outside_its_range_does_not_stay(page: Visit) -> None:
    page.go(view="lesson", v__tour='"lesson"', v__page=2)
    field = page.page.locator(".worked-it input[type=number]").first
    field.fill("1e9")
    assert "from −20 to 20" in page.text(".worked-it .worked-dial .note")
    field.press("Tab")
    assert field.input_value() == "20"


def test_an_experiment_goes_on_while_pages_are_turned(
    page: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def slow(part: str, seed: int) -> bytes:
        with progress.track("learning", 4, unit="steps") as job:
            for _ in range(4):
                job.advance()
                go.wait(20)
        raise UserError("enough")

    monkeypatch.setattr(lessons, "_why", slow)
    tour = {"view": "lesson", "v__tour": '"lesson"'}
    page.go(**tour, v__page=3)
    run = page.page.get_by_role("button", name="Run it here")
    run.click()
    box = page.page.locator(".why-box .job")
    box.get_by_text(re.compile("learning: 25 %")).wait_for()
    page.go(**tour, v__page=4)
    run.click()
    box.get_by_text("waiting behind heads").wait_for()
    assert "budgie why heads" in page.text(".why-others")
    page.page.get_by_role("button", name="Stop: budgie why heads").click()
    go.set()
    page.until("!document.querySelector('.why-others li')")
    page.page.locator(".why-box .failure", has_text="enough").wait_for()
    page.wrong.clear()  # the browser writes a refused request on its console
    page.go(**tour, v__page=3)
    assert run.is_enabled()


def test_a_text_that_is_too_long_offers_its_beginning(page: Visit, word_model: Model) -> None:
    page.go(view="sentence", q__model="gpt", q__text="It had green feathers . " * 60)
    page.page.get_by_role("button", name=re.compile("Read its beginning")).click()
    page.until("document.querySelector('.view-sentence .token')")
    page.wrong.clear()
    most = word_model.network.context_length
    count = page.page.locator(".view-sentence .strip .token").count()
    assert most - 3 <= count <= most


def test_who_comes_for_the_first_time_is_offered_the_lesson(browser: Any, page: Visit) -> None:
    with visit(browser, page.host) as fresh:
        fresh.page.goto(f"http://{page.host}/")
        fresh.drawn()
        fresh.page.get_by_role("button", name="Begin with the lesson").click()
        fresh.until("document.querySelector('.lesson-title')")


def test_choosing_an_answer_opens_the_explanation(page: Visit) -> None:
    page.go(view="lesson", v__tour='"lesson"', v__page=9)
    page.until("document.querySelector('.lesson-question')")
    page.page.locator(".lesson-question summary").first.click()
    answer = page.page.locator(".lesson-question .answer").first
    assert not answer.is_visible()
    page.page.locator(".offered input").nth(1).check()
    assert answer.is_visible()
    assert "Right" in page.text(".lesson-choices [role=status]")
