"""Each command once, end to end, on a model trained for a few steps."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from budgerigar.cli import main

TEXT = "the cat sat on the mat . the dog sat on the log . " * 60
TINY = [
    *("--n-layers", "2", "--n-heads", "2", "--d-model", "32", "--context-length", "32"),
    *("--steps", "12", "--batch-size", "4", "--no-baselines", "--threads", "1"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, and a run of it under runs/."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "tiny.toml").write_text('[training]\nsteps = 12\nwindow_order = "random"\n')
    arguments = ["train", str(folder / "text.txt"), "--config", str(folder / "tiny.toml"), *TINY]
    assert main([*arguments, "--out", str(folder / "runs" / "text-1"), "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setenv("NO_COLOR", "1")


def test_train_prints_the_folder_only(
    place: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "new"
    arguments = ["train", "text.txt", "--config", "tiny.toml", *TINY, "--out", str(out)]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(out)
    assert "next: budgie generate" in captured.err
    assert main(arguments) == 2
    assert "exists already" in capsys.readouterr().err


def test_flags_override_the_config_file(place: Path) -> None:
    recipe = (place / "runs" / "text-1" / "recipe.toml").read_text()
    assert "n_layers = 2" in recipe
    assert 'window_order = "random"' in recipe


def test_resume_a_finished_run_and_lengthen_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", "last", "--steps", "14"]) == 0
    assert "runs/text-1" in capsys.readouterr().out


def test_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "last", "--streaming"]) == 0
    page = capsys.readouterr().out
    assert "nats per token" in page
    assert "streaming" in page
    assert main(["evaluate", "text-1", "text.txt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["windowed"]["n_tokens"] == len(TEXT) - 1


def test_generate(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--max-new-tokens", "8", "--seed", "1"]
    assert main(["generate", "last", "the cat", *short]) == 0
    text = capsys.readouterr().out
    assert text.startswith("the cat")
    (place / "prompt.txt").write_text("the cat\n")
    assert main(["generate", "last", "--prompt-file", "prompt.txt", *short]) == 0
    assert capsys.readouterr().out == text
    assert main(["generate", "last", "the cat", "a dog", "--json", *short]) == 0
    found = json.loads(capsys.readouterr().out)["continuations"]
    assert "the cat" + found[0]["continuation"] == text.removesuffix("\n")
    assert found[1]["prompt"] == "a dog"


def test_generate_from_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("the dog\n"))
    assert main(["generate", "last", "--max-new-tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("the dog")


def test_bytes_from_stdin_are_read_like_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def piped(data: bytes, *flags: str) -> int:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return main(["generate", "last", "--max-new-tokens", "1", *flags])

    assert piped(b"\xef\xbb\xbfthe\r\ndog\r\n") == 0
    assert capsys.readouterr().out.startswith("the\ndog")
    assert piped("né".encode("latin-1"), "--encoding", "latin-1") == 0
    assert capsys.readouterr().out.startswith("né")
    assert piped(b"the \xff dog") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "stdin: byte 4 (FF)" in err


@pytest.mark.parametrize(
    "flags",
    [["--top-k", "0"], ["--temperature", "nan"], ["--on-overflow", "sinks"], ["--stop", ""]],
)
def test_nothing_is_printed_before_a_mistake(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "last", "the cat", *flags]) == 2
    assert capsys.readouterr().out == ""


def test_words_without_quotes_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "last", "the", "cat", "--max-new-tokens", "1"]) == 0
    assert "needs quotes" in capsys.readouterr().err
    assert main(["generate", "last", "the cat", "a dog", "--max-new-tokens", "1"]) == 0
    assert "needs quotes" not in capsys.readouterr().err


def test_evaluate_reads_other_encodings_and_names_what_is_gone(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.txt").write_bytes("the café sat . ".encode("latin-1") * 20)
    flags = ["evaluate", "last", str(tmp_path / "other.txt")]
    assert main(flags) == 2
    assert "--encoding" in capsys.readouterr().err
    assert main([*flags, "--encoding", "latin-1"]) == 0
    text = place / "text.txt"
    before = text.read_bytes()
    capsys.readouterr()
    try:
        text.write_bytes(before + b"more")
        assert main(["evaluate", "last"]) == 2
        assert "budgie evaluate" in capsys.readouterr().err
        text.unlink()
        for command in (["evaluate", "last"], ["train", "--resume", "last", "--steps", "90"]):
            assert main(command) == 2
            assert "is gone" in capsys.readouterr().err
    finally:
        text.write_bytes(before)


def test_generate_says_what_has_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--temperature", "0", "--top-k", "5", "--max-new-tokens", "2"]
    assert main(["generate", "last", "a", *flags]) == 0
    assert "--top-k has no effect" in capsys.readouterr().err
    assert main(["generate", "last", "a", *flags, "--samples", "2"]) == 0
    assert "--samples has no effect" in capsys.readouterr().err


def test_look_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "last", "the cat sat"]) == 0
    page = capsys.readouterr().out
    assert "L1.H1" in page
    assert "query" in page


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--link", "sat", "cat"], "how much"),
        (["--head", "L1.H0", "--step", "sat"], "softmax"),
        (["--head", "L1.H0", "--step", "-1"], "softmax"),
        (["--surprise"], "nats"),
        (["--head-off", "L0.H0", "--head-off", "L1"], "without L0.H0, L1"),
        (["--layer", "1"], "L1.H1"),
        (["--grid"], "L0.H0"),
    ],
)
def test_look_at_one_thing(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", "last", "the cat sat", *flags]) == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.html"])
def test_look_draws(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / name
    assert main(["look", "last", "the cat sat", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert out.stat().st_size > 1000
    assert main(["look", "last", "the cat sat", "--out", str(out)]) == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--head", "L7.H0"], "no layer 7"),
        (["--head", "L0.H0", "--layer", "1"], "give one of them"),
        (["--step", "the"], "no word"),
        (["--out", "x.gif"], "ends in .png"),
    ],
)
def test_look_refuses(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "a cat sat"
    assert main(["look", "last", text, *flags]) == 2
    assert words in capsys.readouterr().err


def test_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "last"]) == 0
    assert "32" in capsys.readouterr().out
    assert main(["card", "gpt3-175b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert round(found["parameters"]["total"] / 1e9, 1) == 174.6
    assert main(["card", "shakespear"]) == 2
    assert "Did you mean shakespeare" in capsys.readouterr().err


def test_eject(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model.py"
    assert main(["eject", "last", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert len(out.read_text().splitlines()) < 300


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    page = capsys.readouterr().out
    for name in ("shakespeare", "nanogpt-char-cpu", "gpt3-175b", "text-1"):
        assert name in page
    assert main(["list", "runs", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["runs"]) == ["text-1"]


def test_check(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "text.txt"]) == 0
    assert "text.txt" in capsys.readouterr().out
    assert main(["check", "text.txt", "--json"]) == 0
    json.loads(capsys.readouterr().out)
    assert main(["check", "no.txt"]) == 2


def test_get_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "shakespaere"]) == 2
    assert "shakespeare" in capsys.readouterr().err


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = [sys.executable, "-m", "budgerigar", "generate", "last", "the", "--seed", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(4)
        process.stdout.close()
        errors = process.stderr.read().decode()
    assert "Traceback" not in errors
    assert "fault" not in errors
