"""Labelled texts: which column is which, the split by class without copies, ids, batches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.text.labelled import LabelledTexts, class_names, find_columns, read_labelled
from budgerigar.text.labelled_corpus import (
    LabelBatches,
    evaluation_labels,
    hold_out_texts,
    prepare_labelled,
    store_of,
)

ROWS = [("animal", f"the cat {n} sleeps") for n in range(30)]
ROWS += [("plant", f"a tree {n} grows") for n in range(20)]
ROWS += [("stone", f"granite {n}") for n in range(10)]


def write(path: Path, rows: Sequence[tuple[str, ...]], header: str = "") -> Path:
    lines = ["\t".join(row) for row in rows]
    path.write_text("\n".join([*([header] if header else []), *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("header", "swapped", "columns"),
    [
        ("label\ttext", False, None),
        ("text\tLabel", True, None),
        ("kind\twords", False, None),  # guessed: few different cells, a first row of its own
        ("", False, None),
        ("", True, None),
        ("kind\twords", False, ("kind", "words")),
        ("words\tkind", True, ("2", "1")),
        ("", True, ("2", "1")),
    ],
)
def test_columns_are_found_and_said(
    tmp_path: Path, header: str, swapped: bool, columns: tuple[str, str] | None
) -> None:
    rows = [(text, label) for label, text in ROWS] if swapped else ROWS
    found = read_labelled([write(tmp_path / "a.tsv", rows, header)], columns)
    assert list(zip(found.labels, found.texts, strict=True)) == ROWS
    assert "column" in found.notes[0]


def test_json_lines_and_blank_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"label": label, "text": text}) for label, text in ROWS]
    path.write_text("\n".join([*lines, "", ""]), encoding="utf-8")
    assert len(read_labelled([path])) == len(ROWS)
    table = write(tmp_path / "b.tsv", [*ROWS, ("animal", "  "), ("plant", "")], "label\ttext")
    found = read_labelled([table])
    assert len(found) == len(ROWS)
    assert "2 rows without a text" in found.notes[-1]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", "b", "c")] * 9, "3 columns"),
        ([("only",)] * 9, "one column"),
        ([("x", "y")] * 9, "cannot be told"),
        ([*[("a", f"text {n}") for n in range(5)], ("", "another"), ("b", "one")], "has no label"),
        ([], "one column"),
    ],
)
def test_what_is_no_labelled_text_is_said(
    tmp_path: Path, rows: list[tuple[str, ...]], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        read_labelled([write(tmp_path / "a.tsv", rows)])


def test_classes_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to tell apart"):
        class_names(["a"] * 5)
    with pytest.raises(UserError, match="hardly classes"):
        class_names([str(n) for n in range(20)])
    assert class_names(["b", "a", "b", "a"]) == ["a", "b"]


def test_the_split_is_by_class_and_no_copy_is_on_both_sides() -> None:
    copies = [("animal", "The cat  1 SLEEPS"), ("plant", "the cat 1 sleeps")]
    texts = LabelledTexts(*map(list, zip(*(ROWS + copies * 3), strict=True)))
    for seed in range(10):
        held_out = hold_out_texts(texts, 0.2, seed)
        tidy = [" ".join(text.split()).casefold() for text in texts.texts]
        sides = [{tidy[i] for i in np.flatnonzero(held_out == side)} for side in (False, True)]
        assert not sides[0] & sides[1]
        counts = Counter(texts.labels[i] for i in np.flatnonzero(held_out[:60]))
        assert (counts["plant"], counts["stone"]) == (4, 2)
        assert held_out[ROWS.index(("animal", "the cat 1 sleeps"))] == held_out[60] == held_out[61]
    assert (hold_out_texts(texts, 0.2, 1) != hold_out_texts(texts, 0.2, 2)).any()
    with pytest.raises(UserError, match="'rare' has a single text"):
        hold_out_texts(LabelledTexts(["a", "a", "rare"], ["x", "y", "z"]), 0.2, 0)


def test_a_prepared_corpus(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", ROWS, "label\ttext")
    corpus = prepare_labelled([file], validation_fraction=0.2)
    assert corpus.classes == ["animal", "plant", "stone"]
    assert len(corpus.validation) == 12
    assert corpus.tokenizer.kind == "word"
    assert corpus.tokenizer.mask_id is not None
    end = corpus.tokenizer.end_id
    row = corpus.train.row(0)
    assert row[0] == end
    assert corpus.tokenizer.decode(row) == corpus.train.texts[0]
    assert corpus.train.row(0, 3) == row[:3]
    same = prepare_labelled([file], validation_fraction=0.2)
    assert same.fingerprint == corpus.fingerprint
    assert prepare_labelled([file], validation_fraction=0.3).fingerprint != corpus.fingerprint
    test = write(tmp_path / "b.tsv", [*ROWS[:5], ("plant", "new")], "label\ttext")
    given = prepare_labelled([file], validation=test)
    assert len(given.validation) == 6
    assert any("5 of them are among those to learn from" in note for note in given.notes)
    write(test, [("fish", "a trout"), ("fish", "a cod"), ("plant", "fern")], "label\ttext")
    with pytest.raises(UserError, match="none to learn from has: fish"):
        prepare_labelled([file], validation=test)


def test_batches_hold_every_text_once_a_pass_and_go_on(tmp_path: Path) -> None:
    corpus = prepare_labelled([write(tmp_path / "a.tsv", ROWS, "label\ttext")])
    store = corpus.train

    def batches() -> LabelBatches:
        return LabelBatches(store, 7, seed=2)

    one = batches()
    seen: list[tuple[int, ...]] = []
    while len(seen) < len(store):
        batch = one.next()
        assert len(batch.targets) <= 7
        for tokens, length, label in zip(*batch, strict=True):
            seen.append((int(label), *tokens[: int(length)].tolist()))
            assert not tokens[int(length) :].any()
    wanted = [(int(store.labels[i]), *store.row(i)) for i in range(len(store))]
    assert sorted(seen) == sorted(wanted)
    other = batches()
    other.load_state_dict(one.state_dict())
    for _ in range(12):
        assert all((a == b).all() for a, b in zip(one.next(), other.next(), strict=True))
    numbers = np.concatenate([rows for _, rows in evaluation_labels(store, 30)])
    assert sorted(numbers.tolist()) == list(range(len(store)))
    with pytest.raises(UserError, match="none of this model's classes"):
        store_of(LabelledTexts(["fish"], ["x"]), corpus.classes, corpus.tokenizer)


@pytest.mark.needs_data
def test_real_questions(data_folder: Path) -> None:
    path = data_folder / "classification" / "trec_train.tsv"
    where = find_columns(path)
    assert (where.label, where.text, where.has_header) == ("2", "1", True)
    found = read_labelled([path])
    assert len(found) == 5452
    assert len(class_names(found.labels)) == 6
    held_out = hold_out_texts(found, 0.1, 0)
    assert abs(held_out.mean() - 0.1) < 0.002
