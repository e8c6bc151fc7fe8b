"""Pairs from files: never shifted, lines end at LF only, every odd file said or refused."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.pair_files import PairCounts, PairFiles, iter_file_pairs, iter_lines


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def parallel(folder: Path, source: str, target: str) -> PairFiles:
    return PairFiles((write(folder / "a.de", source),), (write(folder / "a.en", target),))


def table(folder: Path, text: str, columns: tuple[str, str] | None = None) -> PairFiles:
    return PairFiles(pairs=(write(folder / "a.tsv", text),), columns=columns)


def records(folder: Path, *lines: object, columns: tuple[str, str] | None = None) -> PairFiles:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return PairFiles(pairs=(write(folder / "a.jsonl", text),), columns=columns)


def pairs_of(files: PairFiles, **options: object) -> list[tuple[str, str]]:
    return list(iter_file_pairs(files, counts=PairCounts(), **options))  # type: ignore[arg-type]


def test_odd_line_separators_and_tabs_are_text(tmp_path: Path) -> None:
    odd = "eins\u2028zwei\u2029drei\x85vier\x0cfünf\x0bsechs\x1csieben\tacht"
    files = parallel(tmp_path, f"{odd}\nzwei\n", "one to eight\ntwo\ttabs\n")
    assert pairs_of(files) == [(odd, "one to eight"), ("zwei", "two\ttabs")]


def test_line_ends_marks_and_missing_last_newline(tmp_path: Path) -> None:
    files = parallel(tmp_path, "\ufeffeins\r\nzwei\rdrei", "one\ntwo\nthree\n")
    assert pairs_of(files) == [("eins", "one"), ("zwei", "two"), ("drei", "three")]


def test_lines_across_blocks_and_of_any_length(tmp_path: Path) -> None:
    lines = ["x" * 3_000_000, "", "kurz", "y" * 1_100_000, "ende"]
    assert list(iter_lines(write(tmp_path / "a", "\n".join(lines)))) == lines


def test_blank_sides_drop_the_pair_and_are_said(tmp_path: Path, capsys) -> None:
    files = parallel(tmp_path, "eins\n\ndrei\n \nfünf\n", "one\ntwo\n\u3000\n\nfive\n")
    counts = PairCounts()
    kept = list(iter_file_pairs(files, counts=counts))
    assert kept == [("eins", "one"), ("fünf", "five")]
    assert (counts.n_pairs, counts.blank_both) == (2, 1)
    assert counts.notes() == [
        "1 line blank on both sides, which are no pairs",
        "1 line blank in the source only: dropped as pairs, nothing is shifted (line 2)",
        "1 line blank in the target only: dropped as pairs, nothing is shifted (line 3)",
    ]
    assert len(pairs_of(files, keep_blanks=True)) == 5
    progress.set_quiet(False)
    assert list(iter_file_pairs(files)) == kept
    assert "blank in the target only" in capsys.readouterr().err


def test_only_the_first_places_are_named_and_each_with_its_file(tmp_path: Path) -> None:
    first = parallel(tmp_path, "\n" * 8, "x\n" * 8)
    other = tmp_path / "b"
    other.mkdir()
    second = parallel(other, "eins\n", "one\n")
    both = PairFiles(first.source + second.source, first.target + second.target)
    counts = PairCounts()
    assert list(iter_file_pairs(both, counts=counts)) == [("eins", "one")]
    (note,) = counts.notes()
    assert note.startswith("8 lines blank in the source only")
    assert note.endswith("(a.de line 1, a.de line 2, a.de line 3, a.de line 4, a.de line 5, …)")


def test_lowercase(tmp_path: Path) -> None:
    assert pairs_of(parallel(tmp_path, "ÄRGER\n", "Anger\n"), lowercase=True) == [
        ("ärger", "anger")
    ]


def test_unequal_counts_name_both_and_the_place(tmp_path: Path) -> None:
    german = [f"{'Wort ' * (1 + 7 * i % 23)}Ende." for i in range(400)]
    english = [line.replace("Wort", "word") for line in german]
    del english[299]
    files = parallel(tmp_path, "\n".join(german) + "\n", "\n".join(english) + "\n")
    read = iter_file_pairs(files, counts=PairCounts())
    with pytest.raises(UserError, match=r"has 400 lines .* has 399, .* at about line 300\."):
        list(read)


def test_unequal_counts_at_the_end_and_an_empty_file(tmp_path: Path) -> None:
    files = parallel(tmp_path, "Eins.\nZwei.\n", "One.\nTwo.\nThree.\n")
    with pytest.raises(UserError, match=r"line 3 of .*a\.en is the first without a partner"):
        pairs_of(files)
    with pytest.raises(UserError, match=r"a\.de has 0 lines .*a\.de is empty"):
        pairs_of(parallel(tmp_path, "", "One.\n"))


def test_sides_that_are_missing_or_too_many(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a", "x\n"), write(tmp_path / "b", "y\n")
    for files, words in (
        (PairFiles(one), "needs --target"),
        (PairFiles(target=other), "needs --source"),
        (PairFiles((one, other), (other,)), "2 source and 1 target"),
        (PairFiles(), "no sentence pairs were named"),
        (PairFiles(one, other, columns=("1", "2")), "no columns"),
        (PairFiles(pairs=one, columns=("1", "1")), "two different"),
        (PairFiles(one, tmp_path / "c"), "no such file"),
        (PairFiles(tmp_path, other), "is a folder"),
    ):
        with pytest.raises(UserError, match=words):
            pairs_of(files)


def test_tables(tmp_path: Path) -> None:
    assert pairs_of(table(tmp_path, "ein Hund\ta dog\nja\tyes\n")) == [
        ("ein Hund", "a dog"),
        ("ja", "yes"),
    ]
    assert pairs_of(table(tmp_path, '"a ""b"""\t\'x\'\n')) == [('"a ""b"""', "'x'")]
    three = "id\tenglish\tGerman\n1\ta dog\tein Hund\n"
    assert pairs_of(table(tmp_path, three, ("german", "english"))) == [("ein Hund", "a dog")]
    assert pairs_of(table(tmp_path, three, ("3", "2")))[1] == ("ein Hund", "a dog")
    counts = PairCounts()
    files = table(tmp_path, "Target\tSource\tby\nyes\tja\tme\n\n")
    assert list(iter_file_pairs(files, counts=counts)) == [("ja", "yes")]
    assert counts.times("header") == counts.times("more columns") == counts.blank_both == 1


