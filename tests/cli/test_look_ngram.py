"""`budgie look` on an n-gram, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgerigar.cli import main


@pytest.fixture(scope="module")
def ngram(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of an n-gram of characters."""
    folder = tmp_path_factory.mktemp("ngram")
    (folder / "text.txt").write_text("the cat sat on the mat . " * 60, encoding="utf-8")
    out = str(folder / "run")
    made = ["train", str(folder / "text.txt"), "--recipe", "ngram", "--out", out, "--quiet"]
    assert main([*made, "--tokenizer", "character"]) == 0
    return out


def test_look_at_an_ngram(ngram: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", ngram, "the cat sat"]) == 0
    shown, said = capsys.readouterr()
    assert "By the longest n-gram seen" in shown
    assert "--step WORD" in said
    assert main(["look", ngram, "the cat sat", "--step", "cat"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("likeliest here") == 3
    assert main(["look", ngram, "the cat sat", "--step", "4"]) == 0
    assert "“c” at position 4" in capsys.readouterr().out
    for name in ("a.png", "a.svg", "a.html"):
        assert main(["look", ngram, "the cat sat", "--out", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out.strip() == str(tmp_path / name)
    pictures = {(tmp_path / name).read_bytes() for name in ("a.svg", "a.html")}
    for name in ("b.svg", "b.html"):  # the word that was asked about is marked in them
        arguments = ["look", ngram, "the cat sat", "--step", "cat", "--out", str(tmp_path / name)]
        assert main(arguments) == 0
        assert (tmp_path / name).read_bytes() not in pictures
    begins = '"state":{"view":"backoff","selection":{"query":4}}'
    assert begins in (tmp_path / "b.html").read_text("utf-8")
    capsys.readouterr()
    assert main(["look", ngram, "the cat sat", "--surprise"]) == 0
    assert "most surprising" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--head", "L0.H0"], "--head cannot be used"),
        (["--grid"], "counts and has no heads, so --grid"),
        (["--head-off", "L0.H0"], "--head-off cannot be used"),
        (["--unit", "L0.U1"], "no recurrent language model"),
        (["--no-source"], "--no-source"),
        (["--out", "a.jpg"], "a picture's name ends in"),
        (["--step", "dog"], "no word 'dog'"),
        (["--step", "99"], "no position 99"),
        (["--step", "0"], "nothing predicts"),
        (["--surprise", "--step", "cat"], "leave it or --step out"),
    ],
)
def test_look_at_an_ngram_refuses(
    ngram: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", ngram, "the cat sat", *flags]) == 2
    assert words in capsys.readouterr().err
