"""`check_files`: each fault is found, with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text.check import LONG_LINE, check_files
from budgerigar.text.corpus import prepare
from budgerigar.text.findings import Finding, Report


def found(report: Report, words: str) -> Finding:
    matches = [finding for finding in report.findings if re.search(words, finding.what)]
    assert len(matches) == 1, [finding.what for finding in report.findings]
    return matches[0]


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_odd_characters_long_lines_and_repeats(tmp_path: Path) -> None:
    long = "x" * (LONG_LINE + 1)
    same = "the very same sentence again"
    lines = [
        "plain",
        "a\u2028b",
        "c\x00d\x00",
        "\x85 e",
        "f\x0cg",
        long,
        same,
        "h",
        same,
        same,
        "né",
    ]
    report = check_files([write(tmp_path / "a.txt", "\n".join(lines))])
    assert report.ok
    assert found(report, r"^U\+2028").lines == [2]
    assert (found(report, "NUL").lines, found(report, "NUL").count) == ([3], 2)
    assert found(report, r"^U\+0085").lines == [4]
    assert found(report, "form feed").lines == [5]
    assert found(report, "line holds over 10,000").lines == [6]
    assert found(report, "repeat").lines == [9, 10]
    assert "line 7 occurs 3 times" in found(report, "repeat").what
    assert found(report, "seen once").lines[0] == 1
    file = report.files[0]
    assert (file.n_lines, file.n_characters) == (11, len("\n".join(lines)))


def test_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfone\r\ntwo\nthree\rfour\r\n"
    report = check_files([write(tmp_path / "a.txt", data)])
    assert found(report, "CRLF").lines == [1, 4]
    assert found(report, r"CR \(").lines == [3]
    assert "mixed" in found(report, "CRLF").advice
    assert found(report, "byte-order mark").level == "note"
    assert report.files[0].n_lines == 4
    utf16 = check_files([write(tmp_path / "b.txt", "one\r\ntwo\r\n".encode("utf-16"))])
    assert found(utf16, "CRLF").lines == [1, 2]
    assert utf16.files[0].encoding == "utf-16-le"


def test_carriage_return_across_a_block_edge(tmp_path: Path) -> None:
    data = b"x" * ((1 << 20) - 1) + b"\r\n" + b"y\r\n"
    report = check_files([write(tmp_path / "a.txt", data)])
    assert found(report, "CRLF").count == 2
    assert not [finding for finding in report.findings if "CR (" in finding.what]


def test_what_cannot_be_read_is_an_error_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = write(tmp_path / "good.txt", "fine\n")
    bad = write(tmp_path / "bad.txt", b"ok\nna\xefve and more text here\n")
    report = check_files([bad, tmp_path / "none.txt", tmp_path, good])
    assert not report.ok
    assert [bool(file.encoding) for file in report.files] == [False, False, False, True]
    assert "byte 5" in report.files[0].findings[0].what
    with pytest.raises(UserError, match="no file"):
        check_files([])


def test_documents_are_proposed_and_counted(tmp_path: Path) -> None:
    lines = ["床前明月光，疑是地上霜。", "举头望明月，低头思故乡。"]
    poems = "\n\n".join("\n".join(lines) for _ in range(30))
    report = check_files([write(tmp_path / "poems.txt", poems)])
    assert (report.files[0].documents, report.files[0].n_documents) == ("blank-lines", 30)


def test_pairs(tmp_path: Path) -> None:
    source = ["ein Hund läuft im Park"] * 6 + ["", "gleich bleibt gleich", "drei\tvier fünf", " "]
    target = ["a dog runs in the park"] * 5 + ["x", "alone", "gleich bleibt gleich", "", "\t"]
    paths = [
        write(tmp_path / "a.de", "\n".join(source) + "\n"),
        write(tmp_path / "a.en", "\n".join(target) + "\n"),
    ]
    report = check_files(paths, pairs=True)
    assert report.pairs is not None
    assert report.pairs.n_pairs == 10
    assert found(report, "blank in the source only").lines == [7]
    assert found(report, "blank in the target only").lines == [9]
    assert found(report, "blank on both").lines == [10]
    assert found(report, "cop").lines == [8]
    assert found(report, "times off").lines == [6]
    assert found(report, "pairs repeat an earlier").lines == [2, 3, 4, 5]


def test_unequal_pairs_name_both_counts_and_the_first_suspicious_place(tmp_path: Path) -> None:
    source = write(tmp_path / "a", "\n".join(["some words to translate"] * 9))
    lines = ["so many words to be said"] * 9
    lines.insert(4, "hi")
    target = write(tmp_path / "b", "\n".join(lines))
    finding = found(check_files([source, target], pairs=True), "the source has")
    assert finding.level == "error"
    assert "9 lines" in finding.what
    assert "10" in finding.what
    assert finding.lines == [5]


def test_tab_separated_pairs(tmp_path: Path) -> None:
    rows = "a\tb\nonly\nc\td\te\n\tf\n"
    report = check_files([write(tmp_path / "a.tsv", rows)], pairs=True)
    assert found(report, "no tab").lines == [2]
    assert found(report, "two columns").lines == [3]
    assert found(report, "blank in the source only").lines == [4]


def test_overlap_of_training_and_test(tmp_path: Path) -> None:
    train = [write(tmp_path / "t.de", "eins\nzwei\n"), write(tmp_path / "t.en", "one\ntwo\n")]
    test = [write(tmp_path / "s.de", "drei\nzwei\n"), write(tmp_path / "s.en", "three\ndeux\n")]
    report = check_files(train, pairs=True, test=test)
    assert [(f.lines, f.count) for f in report.overlap] == [([2], 1)]
    assert "source" in report.overlap[0].what
    with pytest.raises(UserError, match="2"):
        check_files(train, pairs=True, test=test[:1])
    text = write(tmp_path / "a.txt", "a whole sentence of the text\nno\n")
    again = write(tmp_path / "b.txt", "no\na whole sentence of the text\n")
    assert [f.lines for f in check_files([text], test=[again]).overlap] == [[2]]


def test_report_as_json_and_in_words(tmp_path: Path) -> None:
    report = check_files([write(tmp_path / "a.txt", "one\n\x00\n")])
    data = json.loads(json.dumps(report.as_dict()))
    assert data["ok"] is True
    assert data["files"][0]["findings"][0]["lines"] == [2]
    lines = report.lines()
    assert any("NUL: 1 time (line 2)" in line for line in lines)
    assert lines[-1] == "0 errors, 1 warning, 0 notes"


@pytest.mark.needs_data
def test_difficult_files(data_folder: Path) -> None:
    manifest = json.loads((data_folder / "difficult" / "manifest.json").read_text("utf-8"))
    for path in sorted((data_folder / "difficult").iterdir()):
        report = check_files([path])
        json.dumps(report.as_dict())
        assert report.lines()
        wanted = manifest.get(path.name)
        if wanted and report.files[0].encoding:
            assert report.files[0].n_characters == wanted["chars"]
        if wanted and wanted["encoding"] is None:
            assert not report.ok


@pytest.mark.parametrize(
    ("text", "severity"),
    [("", "error"), ("a", "error"), ("ab", None), (" \n\n  \n", "warning"), ("\n\n", "warning")],
)
def test_an_error_is_what_training_refuses(tmp_path: Path, text: str, severity: str | None) -> None:
    file = tmp_path / "little.txt"
    file.write_text(text, encoding="utf-8")
    report = check_files([file])
    assert report.ok is (severity != "error")
    levels = {finding.level for finding in report.findings}
    assert severity is None or severity in levels
    if severity == "error":
        with pytest.raises(UserError):
            prepare([file], cache=tmp_path / "cache")
    else:
        assert prepare([file], cache=tmp_path / "cache").train.n_tokens >= 1
