"""`train`, `fill`, `classify` and `evaluate` of encoders on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from budgerigar.cli import main

TEXT = "\n\n".join(f"the cat {n} sat on the mat . the dog {n} lay on the log ." for n in range(30))
LABELS = "\n".join(
    [
        "text\tlabel",
        *(f"the {kind} number {n}\t{kind}" for n in range(12) for kind in ("cat", "dog")),
    ]
)
TINY = [
    *("--n-layers", "1", "--n-heads", "2", "--d-model", "16", "--context-length", "24"),
    *("--steps", "4", "--batch-size", "4", "--threads", "1", "--quiet", "--sample-every", "0"),
]
SHORT = ["--steps", "4", "--batch-size", "4", "--threads", "1", "--quiet"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, labelled texts, an encoder and a classifier that began with it."""
    folder = tmp_path_factory.mktemp("fill")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "labels.tsv").write_text(LABELS + "\n", encoding="utf-8")
    text, labels = str(folder / "text.txt"), str(folder / "labels.tsv")
    encoder, classes = (str(folder / "runs" / name) for name in ("encoder", "classes"))
    flags = ["--objective", "masked-words", "--tokenizer", "word", "--documents", "blank-lines"]
    assert main(["train", text, *flags, *TINY, "--out", encoder]) == 0
    assert main(["train", labels, "--classify", "--from", encoder, *SHORT, "--out", classes]) == 0
    return folder


@pytest.fixture(autouse=True)
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))


def test_fill(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill", "encoder", "the [MASK] 3 sat on the [MASK] .", "--top-k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("gap")] == ["gap 1", "gap 2"]
    assert lines[-1].startswith("the ")
    assert "[MASK]" not in lines[-1]
    assert main(["fill", "encoder", "the [MASK] 3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["gaps"][0]["guesses"]) == 5
    assert found["text"] == f"the{found['gaps'][0]['guesses'][0]['text']} 3"


def test_evaluating_an_encoder_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "encoder"]) == 0
    page = capsys.readouterr().out
    assert "masked cross-entropy" in page
    assert "not comparable with the loss or bits per byte" in page
    assert "each once, 1 of 7 at a time" in page
    assert main(["evaluate", "encoder", "text.txt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measure"] == "masked cross-entropy"
    assert "bits_per_byte" not in found
    assert main(["evaluate", "encoder", "--streaming"]) == 2


def test_classify(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["classify", "classes", "the cat 3", "a dog"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows] == ["the cat 3", "a dog"]
    assert all(row[0].split()[0] in ("cat", "dog") for row in rows)
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat\n\nthe dog\n"))
    assert main(["classify", "classes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["texts"]
    assert [one["text"] for one in found] == ["the cat", "the dog"]
    assert sum(found[0]["classes"].values()) == pytest.approx(1)


def test_evaluating_a_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "classes", "labels.tsv"]) == 0
    page = capsys.readouterr().out
    assert "95 % interval" in page
    assert "told as" in page
    assert "bag of words for comparison: accuracy" in page
    assert main(["evaluate", "classes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["beside"]["majority"]["n_texts"] == found["n_texts"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fill", "encoder", "no gap"], "no gap"),
        (["fill", "classes", "[MASK]"], "tells classes"),
        (["fill", "encoder", "[MASK]", "--top-k", "0"], "from 1 to"),
        (["classify", "encoder", "x"], "tells no classes"),
        (["classify", "classes"], "no text to classify"),
        (["classify", "classes", "a", "--file", "b"], "not both"),
        (["generate", "encoder", "x"], "has no next token"),
        (["translate", "encoder", "x"], "reads no source"),
        (["train", "text.txt", "--classify", "--quiet"], "rows of one column"),
        (["train", "labels.tsv", "--classify", "--from", "encoder", "--d-model", "8"], "d_model"),
        (["evaluate", "classes", "text.txt"], "rows of one column"),
    ],
)
def test_mistakes(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_looking_and_cards(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    assert main(["look", "encoder", "the cat 3 sat"]) == 0
    assert "looks around" in capsys.readouterr().out
    assert main(["look", "classes", "the cat 3 sat", "--head", "L0.H0"]) == 0
    assert main(["card", "classes"]) == 0
    page = capsys.readouterr().out
    assert "which of 2 classes" in page
    assert "validation accuracy" in page
