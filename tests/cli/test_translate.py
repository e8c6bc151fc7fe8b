"""`budgie translate`: N lines in, N lines out, from wherever they come."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from budgerigar.cli import main

LINES = ["轩辕有一只虎皮鹦鹉", "", "梅有一只猫", " \t", "诺拉昨天看见了一只猫", "小梅有一只刺猬"]


@pytest.fixture(autouse=True)
def inside(translator_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(translator_folder.parents[1])
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setenv("NO_COLOR", "1")


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes, *flags: str) -> int:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    return main(["translate", "zh-en", *flags])


def test_arguments_file_and_stdin_are_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["translate", "zh-en", *LINES]) == 0
    out, err = capsys.readouterr()
    found = out.split("\n")
    assert len(found) == len(LINES) + 1  # the last line ends too
    assert [bool(line) for line in found[:-1]] == [bool(line.strip()) for line in LINES]
    assert "Traceback" not in err
    file = tmp_path / "lines.zh"
    file.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    assert main(["translate", "last", "--file", str(file)]) == 0
    assert capsys.readouterr().out == out
    assert piped(monkeypatch, file.read_bytes()) == 0
    assert capsys.readouterr().out == out
    assert main(["translate", "last", "\n".join(LINES)]) == 0  # an argument of several lines
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    "data",
    [
        "谁有一只猫\r\n\r\n谁有一只狗\r\n",
        "谁有一只猫\n\n谁有一只狗",
        "\ufeff谁有一只猫\n\n谁有一只狗\n",
        "谁有\u2028一只猫\n\n谁\x85有\t一只\x0c狗\n",
        "谁有一只猫\r\r谁有一只狗\r",
    ],
)
def test_line_ends_of_all_systems_and_nothing_else(
    data: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert piped(monkeypatch, data.encode()) == 0
    first, second, third, end = capsys.readouterr().out.split("\n")
    assert first
    assert third
    assert (second, end) == ("", "")


def test_nothing_in_nothing_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert piped(monkeypatch, b"") == 0
    assert main(["translate", "zh-en"]) == 0  # an empty stdin of a program's making
    assert main(["translate", "zh-en", ""]) == 0
    assert capsys.readouterr().out == "\n"  # of the last


def test_columns_lists_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    plain = translated(capsys, *LINES)
    rows = [line.split("\t") for line in translated(capsys, *LINES, "--scores", "--alignments")]
    assert [row[0] for row in rows] == plain
    for text, score, links in rows:
        assert (float(score) < 0) == bool(text)
        for link in links.split():
            i, j = map(int, link.split("-"))
            assert j < len(text.split())
            assert i < 12
    assert rows[0][2]
    moses = translated(capsys, *LINES, "--n-best", "3", "--beam-size", "3")
    cells = [line.split(" ||| ") for line in moses]
    assert [int(row[0]) for row in cells] == [0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5, 5, 5]
    assert cells[3] == ["1", "", "0.0000"]
    scores = [float(row[2]) for row in cells[:3]]
    assert scores == sorted(scores, reverse=True)
    assert main(["translate", "last", *LINES, "--json", "--n-best", "2", "--alignments"]) == 0
    found = json.loads(capsys.readouterr().out)["translations"]
    assert [one["source"] for one in found] == LINES
    assert [one["hypotheses"][0]["text"] for one in found] == plain
    assert len(found[0]["hypotheses"]) == 2
    assert found[0]["hypotheses"][0]["alignment"] == rows[0][2]


def translated(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["translate", "last", *arguments]) == 0
    return capsys.readouterr().out.split("\n")[:-1]


def test_a_prefix_is_kept_and_a_source_can_be_blanked(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["轩辕有一只虎皮鹦鹉", "诺拉昨天看见了一只猫"]
    for line in translated(capsys, *lines, "--prefix", "Xuanyuan has a"):
        assert line.startswith("Xuanyuan has a")
    assert len(set(translated(capsys, *lines))) == 2
    assert len(set(translated(capsys, *lines, "--no-source", "--max-length", "9"))) == 1


def test_sampling_is_seeded(capsys: pytest.CaptureFixture[str]) -> None:
    draw = ["谁有一只猫", "--temperature", "2"]
    once = translated(capsys, *draw, "--seed", "1")
    assert translated(capsys, *draw, "--seed", "1") == once
    assert any(translated(capsys, *draw, "--seed", str(n)) != once for n in (2, 3, 4))


def test_out_appears_whole_and_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.en"
    assert main(["translate", "last", *LINES, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_bytes().count(b"\n") == len(LINES)
    assert main(["translate", "last", "x", "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    other = tmp_path / "other.en"
    assert piped(monkeypatch, "谁\n".encode() + b"\xff\n", "--out", str(other)) == 2
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["a", "--file", "b"], "not both"),
        (["--file", "no.txt"], "no such file"),
        (["a", "--n-best", "5"], "as large a beam"),
        (["a", "--beam-size", "0"], "beam_size = 0"),
        (["a", "--length-penalty", "gmnt"], "did you mean gnmt"),
        (["a", "--beams", "3"], "--beam-size"),
    ],
)
def test_mistakes(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "zh-en", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


def test_a_flag_without_effect_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "zh-en", "谁", "--length-penalty", "none", "--alpha", "2"]) == 0
    assert "--alpha has no effect" in capsys.readouterr().err


def test_bytes_that_are_no_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert piped(monkeypatch, "谁\n谁".encode()[:-1]) == 2
    assert "stdin: byte 4" in capsys.readouterr().err
    assert piped(monkeypatch, "谁有一只猫\n".encode("gb18030"), "--encoding", "gb18030") == 0
    assert capsys.readouterr().out == "\n".join(translated(capsys, "谁有一只猫")) + "\n"


def test_a_closed_stdin_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["translate", "zh-en"]) == 2
    assert "stdin is closed" in capsys.readouterr().err
    assert main(["translate", "zh-en", "谁"]) == 0


@pytest.mark.parametrize("beyond", [100, 10_000])
def test_a_line_beyond_the_context_is_cut_and_named(
    beyond: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["translate", "zh-en", "谁", "猫" * beyond, "谁", "--beam-size", "1"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 3
    assert "line 2 has" in err


def test_words_without_quotes_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "last", "who", "has"]) == 0
    assert "needs quotes" in capsys.readouterr().err
    assert main(["translate", "last", "谁有一只猫", "谁"]) == 0
    assert "needs quotes" not in capsys.readouterr().err


class Typing(io.StringIO):
    """A terminal at which someone types these lines, then ends with `end`."""

    def __init__(self, lines: list[str], end: type[BaseException] | None = None) -> None:
        super().__init__("".join(line + "\n" for line in lines))
        self.end = end

    def isatty(self) -> bool:
        return True

    def readline(self, *size: Any) -> str:
        line = super().readline()
        if not line and self.end is not None:
            raise self.end
        return line


@pytest.mark.parametrize(
    ("typed", "end"), [([""], None), ([], None), ([], KeyboardInterrupt), ([], EOFError)]
)
def test_a_prompt_answers_until_it_is_ended(
    typed: list[str],
    end: type[BaseException] | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = ["谁有一只猫", "谁有一只狗"]
    monkeypatch.setattr("sys.stdin", Typing([*lines, *typed, *(["谁"] if typed else [])], end))
    assert main(["translate", "zh-en"]) == 0
    out, err = capsys.readouterr()
    assert out.split("\n")[:-1] == translated(capsys, *lines)
    assert "Ctrl-D ends" in err
    monkeypatch.setattr("sys.stdin", Typing(lines))
    assert main(["translate", "zh-en", "--json"]) == 2


def test_roles_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], translator_folder: Path
) -> None:
    assert main(["generate", "zh-en", "x"]) == 2
    assert "translate" in capsys.readouterr().err
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat . " * 20)
    run = str(tmp_path / "ngram")
    assert main(["train", str(text), "--recipe", "ngram", "--out", run, "--quiet"]) == 0
    capsys.readouterr()
    for command in (
        ["translate", run, "x"],
        ["look", run, "x", "--no-source"],
        ["evaluate", run, "--source", str(text), "--target", str(text)],
        ["evaluate", run, "--alignments"],
    ):
        assert main(command) == 2
        err = capsys.readouterr().err
        assert "n-gram" in err
        assert "Encoder-decoders (Transformer or RNN) translate" in err
        assert "generate" in err


def test_each_line_is_answered_before_the_next_is_read() -> None:
    """A dialogue through pipes; then the reader goes away, which is no fault."""
    command = [sys.executable, "-m", "budgerigar", "translate", "last", "--beam-size", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for line in ("谁有一只猫\n", "\n", "谁有一只狗\n"):
            process.stdin.write(line.encode())
            process.stdin.flush()
            assert bool(process.stdout.readline().strip()) == bool(line.strip())
        process.stdout.close()
        process.stdin.write("谁有一只猫\n".encode() * 3)
        process.stdin.close()
        errors = process.stderr.read().decode()
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "fault" not in errors
