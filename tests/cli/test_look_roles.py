"""`budgie look RUN --roles`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import budgerigar as bg
from budgerigar.cli import main
from budgerigar.inspection import role_probes


@pytest.fixture(autouse=True)
def inside(looked_at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder, with few texts to measure on."""
    monkeypatch.chdir(looked_at)
    monkeypatch.setenv("NO_COLOR", "1")
    made = role_probes.repeats
    monkeypatch.setattr(role_probes, "repeats", lambda reader: made(reader, n=3))
    monkeypatch.setattr(role_probes, "N_RANDOM", 3)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "gpt", "--roles"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "4 heads"
    named = [line.split("  ")[0] for line in lines]
    for role in ("previous token", "itself", "first token", "duplicate token", "induction"):
        assert role in named
    assert "reference of “it”   not measured: the tokenizer does not hold the words of the" in out
    assert "bracket, Python     not measured: the tokenizer does not hold Python code" in out
    assert "not found; the best head:" in out
    assert [line.split()[0] for line in lines[-4:]] == ["L0.H0", "L0.H1", "L1.H0", "L1.H1"]
    assert "score      mean weight on what is right" in err
    assert main(["look", "gpt", "--roles", "--quiet"]) == 0
    assert "mean weight" not in capsys.readouterr().err


def test_all_numbers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "gpt", "--roles", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (site,) = found["attention"]
    roles = {role["role"]: role for role in site["roles"]}
    own = bg.load("gpt").roles().role("induction")
    for n, head in enumerate(roles["induction"]["heads"]):
        assert head["head"] == own.names[n]
        assert head["score"] == pytest.approx(float(own.score[n]))
        assert head["eligible_rows"] == own.rows[n]
        assert 0 < head["uniform"] < 1
    assert roles["reference"]["not_measured"]
    assert roles["reference"]["heads"] == []
    assert len(site["heads"]) == 4


def test_through_training_and_without_a_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "gpt", "--roles", "--born"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("head roles over 3 checkpoints, step-00000002 to step-00000004")
    assert "copy of repeated tokens" in page
    assert main(["look", "gpt", "--roles", "--head-off", "L1.H0", "--how", "zero"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("without L1.H0 (zero instead)")
    assert "nats per token" in page
    assert main(["look", "gpt", "--roles", "--head-off", "L1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["off"], found["how"]) == (["L1"], "mean")
    assert found["changes"][0]["tokens"] > 0


@pytest.mark.parametrize(
    ("model", "flags", "words"),
    [
        ("gpt", ["the cat", "--roles"], "texts of its own; give it without TEXT"),
        ("gpt", ["--roles", "--grid"], "without --grid"),
        ("gpt", ["the cat", "--json"], "--json belongs to --roles"),
        ("gpt", ["the cat", "--born"], "--born belongs to --roles"),
        ("gpt", ["the cat", "--how", "zero"], "--how belongs to --roles"),
        ("gpt", ["--roles", "--how", "zero"], "say of --head-off which heads"),
        ("gpt", ["--roles", "--born", "--head-off", "L0"], "two questions"),
        ("gpt", ["--roles", "--head-off", "L7.H0"], "no layer 7"),
        ("ngram", ["--roles"], "has no attention"),
        ("ngram", ["--roles", "--head-off", "L0.H0"], "no heads that could be switched off"),
    ],
)
def test_refused(
    model: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", model, *flags]) == 2
    assert words in capsys.readouterr().err
