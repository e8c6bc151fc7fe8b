"""`train` from sentence pairs to a run folder: kinds of model, vocabularies, fine-tuning, plans."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.evaluation.pairs import evaluate_pairs
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.run import load_model
from budgerigar.training.corpora import gather_corpus
from budgerigar.training.given import Given
from budgerigar.training.pair_corpora import for_other_pairs
from budgerigar.training.plan import make_plan
from budgerigar.training.recipe import Recipe, recipe_from_dict
from budgerigar.training.run import train

TINY: dict[str, Any] = {
    "text": {"tokenizer": "word", "source_language": "de", "target_language": "en"},
    "model": {
        "assembly": "encoder-decoder", "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 32,
        "context_length": 16, "positions": "sinusoidal", "dropout_residual": 0.1,
    },
    "training": {
        "steps": 6, "batch_tokens": 64, "evaluate_every": 3, "label_smoothing": 0.1, "threads": 1,
        "bleu_sentences": 4, "log_every": 1, "precision": "float32",
    },
}  # fmt: skip
RNN = {
    "kind": "rnn-encoder-decoder", "d_embedding": 12, "d_hidden": 12, "context_length": 16,
}  # fmt: skip


def recipe(**parts: dict[str, Any]) -> Recipe:
    merged = {name: {**values, **parts.get(name, {})} for name, values in TINY.items()}
    if "kind" in parts.get("model", {}):
        merged["model"] = parts["model"]
    return recipe_from_dict(merged)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Sums of words: the target says the source backwards."""
    rng = random.Random(1)
    words = ["eins", "zwei", "drei", "vier"]
    lines = list({" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(90)})
    lines.sort()
    (tmp_path / "a.de").write_text("\n".join(lines) + "\n", encoding="utf-8")
    backwards = [" ".join(reversed(line.split())) for line in lines]
    (tmp_path / "a.en").write_text("\n".join(backwards) + "\n", encoding="utf-8")
    return {"source": tmp_path / "a.de", "target": tmp_path / "a.en"}


@pytest.mark.parametrize("model", [{}, RNN], ids=["transformer", "rnn"])
def test_the_folder_is_complete_and_loads(
    tmp_path: Path, files: dict[str, Path], model: dict[str, Any]
) -> None:
    run = train(recipe(model=model) if model else recipe(), **files, out=tmp_path / "run")
    config = json.loads((run.folder / "config.json").read_text("utf-8"))
    text = config["text"]
    assert text["pairs"] is True
    assert (text["source_language"], text["target_language"]) == ("de", "en")
    assert text["source_files"] == [str(files["source"].resolve())]
    assert config["model"]["decoder_start"] == run.tokenizer.end_id
    assert not (run.folder / "source_tokenizer.json").exists()
    loaded = load_model(run.folder)
    assert loaded.source_tokenizer is loaded.tokenizer
    inputs = {"tokens": torch.tensor([[0, 1]]), "source": torch.tensor([[2, 3, 0]])}
    inputs["source_lengths"] = torch.tensor([3])
    assert torch.equal(loaded.network(**inputs), run.network(**inputs))

    corpus = gather_corpus(recipe().text, Given(**files), pairs=True)
    evaluation = read_metrics(run.folder / "metrics.jsonl", "evaluation")[-1]
    final = read_metrics(run.folder / "metrics.jsonl", "final")[-1]
    found = evaluate_pairs(run.network, corpus.validation)
    assert final["loss"] == pytest.approx(found.nats_per_token, rel=1e-6)
    assert evaluation["n_tokens"] == found.n_tokens == corpus.validation.n_tokens
    assert 0 <= evaluation["bleu"] <= 100
    for entry in read_metrics(run.folder / "metrics.jsonl", "step"):
        assert entry["smoothed_loss"] > 0
        assert entry["smoothed_loss"] != entry["loss"]
    shown = read_metrics(run.folder / "metrics.jsonl", "sample")[-1]["translations"]
    assert {"source", "reference", "hypothesis"} == set(shown[0])
    assert shown[0]["reference"].split() == list(reversed(shown[0]["source"].split()))


def test_the_page_shows_translations_and_bleu(tmp_path: Path, files: dict[str, Path]) -> None:
    run = train(recipe(), **files, out=tmp_path / "run")
    page = (run.folder / "report.html").read_text("utf-8")
    shown = read_metrics(run.folder / "metrics.jsonl", "sample")[-1]["translations"]
    assert shown[0]["source"] in page
    assert page.count("<svg") == 2  # loss and BLEU
    assert "BLEU" in page
    assert "--source" in page
    assert "--target" in page


def test_two_vocabularies_have_two_files(tmp_path: Path, files: dict[str, Path]) -> None:
    text = {"vocabulary": "separate", "source_tokenizer": "character"}
    run = train(recipe(text=text), **files, out=tmp_path / "run")
    loaded = load_model(run.folder)
    assert (loaded.source_tokenizer.kind, loaded.tokenizer.kind) == ("character", "word")
    assert run.source_tokenizer.fingerprint == loaded.source_tokenizer.fingerprint
    config = loaded.network.config
    assert config.source_vocab_size == loaded.source_tokenizer.vocab_size
    assert config.vocab_size == loaded.tokenizer.vocab_size
    assert not config.shared_embeddings
    more = train(resume=run.folder, settings={"steps": 7})
    assert more.report["step"] == 7


def test_other_sources_of_pairs(tmp_path: Path, files: dict[str, Path]) -> None:
    """A table with its validation in another; and the generated pairs, in either direction."""
    lines = [path.read_text("utf-8").splitlines() for path in files.values()]
    table = tmp_path / "both.tsv"
    rows = ["de\ten", *("\t".join(both) for both in zip(*lines, strict=True))]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    asked = recipe(text={"columns": "de,en"})
    run = train(asked, pairs=table, validation_pairs=table, out=tmp_path / "table")
    text = json.loads((run.folder / "config.json").read_text("utf-8"))["text"]
    assert text["train_pairs"] == text["validation_pairs"] == len(lines[0])
    assert train(resume=run.folder, settings={"steps": 7}).report["step"] == 7
    stories = recipe(
        text={"corpus": "stories", "n_pairs": 30, "tokenizer": "byte", "source_language": "en",
              "target_language": "zh"},
        model={"context_length": 128},
        training={"batch_tokens": 512, "steps": 1, "bleu_sentences": 0, "sample_every": 0},
    )  # fmt: skip
    run = train(stories, out=tmp_path / "stories")
    assert json.loads((run.folder / "config.json").read_text("utf-8"))["text"]["pairs"]


def test_pairs_that_are_too_long_are_counted(
    tmp_path: Path, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source = files["source"].read_text("utf-8") + "lang " * 40 + "\n"
    files["source"].write_text(source, encoding="utf-8")
    with open(files["target"], "a", encoding="utf-8") as file:
        file.write("long\n")
    split = {f"validation_{name}": path for name, path in files.items()}
    train(recipe(training={"steps": 1}), **files, **split, out=tmp_path / "run")
    assert "1 of " in capsys.readouterr().err


def test_what_does_not_fit_together_is_said(tmp_path: Path, files: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="pairs"):
        train(recipe(), [files["source"]], out=tmp_path / "run")
    with pytest.raises(UserError, match="encoder-decoder"):
        train("shakespeare", **files, out=tmp_path / "run")
    with pytest.raises(UserError, match="no sentence pairs"):
        train(recipe(), out=tmp_path / "run")
    with pytest.raises(UserError, match="needs --target"):
        train(recipe(), source=files["source"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_fine_tuning_keeps_vocabularies(
    tmp_path: Path, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first = train(recipe(), **files, out=tmp_path / "first")
    other = {name: tmp_path / f"b.{path.suffix}" for name, path in files.items()}
    for name, path in files.items():
        text = path.read_text("utf-8").replace("vier", "fünf")
        other[name].write_text(text, encoding="utf-8")
    gentle = {"steps": 1, "learning_rate": 1e-9, "weight_decay": 0.0, "threads": 1}
    second = train(recipe(), **other, out=tmp_path / "second", start_from=first.folder,
                   settings=gentle)  # fmt: skip
    assert second.tokenizer.fingerprint == first.tokenizer.fingerprint
    for one, two in zip(first.network.parameters(), second.network.parameters(), strict=True):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=0)
    planned = train(None, **other, out=tmp_path / "third", start_from=first.folder,
                    settings={"steps": 1, "threads": 1})  # fmt: skip
    dropouts = {n: v for n, v in vars(first.network.config).items() if n.startswith("dropout")}
    assert planned.network.config.replace(**dropouts) == first.network.config  # the plan's own
    with pytest.raises(UserError, match="source language"):
        train(recipe(text={"source_language": "fr"}), **other, start_from=first.folder)
    swapped = {"source": other["target"], "target": other["source"]}  # by the names b.de and b.en
    unsaid = recipe(text={"source_language": None, "target_language": None})
    with pytest.raises(UserError, match=r"'de' as its source language, and this is 'en'"):
        train(unsaid, **swapped, start_from=first.folder)
    with pytest.raises(UserError, match="kind"):
        train(recipe(model=RNN), **other, start_from=first.folder)
    with pytest.raises(UserError, match="learnt from sentence pairs"):
        train("shakespeare", [files["source"]], start_from=first.folder)
    with pytest.raises(UserError, match="vocabulary cannot be given"):
        train(recipe(), **other, start_from=first.folder, settings={"vocabulary": "separate"})


def test_other_pairs_have_languages_of_their_own(files: dict[str, Path]) -> None:
    """Those of a recipe are its own corpus's: with zh for English, BLEU would cut characters."""
    asked = recipe(text={"corpus": "multi30k"})

    def languages(*how: Any) -> tuple[Any, Any]:
        text = for_other_pairs(asked, *how).text
        return text.source_language, text.target_language

    assert languages(False, None) == languages(False, "multi30k") == ("de", "en")
    assert languages(True, None) == languages(False, "tatoeba") == (None, None)
    assert for_other_pairs(recipe(), True, None) == recipe()  # no corpus: said of any pairs
    found = gather_corpus(for_other_pairs(asked, True, None).text, Given(**files), pairs=True)
    assert (found.source_language, found.target_language) == ("de", "en")


def test_a_plan_for_pairs(files: dict[str, Path]) -> None:
    plan = make_plan(Given(**files), minutes=0.02, settings={"threads": 1, "context_length": 32})
    assert plan.recipe.reads_pairs
    assert plan.recipe.model["d_model"] <= 96
    assert 1 <= plan.steps == plan.recipe.training.steps
    words = plan.text()
    assert "de to en" in words
    assert "BLEU" in words
    assert "nan" not in words
