"""A tiny comparison end to end; the words and the sizes by hand."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from budgerigar import models
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.evaluation import evaluate
from budgerigar.experiments import compare_models
from budgerigar.experiments.compare import Comparison, compare
from budgerigar.experiments.compare_measure import Result, by_context, context_labels
from budgerigar.experiments.compare_models import Asked, count_parameters, fitting
from budgerigar.experiments.compare_words import best_so_far, lead, paired_error, verdict
from budgerigar.formats.run import load_model
from budgerigar.text.corpus import prepare
from budgerigar.training.recipe import TextRecipe, load_recipe

TEXT = "the cat sat on the mat . the dog sat on the log . a bird sang . " * 40
ASKED = Asked(("ngram", "rnn", "gpt"), None, 60_000, 0.3, 32, 1, "cpu", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def found(place: Path) -> Comparison:
    text = TextRecipe(tokenizer="character")
    return compare([place / "text.txt"], text, ASKED, place / "all")


def test_one_measure_for_all(found: Comparison, place: Path) -> None:
    corpus = prepare(place / "text.txt", tokenizer="character")
    assert [one.name for one in found.results] == ["ngram", "rnn", "gpt"]
    for one in found.results:
        network = load_model(place / "all" / one.name).network
        again = evaluate(network, corpus.validation, context_length=32)
        assert one.bits_per_byte == pytest.approx(again.bits_per_byte, rel=1e-4)
        assert sum(one.window_nats) == pytest.approx(again.nats, rel=1e-4)
        assert one.carried_bytes > 0
        assert one.generation_tokens_per_second > 0
        assert one.curve
        if one.name != "ngram":
            assert one.parameters == pytest.approx(60_000, rel=0.03)


def test_files(found: Comparison) -> None:
    lines = list(csv.DictReader((found.folder / "table.csv").open()))
    assert [line["name"] for line in lines] == ["ngram", "rnn", "gpt"]
    page = (found.folder / "compare.html").read_text()
    assert page.count("<svg") == 2
    outside = page.replace("http://www.w3.org", "").replace("http://purl.org", "")
    outside = outside.replace("https://matplotlib.org", "").replace("http://creativecommons", "")
    assert "http" not in outside  # namespaces aside, nothing is asked of any host
    assert (found.folder / "time.png").stat().st_size > 1000
    assert json.dumps(found.as_dict())
    assert "wins" in str(found) or "No clear winner" in str(found)


def test_what_is_finished_is_not_done_again(
    found: Comparison, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budgerigar.training.run.train", None)
    files = [place / "text.txt"]
    text = TextRecipe(tokenizer="character")
    assert compare(files, text, ASKED, found.folder).results == found.results
    with pytest.raises(UserError, match="another parameters"):
        compare(files, text, dataclasses.replace(ASKED, parameters=9000), found.folder)
    with pytest.raises(UserError, match="no comparison"):
        compare(files, text, ASKED, place)
    for name in ("rnn/results.json", "compare.json"):
        kept = (found.folder / name).read_text()
        (found.folder / name).write_text(kept[:30])
        with pytest.raises(UserError, match="is damaged"):
            compare(files, text, ASKED, found.folder)
        (found.folder / name).write_text(kept)


def test_the_command_goes_on_where_it_stopped(
    found: Comparison, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", str(place / "text.txt"), "--tokenizer", "character", "--threads", "1"]
    arguments += ["--models", "ngram,rnn,gpt", "--parameters", "60_000", "--passes", "0.3"]
    arguments += ["--context-length", "32", "--device", "cpu", "--out", str(found.folder), "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["name"] == "ngram"
    assert main(["compare", "no/such.txt"]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["compare", "--models", "ngram"]) == 2
    assert "no text" in capsys.readouterr().err
    arguments = ["compare", "x.txt", "--probe", "parallel", "--minutes", "1", "--seed", "-1"]
    assert main([*arguments, "--passes", "1", "--tokenizer", "character"]) == 2
    said = capsys.readouterr().err
    for flag in ("the text", "--minutes", "--passes", "--tokenizer"):
        assert f"note: {flag} has no effect on --probe parallel" in said


def test_all_wrong_wishes_at_once() -> None:
    with pytest.raises(UserError) as error:
        Asked(("ngram", "lstmm"), minutes=0, parameters=-1, passes=1).validate()
    for part in ("lstmm", "minutes = 0", "parameters = -1", "one of them"):
        assert part in str(error.value)


@pytest.mark.parametrize("name", ["feed-forward", "rnn", "lstm", "gru", "gpt"])
def test_equal_parameters(name: str, place: Path) -> None:
    corpus = prepare(place / "text.txt", tokenizer="character")
    recipe = load_recipe(compare_models.RECIPES[name])
    config = recipe.model_config(
        corpus.tokenizer.vocab_size, **fitting(recipe, corpus, 400_000)
    ).validate()
    assert count_parameters(config) == pytest.approx(400_000, rel=0.02)
    with torch.device("meta"):
        built = models.build(config)
    assert sum(p.numel() for p in built.parameters()) == count_parameters(config)


def test_by_context_groups(place: Path) -> None:
    corpus = prepare(place / "text.txt", tokenizer="character")
    n = corpus.validation.n_tokens - 1
    sizes = np.arange(n) % 8 + 1
    found = by_context(sizes.astype(float), corpus.validation, 8)
    assert found == pytest.approx((1.0, 2.5, 6.0 if n % 8 == 0 else found[2]))
    assert context_labels(8) == ["1", "2-3", "4-8"]


def result(name: str, curve: list[tuple[float, float]], windows: list[float]) -> Result:
    bits = sum(windows) / 100
    return Result(
        name, "", 10, curve[-1][0], 100, 10.0, bits, bits, 0.01, bits, 0.01, 5.0, 8,
        tuple(curve), (), "", tuple(windows),
    )  # fmt: skip


def test_the_verdict_by_hand() -> None:
    ngram = result("ngram", [(1.0, 2.0)], [50.0, 60.0, 52.0, 40.0])
    gpt = result("gpt", [(0.5, 3.0), (4.0, 1.9), (9.0, 1.5)], [45.0, 54.0, 47.0, 35.0])
    rnn = result("rnn", [(2.0, 2.5), (8.0, 2.2)], [55.0, 66.0, 57.0, 46.0])
    error = paired_error(ngram, gpt, 100)
    assert error == pytest.approx(2 * np.std([5, 6, 5, 5], ddof=1) / 100)
    assert lead([ngram, gpt, rnn]) == [(0.5, "gpt"), (1.0, "ngram"), (4.0, "gpt")]
    found = Comparison("x", Asked(), 25, 100, 1000, (ngram, gpt, rnn), Path("x"))
    said = " ".join(verdict(found))
    assert "gpt wins: 1.8100 bits per byte (windowed), 0.2100 ± 0.0100 less than ngram" in said
    assert "gpt passes the n-gram after 4.0 s" in said
    assert "rnn does not pass the n-gram" in said
    worse = [(1.0, 3.0), (2.0, 2.0), (3.0, 2.5), (4.0, 1.0)]
    assert best_so_far(worse) == [(1.0, 3.0), (2.0, 2.0), (3.0, 2.0), (4.0, 1.0)]
    close = dataclasses.replace(gpt, window_nats=(40.0, 70.0, 40.0, 51.0), bits_per_byte=2.01)
    found = dataclasses.replace(found, results=(ngram, close))
    assert verdict(found)[0].startswith("No clear winner")
