"""Training on pairs, evaluating a translator and looking into it, from the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from budgerigar.cli import main
from budgerigar.text.pairs import sentence_pairs

TINY = """
[model]
assembly = "encoder-decoder"
n_encoder_layers = 1
n_decoder_layers = 2
d_model = 16
n_heads = 2
d_ff = 16
context_length = 48

[training]
steps = 3
batch_tokens = 256
bleu_sentences = 4
sample_every = 0
threads = 1
"""
LESSON = "轩辕有一只虎皮鹦鹉"


@pytest.fixture(autouse=True)
def inside(translator_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(translator_folder.parents[1])
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs in each form, and a blank line in one of them."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = sentence_pairs(60, seed=3)
    (folder / "a.zh").write_text("".join(pair.source + "\n" for pair in pairs), "utf-8")
    (folder / "a.en").write_text("".join(pair.target + "\n" for pair in pairs), "utf-8")
    (folder / "gold.txt").write_text("".join(pair.pharaoh + "\n" for pair in pairs), "utf-8")
    rows = "".join(f"{pair.target}\t{pair.source}\n" for pair in pairs)
    (folder / "a.tsv").write_text(rows, "utf-8")
    test = sentence_pairs(5, seed=1, split="test")
    sources, targets = [pair.source for pair in test], [pair.target for pair in test]
    sources[1], targets[3] = "", " "
    (folder / "test.zh").write_text("".join(line + "\n" for line in sources), "utf-8")
    (folder / "test.en").write_text("".join(line + "\n" for line in targets), "utf-8")
    (folder / "tiny.toml").write_text(TINY, "utf-8")
    return folder


# -- train ---------------------------------------------------------------------------------------


def test_train_from_two_files(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    arguments = ["train", "--source", str(files / "a.zh"), "--target", str(files / "a.en")]
    arguments += ["--source-language", "zh", "--target-language", "en", "--out", run]
    assert main([*arguments, "--config", str(files / "tiny.toml")]) == 0
    out, err = capsys.readouterr()
    assert out == f"{run}\n"
    assert f"next: budgie translate {run}" in err
    assert main(["translate", run, "", LESSON, "--max-length", "5"]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert main(["card", run]) == 0
    page = capsys.readouterr().out
    assert "zh → en" in page
    assert "sentence pairs" in page
    assert main(["evaluate", run, "--bootstrap", "0", "--max-length", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["on"] == "its validation pairs"
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    final = next(row for row in map(json.loads, rows) if row["kind"] == "final")
    assert found["loss"]["nats_per_token"] == pytest.approx(final["loss"], rel=1e-6)
    assert found["loss"]["n_tokens"] == final["n_tokens"]


def test_train_from_one_file_in_both_directions(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--pairs", str(files / "a.tsv"), "--config", str(files / "tiny.toml")]
    run = str(tmp_path / "run")
    assert main([*arguments, "--columns", "2,1", "--steps", "1", "--out", run]) == 0
    capsys.readouterr()
    assert main(["evaluate", run, "--pairs", str(files / "a.tsv"), "--columns", "2,1"]) == 0
    assert "60 pairs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--source", "a"], "--source needs --target"),
        (["--target", "a"], "--target needs --source"),
        (["--validation-source", "a"], "--validation-source needs --validation-target"),
        (["my.txt", "--pairs", "a.tsv"], "--recipe t5-tiny"),
        (["--pairs", "a.tsv", "--corpus", "multi30k"], "not both"),
        (["--resume", "last", "--pairs", "a.tsv"], "--pairs cannot be given with it"),
        (["--source", "no.a", "--target", "b", "--recipe", "stories-zh-en"], "no such file"),
        (["--kind", "rnn"], "rnn-encoder-decoder"),
    ],
)
def test_train_refuses(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


# -- evaluate ------------------------------------------------------------------------------------


def test_scores_stand_with_their_signature(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.en"
    pairs = ["--source", str(files / "test.zh"), "--target", str(files / "test.en")]
    assert main(["evaluate", "zh-en", *pairs, "--out", str(out)]) == 0
    page, err = capsys.readouterr()
    assert "3 pairs (2 with a blank side are left out)" in page
    for words in ("BLEU", "chrF2", "TER", "bs:1000|seed:12345", "tok:13a", "95 %:", "beam 4"):
        assert words in page
    assert "perplexity" in page
    assert "Traceback" not in err
    lines = out.read_text("utf-8").split("\n")
    assert len(lines) == 6
    assert lines[1] == ""
    assert lines[3]
    quick = ["--bootstrap", "0", "--tokenize", "char", "--lowercase", "--beam-size", "1"]
    assert main(["evaluate", "zh-en", *pairs, *quick, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_pairs"], found["n_blank"]) == (3, 2)
    assert "tok:char" in found["scores"]["bleu"]["signature"]
    assert "case:lc" in found["scores"]["bleu"]["signature"]
    assert found["options"]["beam_size"] == 1
    assert found["loss"]["n_tokens"] > 3


def test_alignment_errors_of_generated_and_of_given_pairs(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "zh-en", "--alignments"]) == 0
    page = capsys.readouterr().out
    assert "500 sentences" in page
    assert "L1.H1" in page
    pairs = ["--source", str(files / "a.zh"), "--target", str(files / "a.en")]
    gold = str(files / "gold.txt")
    assert main(["evaluate", "zh-en", "--alignments", gold]) == 2
    assert "--source" in capsys.readouterr().err
    assert main(["evaluate", "zh-en", *pairs, "--alignments"]) == 2
    assert "Pharaoh" in capsys.readouterr().err
    links = files / "links.txt"
    links.write_text("0-0\n" * 60)
    assert main(["evaluate", "zh-en", *pairs, "--alignments", str(links), "--json"]) == 0
    heads = json.loads(capsys.readouterr().out)["heads"]
    assert {"L0.H0", "L0.H1", "L1.H0", "L1.H1"} < {row["head"] for row in heads}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["text.txt"], "--source FILE --target FILE"),
        (["--streaming"], "read one by one"),
        (["--source", "test.zh"], "needs --target"),
        (["--source", "test.zh", "--target", "a.en"], "60"),
        (["--pairs", "a.tsv", "--columns", "1"], "columns"),
        (["--source", "test.zh", "--target", "test.en", "--tokenize", "14a"], "13a"),
        (["--source", "empty", "--target", "empty"], "no pair"),
        (["--source", "a.zh", "--target", "a.en", "--corpus", "multi30k"], "not both"),
        (["--corpus", "multi30k"], "has no 'zh'"),
        (["--corpus", "shakespeare"], "not sentence pairs"),
    ],
)
def test_evaluate_refuses(
    flags: list[str],
    words: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    translator_folder: Path,
) -> None:
    (files / "empty").write_text("")
    monkeypatch.chdir(files)
    assert main(["evaluate", str(translator_folder), *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


# -- look ----------------------------------------------------------------------------------------


def test_look_at_a_translation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "zh-en", LESSON]) == 0
    page = capsys.readouterr().out
    assert "(its own)" in page
    for words in ("alignment", "looks across", "predicted → source", "cross-attention", "<end>"):
        assert words in page
    assert main(["look", "zh-en", LESSON, "--target", "Xuanyuan has a budgerigar"]) == 0
    page = capsys.readouterr().out
    assert "(its own)" not in page
    assert "budgerigar ←" in page


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--kind", "self", "--of", "encoder"], "looks around"),
        (["--kind", "self", "--of", "decoder"], "looks back"),
        (["--head", "L1.H0"], "L1.H0 (decoder, cross-attention)"),
        (["--layer", "1", "--of", "encoder"], "L1.H1 (encoder"),
        (["--target", "Xuanyuan has a cat", "--link", "cat", "虎"], "how much"),
        (["--target", "Xuanyuan has a cat", "--step", "cat"], "softmax"),
        (["--surprise"], "nats"),
        (["--head-off", "L0"], "without L0: "),
        (["--head-off", "L0.H0", "--of", "encoder"], "as it is: "),
        (["--no-source"], "without the source: "),
    ],
)
def test_look_at_one_thing(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", "zh-en", LESSON, *flags]) == 0
    assert words in capsys.readouterr().out


def test_a_blanked_source_draws_no_attention_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "zh-en", LESSON, "--no-source"]) == 0
    out, err = capsys.readouterr()
    assert "L0.H0" not in out
    assert "--kind self --of decoder" in err
    assert main(["look", "zh-en", LESSON, "--no-source", "--kind", "self", "--of", "decoder"]) == 0
    assert "looks back" in capsys.readouterr().out


def test_what_comes_next_with_and_without_the_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["look", "zh-en", LESSON, "--prefix", "Xuanyuan has a"]
    assert main(flags) == 0
    sure = capsys.readouterr().out
    assert "what the model guesses next" in sure
    assert main([*flags, "--no-source"]) == 0
    page = capsys.readouterr().out
    assert "as it is" in page
    assert "without the source" in page
    first = page[page.index("as it is") :].split("\n")[1].split()
    assert first[0] == "␣budgerigar"
    assert float(first[1]) > 0.5
    assert float(first[3]) < 0.5


@pytest.mark.parametrize("name", ["a.svg", "a.html"])
def test_look_draws_a_translation(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    assert main(["look", "zh-en", LESSON, "--head", "L0.H0", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip().endswith(str(out))
    assert out.stat().st_size > 1000


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "alignment by cross-attention"),
        (["--grid"], "all heads"),
        (["--kind", "cross"], "heads"),
    ],
)
def test_look_draws_the_alignment_unless_heads_are_asked_for(
    flags: list[str], words: str, tmp_path: Path
) -> None:
    out = tmp_path / "a.svg"
    assert main(["look", "zh-en", LESSON, *flags, "--out", str(out)]) == 0
    drawn = out.read_text("utf-8")
    assert words in drawn
    assert ("alignment" in drawn) == (not flags)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--kind", "self"], "--of encoder or --of decoder"),
        (["--kind", "cross", "--of", "encoder"], "no attention"),
        (["--target", "x", "--prefix", "y"], "give one of them"),
        (["--head", "L7.H0"], "no layer 7"),
        (["--kind", "crossed"], "did you mean cross"),
    ],
)
def test_look_refuses(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "zh-en", LESSON, *flags]) == 2
    assert words in capsys.readouterr().err