def test_tables_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 2 has 1 column, and column 2 .* “nur eine”"):
        pairs_of(table(tmp_path, "ein\ta\nnur eine\n"))
    with pytest.raises(UserError, match="line 1 has 2 columns, and column 3"):
        pairs_of(table(tmp_path, "ein\ta\n", ("1", "3")))
    with pytest.raises(UserError, match=r"no column 'french'.* first row: de, en"):
        pairs_of(table(tmp_path, "de\ten\nja\tyes\n", ("de", "french")))
    with pytest.raises(UserError, match="counted from 1"):
        pairs_of(table(tmp_path, "de\ten\n", ("0", "1")))
    comma = write(tmp_path / "a.csv", "ein Hund,a dog\n")
    with pytest.raises(UserError, match="save the table with tabs"):
        pairs_of(PairFiles(pairs=comma))


def test_json_lines(tmp_path: Path) -> None:
    plain = records(tmp_path, {"source": "ja", "target": "yes"}, "", {"target": "b", "source": "a"})
    assert pairs_of(plain) == [("ja", "yes"), ("a", "b")]
    nested = records(tmp_path, {"translation": {"de": "ja", "en": "yes"}}, columns=("en", "de"))
    assert pairs_of(nested) == [("yes", "ja")]
    flat = records(tmp_path, {"de": "a\tb\u2028c", "en": "x", "n": 1}, columns=("de", "en"))
    assert pairs_of(flat) == [("a\tb\u2028c", "x")]
    counts = PairCounts()
    broken = records(tmp_path, {"source": "ein\r\nHund\nda", "target": "a\rdog"})
    assert list(iter_file_pairs(broken, counts=counts)) == [("ein Hund da", "a dog")]
    assert counts.times("line breaks") == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"src": "ja", "tgt": "yes"}, 'line 1: the record has no "source". Its keys: src, tgt'),
        ({"translation": {"de": "ja", "en": "yes"}}, "Its keys: de, en"),
        ({"source": "ja", "target": None}, '"target" is null, and a string'),
        ({"source": ["ja"], "target": "yes"}, '"source" is'),
        ("[1, 2]", "line 1: a list"),
        ("ja\tyes", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"source": "\\ud800", "target": "x"}', "surrogate"),
    ],
)
def test_json_lines_that_are_no_pairs(tmp_path: Path, line: object, words: str) -> None:
    with pytest.raises(UserError) as caught:
        pairs_of(records(tmp_path, line))
    assert words in str(caught.value)


