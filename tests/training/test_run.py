"""`train` from a text to a run folder: every kind of model, plans, fine-tuning, reports."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.evaluation import evaluate
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.run import load_model
from budgerigar.training.corpora import gather_corpus
from budgerigar.training.device import computes_bfloat16
from budgerigar.training.plan import make_plan
from budgerigar.training.recipe import load_recipe, recipe_from_dict
from budgerigar.training.run import next_folder, train

TEXT = (
    "\n\n".join(f"A {c} sat on a {d}.\nIt was {c}." for c in "abcdefgh" for d in "stuvwxyz") + "\n"
)
TINY: dict[str, Any] = {"d_model": 16, "n_layers": 1, "n_heads": 2, "context_length": 32}
QUICK: dict[str, Any] = {**TINY, "threads": 1, "steps": 8, "evaluate_every": 4, "sample_tokens": 5}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_folder_is_complete_and_loads(tmp_path: Path, text: Path) -> None:
    run = train("shakespeare", [text], out=tmp_path / "run", settings=QUICK)
    names = {p.name for p in run.folder.iterdir()}
    wanted = {"config.json", "tokenizer.json", "model.safetensors", "recipe.toml", "metrics.jsonl"}
    assert wanted | {"checkpoints", "report.html"} <= names
    config = json.loads((run.folder / "config.json").read_text())
    assert config["text"]["sources"][0]["sha256"]
    assert config["text"]["starts_documents"] is False
    loaded = load_model(run.folder)
    ids = torch.tensor([loaded.tokenizer.encode("A a sat")])
    assert torch.equal(loaded.network(ids), run.network(ids))
    evaluation = read_metrics(run.folder / "metrics.jsonl", "evaluation")[-1]
    assert run.report["evaluation"]["nats_per_token"] == pytest.approx(evaluation["loss"])


def test_an_ngram_trains_through_the_same_call(tmp_path: Path, text: Path) -> None:
    run = train("ngram", [text], out=tmp_path / "n", settings={"order": 3})
    assert run.report["finished"]
    assert run.report["best_loss"] < math.log(run.tokenizer.vocab_size)
    assert load_model(run.folder).network.config.order == 3
    (tmp_path / "short.txt").write_text("abcab\ncabca\n")
    short = train("ngram", [tmp_path / "short.txt"], out=tmp_path / "s", settings={"order": 40})
    assert load_model(short.folder).network.config.order == 10  # tokens to learn from
    assert (run.folder / "report.html").is_file()
    with pytest.raises(UserError, match="nothing to resume"):
        train(resume=run.folder)
    (run.folder / "model.safetensors").unlink()  # as when it was killed
    with pytest.raises(UserError, match="remove the folder and train again"):
        load_model(run.folder)


def test_documents_are_kept_apart(tmp_path: Path, text: Path) -> None:
    settings = {**QUICK, "documents": "blank-lines", "tokenizer": "character"}
    run = train("shakespeare", [text], out=tmp_path / "run", settings=settings)
    config = json.loads((run.folder / "config.json").read_text())
    assert config["text"]["starts_documents"] is True
    assert config["text"]["end_id"] == run.tokenizer.end_id
    assert read_metrics(run.folder / "metrics.jsonl", "sample")


def test_generated_stories_train_without_a_file(tmp_path: Path) -> None:
    settings = {**QUICK, "n_stories": 40, "baselines": False}
    run = train("stories", out=tmp_path / "s", settings=settings)
    assert run.tokenizer.kind == "word"
    more = train(resume=run.folder, settings={"steps": 10})
    assert more.report["step"] == 10


def test_a_text_shorter_than_the_context_shrinks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "short.txt"
    short.write_text("abcabcabc abc abc\n")
    settings = {**QUICK, "context_length": 64, "tokenizer": "character"}
    run = train("shakespeare", [short], out=tmp_path / "r", settings=settings)
    assert run.network.context_length < 17
    assert "instead of 64" in capsys.readouterr().err


def test_no_text_at_all_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no text"):
        train("nanogpt-char-cpu", out=tmp_path / "r")


def test_a_budget_in_minutes_becomes_steps_once(tmp_path: Path, text: Path) -> None:
    settings = {**QUICK, "steps": None, "baselines": False}
    run = train("shakespeare", [text], out=tmp_path / "r", minutes=0.005, settings=settings)
    assert run.report["step"] == run.report["total_steps"] >= 1
    stored = recipe_from_dict(load_model(run.folder).recipe or {})
    assert stored.training.steps == run.report["total_steps"]


def test_fine_tuning_keeps_vocabulary_and_shape(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**QUICK, "tokenizer": "character"}
    first = train("shakespeare", [text], out=tmp_path / "first", settings=settings)
    other = tmp_path / "other.txt"
    other.write_text(TEXT.replace("sat", "stood é") * 2, encoding="utf-8")
    start = {"steps": 1, "learning_rate": 1e-9, "muon_learning_rate": 1e-9, "threads": 1}
    start |= {"embedding_learning_rate": 1e-9, "head_learning_rate": 1e-9, "dropout_ff": 0.25}
    second = train(
        "shakespeare", [other], out=tmp_path / "second", start_from=first.folder, settings=start
    )
    assert "vocabulary" in capsys.readouterr().err
    assert second.tokenizer.fingerprint == first.tokenizer.fingerprint
    assert second.network.config == first.network.config.replace(dropout_ff=0.25)
    for one, two in zip(first.network.parameters(), second.network.parameters(), strict=True):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=0)
    more = train(resume=second.folder, settings={"steps": 3})
    assert more.report["step"] == 3


def test_fine_tuning_says_what_is_new_and_refuses_another_shape(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**QUICK, "steps": 1, "tokenizer": "character"}
    first = train("shakespeare", [text], out=tmp_path / "first", settings=settings)
    other = tmp_path / "other.txt"
    other.write_text("轩辕有一只虎皮鹦鹉。\n" * 30, encoding="utf-8")
    capsys.readouterr()
    second = train(
        None, [other], out=tmp_path / "second", start_from=first.folder, settings={"steps": 1}
    )
    said = capsys.readouterr().err
    assert "% of the tokens are new to it" in said
    assert "byte by byte" in said
    assert not second.tokenizer.never_seen[second.tokenizer.encode("轩")].any()
    for name, value in (("d_model", 32), ("tokenizer", "bpe"), ("norm", "layer")):
        for recipe in (None, "shakespeare"):
            with pytest.raises(UserError, match=f"{name} cannot be given"):
                train(recipe, [text], start_from=first.folder, settings={name: value})


def test_an_ngram_has_no_weights_to_start_from(tmp_path: Path, text: Path) -> None:
    counted = train("ngram", [text], out=tmp_path / "counted")
    with pytest.raises(UserError, match="no weights to start"):
        train(None, [text], start_from=counted.folder)


@pytest.mark.parametrize("minutes", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("recipe", [None, "shakespeare"])
def test_no_time_at_all_is_refused(text: Path, recipe: str | None, minutes: float) -> None:
    with pytest.raises(UserError, match="minutes"):
        train(recipe, [text], minutes=minutes)


def test_steps_asked_for_win_over_minutes_wherever_they_stand(tmp_path: Path, text: Path) -> None:
    nested = {"training": {"steps": 2, "threads": 1}, "model": TINY}
    run = train("shakespeare", [text], out=tmp_path / "run", minutes=5, settings=nested)
    assert run.report["total_steps"] == 2


@pytest.mark.parametrize("recipe", [None, "shakespeare"])
def test_an_encoder_decoder_on_a_plain_text_leaves_nothing_behind(
    tmp_path: Path, text: Path, recipe: str | None
) -> None:
    with pytest.raises(UserError, match="decoder-only"):
        train(recipe, [text], out=tmp_path / "run", settings={"assembly": "encoder-decoder"})
    assert not (tmp_path / "run").exists()


def test_the_plan_says_why_it_is_so_long_and_forecasts_only_what_it_can(
    text: Path,
) -> None:
    plan = make_plan([text], minutes=1, settings={**TINY, "steps": 1, "threads": 1})
    assert "the steps that were asked for" in plan.reasons["time"]
    assert "1 step of" in plan.reasons["training"]
    assert "1 layer, 2 heads" in plan.reasons["model"]
    assert "n-gram" in plan.reasons["to expect"]
    bare = make_plan([text], minutes=1, settings={**TINY, "steps": 1, "baselines": False})
    assert "nan" not in bare.text()


def test_settings_without_effect_are_said(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**QUICK, "steps": 1, "optimizer": "adamw", "muon_steps": 3, "language": "zh"}
    train("shakespeare", [text], out=tmp_path / "run", settings=settings)
    said = capsys.readouterr().err
    assert "--muon-steps has no effect here: it is for optimizer muon" in said
    assert "--language has no effect here" in said
    assert "--threads" not in said


def test_a_finished_run_says_how_to_train_on(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train("shakespeare", [text], out=tmp_path / "run", settings={**QUICK, "steps": 2})
    train(resume=run.folder)
    assert "--steps 4" in capsys.readouterr().err


def test_without_a_recipe_a_plan_is_made(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"steps": 6, "threads": 1, "n_layers": 1}
    run = train(None, [text], out=tmp_path / "p", minutes=0.05, settings=settings)
    said = capsys.readouterr().err
    assert "to expect" in said
    assert run.report["total_steps"] == 6
    assert run.network.config.n_layers == 1


def test_plans_grow_with_time_and_text(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from budgerigar.training import plan

    def corpus(tokens: int) -> Any:
        store = SimpleNamespace(n_tokens=tokens)
        return SimpleNamespace(train=store, n_documents=0, tokenizer=SimpleNamespace(vocab_size=65))

    sizes = [plan._shape(corpus(1_000_000), minutes, 1e11)["d_model"] for minutes in (1, 10, 100)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    short = plan._shape(corpus(30), 10, 1e11)
    assert (short["d_model"], short["context_length"]) == (64, 29)


@pytest.fixture
def known_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgerigar.training.plan.measure_speed", lambda: 1e10)


@pytest.mark.usefixtures("known_speed")
def test_a_plan_as_data(text: Path) -> None:
    found = make_plan([text], minutes=0.02, settings={"threads": 1, "d_model": 48})
    assert found.recipe.model["n_heads"] == 1
    assert found.recipe.training.steps == found.steps
    assert found.as_dict()["baselines"]["uniform"] == pytest.approx(
        math.log(found.corpus.tokenizer.vocab_size)
    )
    assert "to expect" in found.text()


@pytest.mark.usefixtures("known_speed")
def test_adamw_in_a_plan_gets_rates_of_its_own(text: Path) -> None:
    found = make_plan([text], minutes=0.01, settings={"threads": 1, "optimizer": "adamw"})
    t = found.recipe.training
    assert (t.learning_rate, t.embedding_learning_rate) == (2e-3, None)


def test_names_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert next_folder("x") == Path("runs/x-1")
    (tmp_path / "runs" / "x-1").mkdir(parents=True)
    assert next_folder("x") == Path("runs/x-2")


def test_the_yardsticks_parameters_are_nanogpts() -> None:
    """nanoGPT prints 0.80 M without the position table; 804,096 - 64 x 128 = 795,904 in all."""
    from budgerigar import models

    network = models.build(load_recipe("nanogpt-char-cpu").model_config(65))
    assert sum(p.numel() for p in network.parameters()) == 804_096


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.timeout(900)
def test_every_difficult_file_trains_or_says_why(tmp_path: Path, data_folder: Path) -> None:
    """20 steps with no option but the file; else a message, never a traceback of another kind."""
    settings: dict[str, Any] = {"steps": 20, "threads": 1, "sample_tokens": 5}
    refused = []
    for number, file in enumerate(sorted((data_folder / "difficult").glob("*"))):
        if file.name == "manifest.json":
            continue
        out = tmp_path / str(number)
        try:
            run = train(None, [file], out=out, minutes=0.05, settings=settings)
        except UserError as error:
            advice = re.search(r"--encoding (\S+)", str(error))
            if advice is None:
                refused.append(file.name)
                continue
            told = {**settings, "encoding": advice[1]}
            run = train(None, [file], out=out, minutes=0.05, settings=told)
        assert run.report["step"] == 20
    assert refused == ["cut_in_character.txt", "empty.txt", "invalid_utf8.txt", "one_char.txt"]


def test_what_is_reported_at_the_end_is_the_whole_split(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Evaluating on a part along the way says so; the run's number is over every token."""
    run = train(
        "shakespeare", [text], out=tmp_path / "run", settings={**QUICK, "evaluation_tokens": 50}
    )
    corpus = gather_corpus(load_recipe(run.folder / "recipe.toml").text, [text])
    want = evaluate(load_model(run.folder).network, corpus.validation)
    final = read_metrics(run.folder / "metrics.jsonl", "final")
    assert [e["n_tokens"] for e in final] == [corpus.validation.n_tokens - 1]
    assert final[0]["loss"] == pytest.approx(want.nats_per_token, rel=1e-6)
    assert f"{final[0]['loss']:.4f}" in (run.folder / "report.html").read_text()
    parts = {e["n_tokens"] for e in read_metrics(run.folder / "metrics.jsonl", "evaluation")}
    assert parts == {49}
    said = capsys.readouterr().err
    assert f"on the first 50 of {corpus.validation.n_tokens} tokens" in said
    assert f"{want.nats_per_token:.4f} nats per token" in said
    assert said.count("it writes:") == len(read_metrics(run.folder / "metrics.jsonl", "sample")) > 0


def test_the_precision_that_was_chosen_is_stored(tmp_path: Path, text: Path) -> None:
    """ "auto" looks at the hardware; a run that goes on elsewhere must not choose anew."""
    settings = {**QUICK, "precision": "auto"}
    run = train("shakespeare", [text], out=tmp_path / "run", settings=settings)
    stored = load_recipe(run.folder / "recipe.toml").training.precision
    hardware = computes_bfloat16(torch.device("cpu"))
    assert stored == ("bfloat16" if hardware else "float32")
