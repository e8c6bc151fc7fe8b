"""The page in Chinese: what the library says has a translation, and no English is left for a reader."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from pages import Visit
from served import Served

import budgerigar
from budgerigar.explorer.why_told import why_told

SOURCE = Path(budgerigar.__file__).parent
SAID = SOURCE / "explorer" / "page" / "i18n" / "said.zh.json"
TEXT = "the cat sat on the mat ."
LATIN = r"[A-Za-z][A-Za-z'’-]+(?: [A-Za-z][A-Za-z'’-]*)*"
BYTES = r"<?0?x[0-9A-F]{2}>?"  # pieces that are no characters
QUOTED = "“[^”]*”"  # examples of words

# What readers of Chinese use as it is: names of people, models, keys, commands and measures, formulas.
USUAL = {
    *("Budgerigar", "Transformer", "GPT", "GPT-", "BERT", "LSTM", "ReLU", "RMS", "KL", "ALiBi"),
    *("softmax", "Softmax", "logit", "Logit", "n-gram", "top-k", "top-p", "pre-norm", "rotary"),
    *("Enter", "Esc", "Tab", "Shift", "kB", "MB", "exp", "tanh", "ln f", "std", "Kneser-Ney"),
    *("Jain", "Wallace", "Wiegreffe", "Pinter", "Brunner et al", "Geva", "Vaswani", "Python"),
}
# Texts and attributes that are read; not models' and readers' own words, code, and marked English.
GATHER = """() => {
  for (const each of document.querySelectorAll('details')) each.open = true;
  const apart = 'bdi, code, pre, option, textarea, script, style, noscript, body [lang=en], .word, '
    + '.lesson-sentence';
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement, textContent } = walker.currentNode;
    if (!parentElement.closest(apart)) found.push(textContent);
  }
  for (const name of ['aria-label', 'title', 'placeholder'])
    for (const each of document.querySelectorAll(`[${name}]`))
      if (!each.closest(apart)) found.push(each.getAttribute(name));
  return found;
}"""


def templates() -> Iterator[str]:
    """Of every `said("…")` in the package."""
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "said(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "said":
                assert isinstance(node.args[0], ast.Constant), f"{file.name}:{node.lineno}"
                yield node.args[0].value


def names(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def test_all_that_the_library_says_has_a_translation() -> None:
    chinese: dict[str, str] = json.loads(SAID.read_text(encoding="utf-8"))
    given = set(templates())
    assert chinese.keys() == given
    for template, words in chinese.items():
        assert set(re.findall(r"\{(\w+)\}", words)) == names(template), template


def english(tab: Visit, known: set[str]) -> list[str]:
    """Runs of Latin words on the page that are neither usual nor of the text that is looked at."""
    texts = [re.sub(f"{BYTES}|{QUOTED}", "", text) for text in tab.page.evaluate(GATHER)]
    runs = {run for text in texts for run in re.findall(LATIN, text)}
    return sorted(run for run in runs if run not in USUAL and not set(run.split()) <= known)


def words_of(served: Served, model: str) -> set[str]:
    """What a model may write on the page by itself: its vocabulary in pieces, and names of models."""
    shown = served.sessions._shown[model].model.tokenizer
    pieces = " ".join(shown.pieces(range(shown.vocab_size)))
    return {*re.findall(r"[A-Za-z'’-]+", pieces), *TEXT.split(), "end", *served.sessions.names}


VIEWS = {
    "gpt": ["sentence", "grid", "head", "steps", "lens"],
    "lstm": ["gates"],
}


@pytest.mark.parametrize("model", VIEWS)
def test_no_english_is_left_on_a_chinese_page(tab: Visit, page_server: Served, model: str) -> None:
    known = words_of(page_server, model)
    state = {"q__model": model, "q__text": TEXT, "language": "zh"}
    tab.go(view=VIEWS[model][0], **state)
    for view in VIEWS[model]:
        tab.turn(view, **state)
        assert english(tab, known) == [], view
    tab.turn(view, **{**state, "language": "en"})
    assert len(english(tab, known)) > 40  # this is how they are found


REST = {
    "gpt": ["links", "block", "positions", "roles", "off", "compare", "reach", "lesson"],
    "translator": ["translation", "sentence", "links", "steps", "block", "lens", "roles", "off"],
    "lstm": ["sentence", "reach", "compare"],
}


@pytest.mark.slow
@pytest.mark.parametrize("model", REST)
def test_no_english_is_left_on_any_view(tab: Visit, page_server: Served, model: str) -> None:
    known = words_of(page_server, model) | {"too", "tired", "wide", "they", "sang", "it", "It"}
    known |= {"budgerigar", "budgie", "why", "attention"}  # of the lesson's story and its command
    asked = {"q__source": "轩辕有一只虎皮鹦鹉。"} if model == "translator" else {"q__text": TEXT}
    for view in REST[model]:
        tab.go(view=view, q__model=model, language="zh", **asked)
        assert english(tab, known) == [], view


def test_an_error_is_said_in_chinese(tab: Visit) -> None:
    tab.go(view="sentence", q__model="gpt", q__text="the cat " * 600, language="zh")
    assert "个词元" in tab.text(".failure")
    assert english(tab, {"gpt"}) == []
    tab.wrong.clear()  # the browser writes a refused request on its console


def test_an_experiment_tells_its_result_in_chinese(tab: Visit) -> None:
    tab.go(view="lesson", v__page=5, q__model="gpt", q__text=TEXT, language="zh")
    tab.page.locator(".why-box button.primary").click()
    tab.until("document.querySelector('.why-result .verdict')")
    box = ".why-result"
    assert tab.text(f"{box} .verdict").startswith("成立：")
    assert "0.21" in tab.page.locator(box).inner_text()
    known = {"the", "dear", "black", "apple", "it", "relu", "gpt"}
    assert english(tab, known | {"budgie", "why", "feed-forward"}) == []


def test_a_result_is_sent_with_its_words_in_parts() -> None:
    from budgerigar.experiments.why import run

    sent = why_told(run("feed-forward", quiet=True))
    grid, bars = sent["panels"]
    assert [panel["kind"] for panel in sent["panels"]] == ["grid", "bars"]
    assert [name for name, *_ in bars["rows"]][-1] == "the dear black apple"
    assert len(grid["values"]) == len(grid["rows"]) == 3
    assert sent["shows"].values["miss"] == "0.21"
    assert _untold(sent) == []


def _untold(value: Any) -> list[str]:
    """Prose without a template."""
    if isinstance(value, dict):
        kept = {name: part for name, part in value.items() if name not in ("text", "rows", "kind")}
        return [each for part in kept.values() for each in _untold(part)]
    if isinstance(value, list):
        return [each for part in value for each in _untold(part)]
    plain = isinstance(value, str) and not hasattr(value, "template")
    return [value] if plain and " " in value else []