def test_swapped(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abcd"]
    for folder in folders:
        folder.mkdir()
    for files in (
        parallel(folders[0], "ja\n", "yes\n"),
        table(folders[1], "ja\tyes\n"),
        table(folders[2], "x\tyes\tja\n", ("3", "2")),
        records(folders[3], {"source": "ja", "target": "yes"}),
    ):
        assert pairs_of(files) == [("ja", "yes")]
        assert pairs_of(files.swapped()) == [("yes", "ja")]


def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    n, line = 25_000, "ein Hund " * 60
    files = parallel(tmp_path, f"{line}\n" * n, f"{line}\n" * n)  # 13 MB each
    tracemalloc.start()
    assert sum(1 for _ in iter_file_pairs(files, counts=PairCounts())) == n
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000  # some blocks of a million characters


@pytest.mark.needs_data
def test_files_that_people_have(data_folder: Path) -> None:
    folder = data_folder / "difficult"
    with pytest.raises(UserError, match=r"2 lines .* 3, .* line 3"):
        pairs_of(PairFiles(folder / "pairs_unequal.de", folder / "pairs_unequal.en"))
    with pytest.raises(UserError, match="line 4 has 1 column"):
        pairs_of(PairFiles(pairs=folder / "pairs_ragged.tsv"))
    assert pairs_of(PairFiles(pairs=folder / "utf8_bom_crlf.tsv")) == [
        ("Hello.", "你好。"),
        ("Thanks!", "谢谢！"),
    ]
    odd = folder / "unicode_line_separators.txt"
    assert len(pairs_of(PairFiles(odd, odd))) == 1
    with pytest.raises(UserError, match="cannot be read as UTF-8"):
        pairs_of(PairFiles(folder / "invalid_utf8.txt", folder / "invalid_utf8.txt"))
    with pytest.raises(UserError, match="UTF-16"):
        pairs_of(PairFiles(folder / "utf16le_nobom.txt", folder / "utf16le_nobom.txt"))


@pytest.mark.needs_data
def test_a_lost_line_of_real_text_is_found(data_folder: Path, tmp_path: Path) -> None:
    german = (data_folder / "multi30k" / "train.de").read_text("utf-8").split("\n")[:9000]
    english = (data_folder / "multi30k" / "train.en").read_text("utf-8").split("\n")[:9000]
    del german[4321]
    files = parallel(tmp_path, "\n".join(german) + "\n", "\n".join(english) + "\n")
    with pytest.raises(UserError) as caught:
        pairs_of(files)
    place = int(str(caught.value).split("about line ")[1].split(".")[0].replace(",", ""))
    assert abs(place - 4322) <= 10
