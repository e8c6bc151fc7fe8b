"""Sentences to begin with."""

from __future__ import annotations

from pathlib import Path

import viewed

import budgerigar as bg
from budgerigar.api.model import Model
from budgerigar.explorer.examples import example, example_pair
from budgerigar.explorer.sessions import Sessions


def test_an_example_is_read_in_few_tokens(little_run: Path, translator_folder: Path) -> None:
    run, translator = (bg.load(each, device="cpu") for each in (little_run, translator_folder))
    for model in (run, translator, viewed.ngram(2), viewed.encoder()):
        reader = model.source_tokenizer or model.tokenizer
        text = example(model)
        assert len(reader.encode(text)) <= 1.5 * len(text)  # and not byte by byte
        first, second = example_pair(model)
        assert first != second
    assert example(translator) == "轩辕有一只虎皮鹦鹉"  # without the full stop that it lacks
    (shown,) = Sessions({"run": run}).models()
    assert shown["example"] == example(run)
    assert shown["examples"] == list(example_pair(run))


def test_a_translator_of_another_language_is_not_shown_chinese(translator_folder: Path) -> None:
    model: Model = bg.load(translator_folder, device="cpu")
    model.settings["text"] = {**(model.settings.get("text") or {}), "source_language": "en"}
    assert example(model).isascii()
