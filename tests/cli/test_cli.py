"""The command line itself: the table, help pages, errors, flags; no model is loaded here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from budgerigar.cli import main
from budgerigar.cli.table import COMMANDS, GROUPS

# The rows of the design's table that are built so far, in its order.
EXPECTED = {
    "learn": ["demo [--quick]", "why [PART]"],
    "make": [
        "train [FILE…]",
        "compare [CORPUS]",
        "ablate RECIPE --dial X=a,b",
        "evaluate RUN [FILE]",
    ],
    "run": [
        *("generate RUN [PROMPT]", "chat RUN", "translate RUN [TEXT…]"),
        *("fill RUN TEXT", "classify RUN [TEXT…]", "embed RUN [TEXT…]"),
    ],
    "look": ["look RUN TEXT", "explore [RUN…]"],
    "models": ["card RUN|RECIPE|PAPER", "doctor PATH", "convert PATH OUT", "eject RUN"],
    "data": ["get NAME", "list", "check FILE…"],
}

FLAGS_EVERYWHERE = ("--quiet", "--debug", "--help")


def test_the_commands_are_those_of_the_design() -> None:
    built = {
        group: [f"{row.name} {row.usage}".strip() for row in rows] for group, rows in GROUPS.items()
    }
    assert built == EXPECTED


def test_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    for row in COMMANDS.values():
        assert f"budgie {row.name} {row.usage}".strip() in page
        assert row.about in page
    assert main([]) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"usage: budgie {name}")
    for flag in FLAGS_EVERYWHERE:
        assert flag in page
    assert main(["help", name]) == 0
    assert capsys.readouterr().out == page


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_loads_nothing_heavy(name: str | None) -> None:
    arguments = ["--help"] if name is None else [name, "--help"]
    code = (
        "import sys; from budgerigar.cli import main\n"
        f"main({arguments!r})\n"
        "heavy = {'torch', 'numpy', 'tokenizers', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_train_help_explains_each_setting(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "--help"])
    page = " ".join(capsys.readouterr().out.split())
    assert "--n-heads N query heads per attention [4]" in page
    assert "--norm {layer,rms}" in page
    assert "--n-kv-heads N" in page
    assert "--warmup-steps N" in page
    assert "--order-of-ngram" not in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], ["no command 'trian'", "train"]),
        (["--quiet", "list"], ["after the command"]),
        (["train", "--n-head", "4"], ["no flag --n-head", "--n-heads"]),
        (["train", "a.txt", "--norm", "rmss"], ["'rmss' is not one of layer, rms", "mean rms"]),
        (["train", "a.txt", "--steps", "ten"], ["'ten' is not a whole number"]),
        (["train"], ["what shall it learn from", "budgie train my.txt"]),
        (["train", "--resume", "last", "--recipe", "x"], ["--resume", "--recipe"]),
        (["train", "a.txt", "--corpus", "x"], ["not both"]),
        (["generate"], ["RUN", "--help"]),
        (["generate", "nowhere"], ["nowhere"]),
        (["generate", "x", "p", "--prompt-file", "f"], ["not both"]),
        (["eject", "a", "b"], ["no further argument 'b'"]),
        (["list", "--threads", "0"], ["from 1 to"]),
        (["list", "--threads", "99999"], ["from 1 to"]),
        (["look"], ["RUN must be given"]),
        (["look", "a", "has", "a", "cat"], ["no further argument 'a'", "quotes"]),
        (["look", "a", ""], ["text is empty"]),
        (["generate", "x", "p", "--samples", "x"], ["'x' is not a whole number"]),
        (["generate", "x", "p", "--samples", "0"], ["at least 1"]),
        (["generate", "", "p"], ["empty name"]),
        (["train", ""], ["names no file"]),
        (["train", "a.txt", "--from", ""], ["empty name"]),
        (["train", "--recipe", "stories", "--minutes", "0"], ["minutes"]),
        (["train", "--recipe", "stories", "--minutes", "nan"], ["minutes"]),
        (["train", "--recipe", "stories", "--seed", "-1"], ["seed"]),
    ],
)
def test_mistakes_are_told_in_words(
    arguments: list[str],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("budgie: ")
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_only_what_is_needed_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate"]) == 2
    assert "RUN must be given" in capsys.readouterr().err


def test_a_closed_stdout_is_no_fault() -> None:
    command = [sys.executable, "-m", "budgerigar", "list", "papers"]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], capture_output=True, text=True, check=False
    )
    assert closed.returncode == 0, closed.stderr


def test_a_file_for_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").write_text("hello")
    assert main(["my.txt"]) == 2
    assert "budgie train my.txt" in capsys.readouterr().err


def test_debug_shows_the_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="nowhere"):
        main(["generate", "nowhere", "--debug"])


def test_faults_of_ours_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(arguments: list[str]) -> int:
        raise TypeError("a bug")

    monkeypatch.setattr("budgerigar.cli.dispatch.dispatch", broken)
    assert main(["list"]) == 1
    err = capsys.readouterr().err
    assert "fault of the program" in err
    assert "TypeError: a bug" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), 2, "x.txt: No such file"),
        (OSError(28, "No space left on device"), 2, "No space left"),
        (MemoryError(), 2, "not enough memory"),
    ],
)
def test_what_stops_a_command(
    error: BaseException,
    status: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr("budgerigar.cli.dispatch.dispatch", stopped)
    assert main(["list"]) == status
    assert words in capsys.readouterr().err


def test_a_flag_without_effect_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    main(["card", "no-such-thing", "--seed", "3"])
    assert "--seed has no effect on `budgie card`" in capsys.readouterr().err


def test_module_and_command_are_one() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "budgerigar", "--version"], capture_output=True, text=True
    )
    assert done.stdout.startswith("budgerigar ")
    assert done.returncode == 0


def test_a_closed_pipe_is_no_error() -> None:
    code = "import sys; from budgerigar.cli import main; sys.exit(main(['train', '--help']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    error = process.stderr.read().decode()
    process.wait()
    assert "Traceback" not in error
    assert "fault" not in error
