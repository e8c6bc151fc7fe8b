"""`budgie look RUN TEXT --lens` and `--attribution`, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgerigar.cli import main


@pytest.fixture(autouse=True)
def inside(looked_at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(looked_at)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


def test_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "gpt", "the cat sat", "--lens"]) == 0
    page = capsys.readouterr().out
    assert page.splitlines()[0].split() == ["read", "embedding", "L0", "L1"]
    assert "nats away" in page
    asked = ["--attribution", "sat", "--token", "on", "--against", "cat"]
    assert main(["look", "gpt", "the cat sat", *asked]) == 0
    page = capsys.readouterr().out
    assert "logit of “on” minus that of “cat” after “sat” (position 2)" in page
    assert "L1.H1" in page
    assert "the parts sum to" in page
    assert main(["look", "gpt", "the cat sat", "--lens", "--attribution", "-1"]) == 0
    page = capsys.readouterr().out
    assert "embedding" in page
    assert "logit of" in page
    assert main(["look", "gpt", "the cat sat", "--attribution", "1", "--head-off", "L1.H0"]) == 0
    assert "without L1.H0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "flags", "words"),
    [
        ("gpt", ["--lens", "--grid"], "another picture than --grid"),
        ("gpt", ["--token", "cat"], "belongs to --attribution"),
        ("gpt", ["--attribution", "bird"], "no word"),
        ("gpt", ["--attribution", "sat", "--token", "the cat"], "name one token"),
        ("ngram", ["--lens"], "no residual stream"),
    ],
)
def test_refused(
    model: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", model, "the cat sat", *flags]) == 2
    assert words in capsys.readouterr().err
