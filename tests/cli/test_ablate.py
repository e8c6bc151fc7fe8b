"""`budgie ablate` as one types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgerigar.cli import main

TEXT = "the cat sat on the mat . the dog sat on the log . a bird sang . " * 30
TINY = [
    *("--n-layers", "1", "--n-heads", "2", "--d-model", "16", "--context-length", "16"),
    *("--steps", "2", "--batch-size", "2", "--tokenizer", "character", "--threads", "1"),
]


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ablate", "shakespeare", "text.txt", *TINY, "--seeds", "2", "--seed", "7"]
    arguments += ["--dial", "norm-place=pre,post"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "seeds 7, 8" in captured.out
    assert "runs/ablate-text-norm_place" in captured.out
    assert "2 cells, 2 seeds each; 4 runs of 2 steps, about" in captured.err
    assert "run 4 of 4: norm_place=post, seed 8:" in captured.err
    assert "left" in captured.err
    assert "step 2 of 2" not in captured.err  # remarks of a single run are not wanted here
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert "4 of 4 runs are finished" in captured.err
    values = json.loads(captured.out)
    assert values["seeds"] == [7, 8]
    assert values["cells"][0]["verdict"] == "base"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shakespeare", "text.txt"], "what shall be varied?"),
        (["shakespeare", "text.txt", "--dial", "positions"], "must be NAME=A,B"),
        (["shakespeare", "text.txt", "--dial", "n_layers=1,2", "--dial", "n_layers=3,4"], "twice"),
        (["shakespear", "text.txt", "--dial", "n_layers=1,2"], "did you mean 'shakespeare'"),
        (["shakespeare", "no.txt", "--dial", "n_layers=1,2"], "no.txt"),
        (["shakespeare", "text.txt", "--dial", "n_layer=1,2"], "did you mean 'n_layers'"),
        (["shakespeare", "--source", "text.txt", "--dial", "n_layers=1,2"], "--target"),
        (["multi30k", "text.txt", "--dial", "n_layers=1,2"], "sentence pairs"),
        (["shakespeare", "text.txt", "--corpus", "stories", "--dial", "n_layers=1,2"], "not both"),
        ([], "RECIPE must be given"),
    ],
)
def test_mistakes(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["ablate", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "typed",
    [["ablate", "lstm", "text.txt", "--dial", "d_hidden=8,16"], ["compare", "text.txt"]],
)
def test_stopped_between_two_trainings(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a model is measured there is no training to save, and still a way to go on."""
    from budgerigar import api

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, typed[0], stopped)
    assert main(typed) == 130
    assert "the same command goes on" in capsys.readouterr().err
