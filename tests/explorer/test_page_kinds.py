"""Views of one kind of model, and of what changes a model, in a browser: numbers are the library's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import viewed
from pages import Visit, check_for_all, numbers, twin, visit
from served import Served, serving

import budgerigar as bg
from budgerigar.api.model import Model
from budgerigar.explorer.sessions import Sessions
from budgerigar.inspection import role_probes
from budgerigar.inspection.alignments import align, token_weights
from budgerigar.inspection.back_off import back_off
from budgerigar.inspection.differences import compare_heads
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.roles import head_roles

TEXT = "the cat sat on the mat ."
OTHER = "the cat sat on the log ."
STORY = "Xuanyuan has a budgerigar . It has green feathers ."
SOURCE, TARGET = "轩辕有一只猫。", "Xuanyuan has a cat ."
SMALL = {"width": 320, "height": 640}
SHOWN: dict[str, dict[str, Any]] = {
    "translation": {"q__model": "translator", "q__source": SOURCE, "q__target": TARGET},
    "mask": {"q__model": "encoder", "q__text": STORY, "q__mask": "[2]"},
    "gates": {"q__model": "lstm", "q__text": TEXT, "s__query": 5},
    "reach": {"q__model": "lstm", "q__text": TEXT, "v__reach.with": '["gpt"]'},
    "backoff": {"q__model": "ngram", "q__text": STORY, "s__query": 4},
    "off": {"q__model": "gpt", "q__text": TEXT, "q__off": '["L1.H2"]', "q__how": "zero"},
    "born": {"q__model": "run", "q__text": TEXT},
    "compare": {
        "q__model": "gpt",
        "q__text": TEXT,
        "v__other": f'{{"model":"gpt","text":"{OTHER}"}}',
    },
}


@pytest.fixture(scope="module")
def every(models: dict[str, Model], little_run: Path) -> dict[str, Model]:
    """A model of each kind, and a run with its checkpoints."""
    return {
        **models,
        "run": bg.load(little_run, device="cpu"),
        "bahdanau": viewed.recurrent_translator(),
        "encoder": viewed.encoder(),
        "ngram": viewed.ngram(4),
        "gru": viewed.recurrent("gru"),
        "elman": viewed.recurrent("elman"),
    }


@pytest.fixture(scope="module")
def page_server(every: dict[str, Model]) -> Iterator[Served]:
    with serving(Sessions(every)) as served:
        yield served


def last(words: str) -> float:
    """The last number in a cell."""
    return numbers(words)[-1]


def pair(model: Any, source: str, target: str) -> PairTrace:
    trace = model.trace(source, target)
    assert isinstance(trace, PairTrace)
    return trace


def opened(tab: Visit, view: str, **more: Any) -> None:
    tab.go(view=view, **{**SHOWN[view], **more})


# -- translators --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "source", "target"),
    [("translator", SOURCE, TARGET), ("bahdanau", viewed.SOURCE, viewed.TARGET)],
)
def test_an_alignment_has_a_row_for_each_predicted_token(
    tab: Visit, every: dict[str, Model], model: str, source: str, target: str
) -> None:
    trace = pair(every[model], source, target)
    weights = token_weights(trace)
    asked = {"q__model": model, "q__source": source, "q__target": target}
    tab.go(view="translation", s__query=1, s__key=2, **asked)
    head = trace.attention("L0.H0", of="decoder", kind="cross")
    assert tab.text(".readout").startswith(f"{head.query_labels[1]} 1 → {head.key_labels[2]} 2: ")
    assert last(tab.text(".readout strong")) == pytest.approx(weights[1, 2], abs=6e-4)
    rows = twin(tab, ".map .twin")
    assert [row[0] for row in rows] == [
        f"{at} {' '.join(label.split())}" for at, label in enumerate(head.query_labels)
    ]
    words = align(trace)
    coverage = [last(each) for each in tab.texts(".covered li")]
    assert coverage == pytest.approx(list(words.coverage), abs=6e-4)
    assert len(coverage) == len(words.source.texts)
    drawn = tab.page.locator(".weave text:not(.weave-soft)").all_text_contents()
    assert len(drawn) == len(words.source.texts) + len(words.target.texts)


def test_what_the_source_is_worth(tab: Visit, every: dict[str, Model]) -> None:
    model = every["translator"]
    opened(tab, "translation")
    sentences = tab.texts(".sentences dd")
    blind = model.without_source()
    assert sentences == [
        model.trace(SOURCE).text.strip() or "∅", blind.trace(SOURCE).text.strip() or "∅"
    ]  # fmt: skip
    seen, unseen = pair(model, SOURCE, TARGET), pair(blind, SOURCE, TARGET)
    rows = tab.page.locator(".worth tbody tr")
    assert rows.count() == len(seen.targets)
    # entry 0 is what opens it
    told = [float(trace.surprise(1)[3].nats or 0.0) for trace in (seen, unseen)]
    cells = rows.nth(2).locator("td").all_inner_texts()
    assert [last(each) for each in cells[:2]] == pytest.approx(told, abs=6e-4)
    assert last(cells[2]) == pytest.approx(told[1] - told[0], abs=6e-4)
    tab.page.get_by_role("button", name="Switch the source off").click()
    tab.until("location.hash.includes('q.blank=true')")
    tab.drawn()
    assert "source switched off" in tab.text(".about")


# -- encoders -----------------------------------------------------------------------------------------


def test_a_click_hides_a_token_and_shows_what_would_stand_there(
    tab: Visit, every: dict[str, Model]
) -> None:
    model = every["encoder"]
    labels = model.trace(STORY).labels
    tab.go(view="mask", q__model="encoder", q__text=STORY)
    strip = tab.page.locator(".view-mask .strip button")
    titles = strip.evaluate_all("all => all.map(each => each.title)")
    assert [each.split(", position")[0] for each in titles] == list(labels)
    strip.nth(2).focus()
    tab.page.keyboard.press("Enter")
    tab.until("location.hash.includes('q.mask')")
    tab.until("document.querySelector('.view-mask .bars')")
    tab.drawn()
    assert strip.nth(2).get_attribute("aria-pressed") == "true"
    assert strip.nth(2).evaluate("each => each === document.activeElement")  # and again shows it
    ids = model.encode(STORY)
    assert model.tokenizer.mask_id is not None
    ids[2] = model.tokenizer.mask_id
    chances = model.trace(ids).logits[2].softmax(-1).sort(descending=True)
    shares = [float(each.rstrip(" %")) / 100 for each in tab.texts(".bars .bar:not(.rest) .figure")]
    assert shares == pytest.approx(chances.values[: len(shares)].tolist(), abs=6e-4)
    marked = tab.texts(".bars .bar.chosen .label")
    assert marked in ([], [" ".join(labels[2].split())])


# -- ancestors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        "lstm",
        pytest.param("gru", marks=pytest.mark.slow),
        pytest.param("elman", marks=pytest.mark.slow),
    ],
)
def test_gates_are_the_librarys(tab: Visit, every: dict[str, Model], model: str) -> None:
    text = TEXT if model == "lstm" else STORY
    trace = every[model].trace(text)
    found = trace.gates(0)
    tab.go(view="gates", q__model=model, q__text=text, s__query=4, v__unit=3)
    part = next((each for each in ("forget_gate", "update_gate") if each in found.values), "hidden")
    readout = tab.text(".readout")
    assert readout.startswith(f"unit 3 → {' '.join(trace.labels[4].split())} 4: ")
    assert last(tab.text(".readout strong")) == pytest.approx(found.values[part][4, 3], abs=1e-3)
    rows = twin(tab, ".view-body > .panel:nth-child(2) .twin")
    assert len(rows) == len(trace.labels)
    assert rows[4][0].startswith("4 ")
    parts = list(found.values)
    for at, name in enumerate(parts):
        assert last(rows[4][2 + at]) == pytest.approx(found.values[name][4, 3], abs=6e-5)
    assert last(rows[4][1]) == pytest.approx(found.memory_before[4, 3], abs=6e-5)
    if model == "lstm":  # the equation's numbers give the model's cell
        products = re.findall(r"[−\d.]+", tab.texts(".explained .equation")[1])
        f, before, i, candidate, cell = (float(each.replace("−", "-")) for each in products)
        assert f * before + i * candidate == pytest.approx(cell, abs=4e-3)
    longest = [last(cell) for cell in tab.texts(".two tbody td")]
    wanted = np.sort(found.memory_lengths)[::-1][: len(longest)]
    assert longest == pytest.approx(np.minimum(wanted, wanted[0]).tolist(), abs=0.06)


def test_keys_move_over_the_gates(tab: Visit, every: dict[str, Model]) -> None:
    opened(tab, "gates", v__unit=3)
    stage = tab.page.locator(".view-gates .stage")
    stage.focus()
    before = tab.text(".readout")
    tab.page.keyboard.press("ArrowLeft")
    assert " 4: " in tab.text(".readout") != before
    assert tab.page.locator(".stickybar .token.query").get_attribute("data-at") == "4"
    tab.page.keyboard.press("ArrowDown")
    tab.drawn()
    unit = int(re.findall(r"unit (\d+)", tab.text(".readout"))[0])
    assert tab.page.locator(".view-body > .panel:nth-child(2) select").input_value() == str(unit)
    assert f"v.unit={unit}" in tab.page.url or tab.until(f"location.hash.includes('unit={unit}')")


def test_reach_of_two_models_on_one_text(tab: Visit, page_server: Served) -> None:
    opened(tab, "reach")
    asked = {"distance": None, "positions": 32}
    answers = [
        page_server.ask({"model": name, "text": TEXT}, "reach", asked).value
        for name in ("lstm", "gpt")
    ]
    assert tab.texts(".lines-legend li") == ["lstm", "gpt"]
    rows = twin(tab, ".view-reach .twin")
    for at in (0, 3, 9):
        assert rows[at][0] == str(at + 1)
        wanted = [float(each[which][at]) for each in answers for which in ("shares", "smooth")]
        assert [last(each) for each in rows[at][1:]] == pytest.approx(wanted, abs=6e-6)
    far = answers[0]["last_above"]["0.01"]
    assert f"a hundredth or above up to {far}:" in tab.text(".figures")


def test_back_off_adds_up_to_the_probability(tab: Visit, every: dict[str, Model]) -> None:
    model = every["ngram"]
    found = back_off(model.trace(STORY), model.tokenizer)
    opened(tab, "backoff")
    token = found.tokens[4]
    assert token is not None
    parts = [last(each) for each in tab.texts(".backing tbody td:last-child")]
    wanted = [*(token.parts[step.order] for step in token.steps), token.parts[0]]
    assert parts == pytest.approx(wanted, abs=6e-5)
    assert last(tab.text(".backing tfoot td:last-child")) == pytest.approx(
        token.probability, abs=6e-5
    )
    asked = tab.text(".view-backoff .asked")
    assert f"comes {' '.join(token.label.split())}:" in asked
    buttons = tab.page.locator(".backed button")
    assert buttons.count() == len(found.tokens)
    buttons.nth(4).focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Enter")
    after = found.tokens[5]
    assert after is not None
    tab.until(
        f"document.querySelector('.view-backoff .asked').textContent.includes({after.label!r})"
    )


# -- what if ------------------------------------------------------------------------------------------


def test_a_head_is_switched_off_and_on(tab: Visit, every: dict[str, Model]) -> None:
    model = every["gpt"]
    tab.go(view="off", q__model="gpt", q__text=TEXT)
    switch = tab.page.locator(".switch[data-name='L1.H2']")
    tab.page.get_by_label("zero").check()
    switch.focus()
    tab.page.keyboard.press("Enter")
    tab.until("document.querySelector('.view-off .figures')")
    tab.drawn()
    assert switch.get_attribute("aria-pressed") == "true"
    assert switch.evaluate("each => each === document.activeElement")
    without = model.edited(["L1.H2"], how="zero")
    losses = [each.score(TEXT).nats_per_token for each in (model, without)]
    shown = re.findall(r"\d+\.\d+", tab.texts(".view-off .figures dd")[0])
    assert [float(each) for each in shown] == pytest.approx(losses, abs=6e-4)
    chances = [each.logits(each.encode(TEXT))[-1].softmax(-1) for each in (model, without)]
    best = int(chances[0].argmax())
    cells = tab.page.locator(".view-off tbody tr").first.locator("td").all_inner_texts()
    wanted = [float(each[best]) for each in chances]
    assert [last(each) for each in cells[:2]] == pytest.approx(wanted, abs=6e-4)
    assert "L1.H2 switched off" in tab.text(".about")
    tab.page.get_by_role("button", name="Try all 8 heads").click()
    tab.until("document.querySelectorAll('.switch .track').length === 8")
    rise = tab.page.get_by_role("row", name=re.compile("L1.H2")).locator("td").last.inner_text()
    assert last(rise) == pytest.approx(losses[1] - losses[0], abs=6e-5)
    switch.click()
    tab.until("!location.hash.includes('q.off')")


def test_two_sentences_are_compared_cell_by_cell(tab: Visit, every: dict[str, Model]) -> None:
    model = every["gpt"]
    first, second = model.trace(TEXT), model.trace(OTHER)
    found = compare_heads(first, second)
    ranked = sorted(found.heads, key=lambda head: -head.moved)
    opened(tab, "compare")
    assert tab.texts(".moved button > span:first-child") == [head.name for head in ranked]
    shown = [last(each) for each in tab.texts(".moved button .soft")]
    assert shown == pytest.approx([head.moved for head in ranked], abs=6e-4)
    row, column = ranked[0].largest
    names = ["/".join(dict.fromkeys(each)) for each in (found.rows[row], found.columns[column])]
    readout = tab.text(".readout")
    assert readout.startswith(f"{names[0]} {row} → {names[1]} {column}: ")
    assert last(tab.text(".readout strong")) == pytest.approx(ranked[0].map[row, column], abs=6e-4)
    link = tab.page.locator(".moves tbody tr", has_text=ranked[0].name).locator("td")
    places = found.row_places[row], found.column_places[column]
    wanted = [
        trace.attention(ranked[0].name).weights[places[0][at], places[1][at]]
        for at, trace in enumerate((first, second))
    ]
    assert [last(each) for each in link.all_inner_texts()[:2]] == pytest.approx(wanted, abs=6e-4)
    note = tab.text(".view-compare .heatmap + div .note")
    assert "decoder" in note
    assert last(note.split("difference")[1].split(")")[0]) < 1e-5  # rows before it are equal


def test_a_head_at_each_checkpoint(tab: Visit, every: dict[str, Model]) -> None:
    model = every["run"]
    opened(tab, "born", s__query=6, s__key=2)
    for at, name in ((2, model.checkpoints[2]), (1, model.checkpoints[1])):
        if at == 1:
            tab.page.get_by_role("button", name="Earlier checkpoint").click()
            tab.until("document.querySelector('.moment .value').textContent === 'step 2'")
            tab.drawn()
        weights = model.at_checkpoint(name).trace(TEXT).attention("L0.H0").weights
        assert last(tab.text(".readout strong")) == pytest.approx(weights[6, 2], abs=6e-4)


def test_a_model_is_offered_what_it_can(tab: Visit) -> None:
    for model, asked, there, lacking in (
        ("lstm", {"q__text": TEXT}, ["gates", "reach"], ["mask", "backoff", "translation", "off"]),
        ("encoder", {"q__text": STORY}, ["mask", "off"], ["gates", "reach", "translation"]),
        ("translator", {"q__source": SOURCE}, ["translation", "compare"], ["mask", "gates"]),
    ):
        tab.go(view="sentence", q__model=model, **asked)
        enabled = tab.page.locator(".menu button:not(:disabled)").evaluate_all(
            "all => all.map(each => each.dataset.view)"
        )
        assert set(there) <= set(enabled)
        assert not set(lacking) & set(enabled)


# -- for everyone -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_narrow_screens_scroll_in_one_direction(browser: Any, page_server: Served) -> None:
    with visit(browser, page_server.host, viewport=SMALL, reduced_motion="reduce") as shown:
        for view in SHOWN:
            opened(shown, view)
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert shown.page.evaluate(wide) <= 0, view
        assert not shown.wrong


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, page_server: Served, theme: str) -> None:
    with visit(browser, page_server.host, color_scheme=theme) as shown:
        for view in SHOWN:
            opened(shown, view)
            check_for_all(shown.page)


def test_roles_are_printed_found_or_not(
    tab: Visit, every: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = role_probes.repeats
    monkeypatch.setattr(role_probes, "repeats", lambda reader: made(reader, n=3))
    monkeypatch.setattr(role_probes, "N_RANDOM", 3)
    model = every["gpt"]
    (site,) = head_roles(model.network, model.tokenizer, start_id=model.start_id)
    tab.go(view="roles", q__model="gpt", q__text=TEXT)
    rows = tab.page.locator(".roles tbody tr")
    assert rows.count() == len(site.rows)
    check_for_all(tab.page)
    for at, role in enumerate(site.rows):
        words = " ".join(rows.nth(at).inner_text().split())
        assert words.startswith(role.role.name)
        if role.reason is not None:
            assert "not measured" in words
        elif role.found:
            assert all(site.names[head] in words for head in role.found)
        else:
            assert "not found" in words
            score = rows.nth(at).locator("td").nth(1).inner_text()
            assert last(score) == pytest.approx(float(role.score[role.best]), abs=6e-4)


@pytest.mark.slow
def test_roles_through_training(tab: Visit, every: dict[str, Model], page_server: Served) -> None:
    answer = page_server.ask({"model": "run", "text": TEXT}, "born", {"most": 12}).value
    opened(tab, "born")
    tab.page.get_by_role("button", name=re.compile("Measure at 3")).click()
    tab.until("document.querySelector('.stacked .lines-svg')", 60)
    (site,) = answer["sites"]
    tab.page.get_by_label("previous token").check()
    (role,) = [each for each in site["roles"] if each["role"] == "previous"]
    rows = twin(tab, ".stacked .twin")
    assert len(rows) == 3
    shown = [last(each) for each in rows[2][1:]]
    assert shown == pytest.approx(role["scores"][2].tolist(), abs=6e-4)
