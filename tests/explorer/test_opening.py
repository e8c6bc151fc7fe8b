"""`budgie explore`: names of models, where a browser can open, the command from start to Ctrl-C."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from safetensors.torch import load, save

import budgerigar as bg
from budgerigar.cli import main
from budgerigar.explorer.opening import has_desktop, load_models
from budgerigar.explorer.server import bind


def test_models_have_short_names(little_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(little_run.parents[1])
    models = load_models(["little", "last", "runs/little", f"{little_run}/"], device="cpu")
    assert list(models) == ["little", "little-2", "little-3", "little-4"]


def test_without_a_run_it_is_the_demos_models(
    little_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("demo-words", "demo-translation"):
        shutil.copytree(little_run, tmp_path / "runs" / name)
    monkeypatch.chdir(tmp_path)
    assert list(load_models([], device="cpu")) == ["demo-words", "demo-translation"]
    shutil.copytree(little_run, tmp_path / "runs" / "demo-shakespeare")
    assert list(load_models([], device="cpu"))[2:] == ["demo-shakespeare"]


def test_the_demos_models_are_trained_where_they_are_not_there(
    little_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from budgerigar.experiments import demo_models, demo_runs

    asked = []

    def train(recipe: object, corpus: object, folder: Path) -> None:
        asked.append((recipe.text.corpus, recipe.training.steps, recipe.training.threads))  # type: ignore[attr-defined]
        if len(asked) > 1:
            raise demo_runs.StoppedError(str(folder))
        shutil.copytree(little_run, folder)

    monkeypatch.setattr(demo_models, "trained", train)
    monkeypatch.setattr("budgerigar.training.corpora.gather_corpus", lambda *a, **b: None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        load_models([], threads=1)
    assert [corpus for corpus, _, _ in asked] == ["stories", "stories"]
    assert {threads for _, _, threads in asked} == {1}
    said = capsys.readouterr().err
    assert "demo-words and demo-translation are not under runs yet" in said
    assert "budgie demo --quick" in said
    assert "Stopped, and saved" in said


@pytest.mark.parametrize(
    ("environment", "platform", "there"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ""}, "linux", False),
        ({}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
        ({"SSH_CONNECTION": "1"}, "darwin", False),
        ({"BROWSER": "firefox"}, "linux", True),
    ],
)
def test_where_a_browser_can_open(environment: dict[str, str], platform: str, there: bool) -> None:
    assert has_desktop(environment, platform) is there


def test_the_demo_names_the_address_on_a_terminal(tmp_path: Path) -> None:
    from budgerigar.experiments.demo import Summary, _next
    from budgerigar.experiments.demo_screen import Screen
    from budgerigar.explorer.server import PORT

    screen = Screen(file=io.StringIO(), width=80)
    for terminal in (True, False):
        screen.animated = terminal
        command, words = _next(screen, Summary(), Path("runs"), quick=True)[0]
        assert command == "budgie explore"
        assert (f"http://127.0.0.1:{PORT}/" in words) is terminal


def test_mistakes_are_said_in_words(
    little_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        mistakes = {
            "this machine alone": [str(little_run), "--host", "0.0.0.0"],
            "cannot be used": [str(little_run), "--port", port],
            "no run folder": [str(tmp_path / "nothing"), "--port", "0"],
            "not a whole number": ["--port", "many"],
        }
        for words, arguments in mistakes.items():
            assert main(["explore", *arguments]) == 2
            assert words in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C of another process")
def test_from_start_to_the_end(little_run: Path, tmp_path: Path) -> None:
    opened = tmp_path / "opened.txt"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{opened}"\n')
    browser.chmod(0o755)
    code = (  # a shell's job in the background would ignore Ctrl-C, and so would what it starts
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from budgerigar.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "explore", str(little_run), "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": f"{browser} %s"},
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=30) as page:
            assert page.status == 200
        with urllib.request.urlopen(f"{address}api/models", timeout=30) as models:
            assert b'"id":"little"' in models.read()
        process.send_signal(signal.SIGINT)
        out, remarks = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert out == ""
    assert "little" in remarks
    assert "Traceback" not in remarks
    assert opened.read_text().strip() == address


def test_a_model_at_its_checkpoints(little_run: Path) -> None:
    model = bg.load(little_run, device="cpu")
    ids = model.encode("the cat")
    last = model.at_checkpoint(model.checkpoints[-1])
    first = model.at_checkpoint(model.checkpoints[0])
    assert not last.logits(ids).equal(first.logits(ids))
    assert model.logits(ids).equal(bg.load(little_run, device="cpu").logits(ids))
    with pytest.raises(bg.UserError, match="no checkpoint 'step-9'; it has step-00000000, "):
        model.at_checkpoint("step-9")
    with pytest.raises(bg.UserError, match="none is kept"):
        bg.Model(model.network, model.tokenizer).at_checkpoint("step-00000000")


def test_damaged_checkpoints(little_run: Path, tmp_path: Path) -> None:
    """Each way to be damaged is told."""
    run = tmp_path / "little"
    shutil.copytree(little_run, run)
    model = bg.load(run, device="cpu")
    middle = model.checkpoints[1]
    weights = run / "checkpoints" / middle / "weights.safetensors"
    whole = weights.read_bytes()
    tensors = load(whole)
    name = sorted(tensors)[0]
    wrong = {
        "cannot be read": [b"", whole[:1000], whole[:-1], b"x" * 5000],
        f"no finite numbers .in {re.escape(name)}": [
            save({**tensors, name: tensors[name] * float(value)}) for value in ("nan", "inf")
        ],
        "do not fit": [save({**tensors, name: tensors[name][:-1].clone()})],
    }
    for words, contents in wrong.items():
        for content in contents:
            weights.write_bytes(content)
            with pytest.raises(bg.UserError, match=words):
                model.at_checkpoint(middle)


def test_word_vectors_are_no_model_for_the_page(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("the cat sat on the mat . the dog sat on the log . " * 40, encoding="utf-8")
    run = bg.train(file, recipe="word-vectors", out=tmp_path / "words", steps=2, threads=1).folder
    with pytest.raises(bg.UserError, match=re.escape(f"{run} is a table of word vectors")):
        load_models([str(run)], device="cpu")
