"""`budgie look` on a recurrent model and `--reach`, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import budgerigar as bg
from budgerigar.cli import main

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 40
SHORT = "the cat sat"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """runs/lstm, runs/feed-forward and runs/ngram of the same text."""
    folder = tmp_path_factory.mktemp("gates")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    common = {"steps": 2, "batch_size": 2, "window_length": 16, "baselines": False, "threads": 1,
              "sample_every": 0}  # fmt: skip
    for name, dials in (
        ("lstm", {"d_hidden": 8, "n_layers": 2, "d_embedding": 4, **common}),
        ("feed-forward", {"d_hidden": 8, "order": 5, "d_embedding": 4, **common}),
        ("ngram", {"order": 3}),
    ):
        bg.train(folder / "text.txt", recipe=name, out=folder / "runs" / name, **dials)  # type: ignore[arg-type]
    return folder


@pytest.fixture(autouse=True)
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_gates_of_a_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "lstm", SHORT]) == 0
    shown = capsys.readouterr()
    assert "LSTM, layer L1 of L0 to L1, 8 units" in shown.out
    assert "another layer: --layer N" in shown.err
    assert main(["look", "lstm", SHORT, "--layer", "0", "--quiet"]) == 0
    assert "layer L0 of L0 to L1" in capsys.readouterr().out
    assert main(["look", "lstm", SHORT, "--gate", "forget"]) == 0
    assert "forget: rows are single units" in capsys.readouterr().out
    assert main(["look", "lstm", SHORT, "--unit", "L0.U3"]) == 0
    assert "unit L0.U3: memory" in capsys.readouterr().out
    assert main(["look", "lstm", SHORT, "--surprise"]) == 0
    assert "nats over" in capsys.readouterr().out


def test_pictures_of_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, ending in (([], "html"), (["--gate", "cell"], "svg"), (["--unit", "L1.U2"], "png")):
        out = tmp_path / f"gates.{ending}"
        assert main(["look", "lstm", SHORT, *flags, "--out", str(out)]) == 0
        assert capsys.readouterr().out.strip() == str(out)
        assert out.stat().st_size > 2000
    assert main(["look", "lstm", SHORT, "--out", str(tmp_path / "gates.html")]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["lstm", SHORT, "--head", "L0.H0"], "has no heads, so --head cannot be used"),
        (["lstm", SHORT, "--grid"], "It has gates"),
        (["lstm", SHORT, "--layer", "2"], "layers 0 to 1"),
        (["lstm", SHORT, "--unit", "L0.U8"], "units U0 to U7"),
        (["lstm", SHORT, "--unit", "17"], "units are named like L0.U17"),
        (["lstm", SHORT, "--unit", "L0.U1", "--layer", "1"], "is not of --layer 1"),
        (["lstm", SHORT, "--unit", "L0.U1", "--gate", "cell"], "give one of them"),
        (["lstm", SHORT, "--gate", "update"], "this LSTM has no 'update'"),
        (["lstm", SHORT, "--out", "gates.txt"], "ends in .png, .svg, .pdf or .html"),
        (["lstm", SHORT, "--surprise", "--gate", "cell"], "leave it or --gate out"),
        (["lstm", SHORT, "--target", "x"], "--target"),
        (["lstm"], "TEXT must be given"),
        (["feed-forward", SHORT, "--gate", "cell"], "no recurrent language model"),
        (["ngram", SHORT, "--unit", "L0.U0"], "no recurrent language model"),
        (["lstm", SHORT, "--distance", "4"], "--distance belongs to --reach"),
        (["lstm", SHORT, "--beside", "ngram"], "--beside belongs to --reach"),
        (["lstm", SHORT, "--reach", "--grid"], "another picture than --grid"),
        (["lstm", SHORT, "--reach", "--distance", "99"], "allows 1 to"),
        (["lstm", "t", "--reach"], "too short"),
        (["lstm", "--reach", "--analogy", "a b c"], "another picture than --analogy"),
        (["lstm", "--reach", "--out", "nowhere/reach.png"], "there is no folder nowhere"),
        (["lstm", "--reach", "--out", "reach.html"], "ends in .png, .svg or .pdf"),
        (["lstm", "--reach", "--beside", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_shown(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", *arguments]) == 2
    shown = capsys.readouterr()
    assert why in shown.err
    assert "Traceback" not in shown.err


def test_reach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "reach.png"
    arguments = ["look", "lstm", "--reach", "--beside", "feed-forward", "ngram", "--distance", "12"]
    assert main([*arguments, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    lines = shown.out.split("\n")
    assert lines[0].split() == ["tokens", "back", "lstm", "feed-forward"]
    assert [line.split()[0] for line in lines[1:6]] == ["1", "2", "4", "8", "12"]
    assert lines[5].split()[2] == "0"
    assert "ngram: an n-gram looks its last 2 tokens up" in shown.out
    assert str(out) in shown.out
    assert out.stat().st_size > 10_000
    assert "on the validation text of" in shown.err
    assert "do not compare" not in shown.err  # the same tokens everywhere


def test_reach_from_python(place: Path) -> None:
    model = bg.load(place / "runs" / "lstm")
    found = model.reach(TEXT[:60], distance=8, positions=3)
    assert found.norms.shape == (3, 8)
    assert found.name == "lstm"
    assert "tokens back" in repr(found)
    assert model.trace(SHORT).gates(1).difference < 1e-5
