"""Checking pairs: an error is what training refuses, no more and no less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text.check import check_files
from budgerigar.text.pair_corpus import prepare_pairs
from budgerigar.text.pair_files import PairFiles

GOOD = [{"source": f"Satz {i}", "target": f"sentence {i}"} for i in range(4)]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text", "ok"),
    [
        ("a.tsv", "a\tb\nc\td\n", True),
        ("a.tsv", "source\ttarget\na\tb\nc\td\n", True),
        ("a.tsv", "target\tid\tsource\na\t1\tb\nc\t2\td\n", True),
        ("a.tsv", "a\tb\tc\nc\td\n\n", True),
        ("a.tsv", "a\tb\n\tx\ny\t\n", True),
        ("a.tsv", "a\tb\nonly\n", False),
        ("a.tsv", "target\tid\tsource\na\tb\n", False),
        ("a.tsv", " \n\t\n", False),
        ("a.tsv", "source\ttarget\n", False),
        ("a.tsv", "", False),
        ("a.jsonl", "".join(json.dumps(one) + "\n" for one in GOOD), True),
        ("a.jsonl", json.dumps({"source": "a\nb", "target": "c"}) + "\n\n", True),
        ("a.jsonl", json.dumps({"src": "a", "tgt": "b"}) + "\n", False),
        ("a.jsonl", json.dumps(GOOD[0]) + "\nnot a record\n", False),
    ],
)
def test_one_file(tmp_path: Path, name: str, text: str, ok: bool) -> None:
    file = write(tmp_path / name, text)
    report = check_files([file], pairs=True)
    assert report.ok is ok, report.lines()
    if ok:
        assert prepare_pairs(PairFiles(pairs=file), cache=tmp_path / "cache").train.n_pairs
    else:
        with pytest.raises(UserError):
            prepare_pairs(PairFiles(pairs=file), cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("source", "target", "ok"),
    [
        ("eins\nzwei\n", "one\ntwo", True),
        ("eins\n\nzwei", "one\ntwo\n\n", True),
        ("eins\tzwei\u2028\n", "one\n", True),
        ("eins\n", "one\n\n", False),
        ("eins\n\n", "\nzwei\n", False),
        ("\n\n", "\n\n", False),
        ("", "one\n", False),
    ],
)
def test_two_files(tmp_path: Path, source: str, target: str, ok: bool) -> None:
    paths = [write(tmp_path / "a.de", source), write(tmp_path / "a.en", target)]
    report = check_files(paths, pairs=True)
    assert report.ok is ok, report.lines()
    if ok:
        assert prepare_pairs(PairFiles(*paths), cache=tmp_path / "cache").train.n_pairs
    else:
        with pytest.raises(UserError):
            prepare_pairs(PairFiles(*paths), cache=tmp_path / "cache")


def test_rows_of_names_keep_the_line_numbers(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "target\tsource\na\tb\n\tblank here\n")
    report = check_files([file], pairs=True)
    places = {finding.what: finding.lines for finding in report.findings}
    assert places["the first row names the columns: it is no pair"] == [1]
    assert places["1 line is blank in the target only"] == [3]
    assert report.pairs is not None
    assert report.pairs.n_pairs == 2


def test_the_place_where_files_part_is_the_one_that_training_names(tmp_path: Path) -> None:
    german = [f"{'Wort ' * (1 + 7 * i % 23)}Ende." for i in range(200)]
    english = [line.replace("Wort", "word") for line in german]
    del german[149]
    paths = [
        write(tmp_path / "a.de", "\n".join(german) + "\n"),
        write(tmp_path / "a.en", "\n".join(english) + "\n"),
    ]
    (finding,) = [f for f in check_files(paths, pairs=True).findings if f.level == "error"]
    assert finding.lines == [150]
    with pytest.raises(UserError, match=r"about line 150\."):
        prepare_pairs(PairFiles(*paths))
