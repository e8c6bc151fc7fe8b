"""Runs of encoders and T5: stopped and gone on with, measured, looked at, the start of others."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import budgerigar as bg
from budgerigar.errors import UserError
from budgerigar.formats.checkpoints import read_latest_checkpoint
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.run import load_model
from budgerigar.training.recipe import Recipe, load_recipe, recipe_from_dict, recipe_path, to_toml
from budgerigar.training.report import warnings_of
from budgerigar.training.run import train

SMALL: dict[str, Any] = {
    "d_model": 16,
    "n_layers": 1,
    "n_heads": 2,
    "d_ff": 32,
    "context_length": 16,
}
TRAINING: dict[str, Any] = {
    "steps": 14, "batch_size": 4, "batch_tokens": 64, "accumulate": 2, "evaluate_every": 5,
    "log_every": 1, "checkpoint_every": 4, "sample_every": 7, "threads": 1, "seed": 5,
    "precision": "float32", "optimizer": "muon", "average": "ema",
}  # fmt: skip
ENCODER = {"assembly": "encoder-only", **SMALL, "dropout_residual": 0.1}
BOTH = {"assembly": "encoder-decoder", **SMALL, "positions": "relative", "dropout_residual": 0.1}
CASES: dict[str, dict[str, Any]] = {
    "words": {"model": ENCODER, "training": {"objective": "masked-words", "whole_words": True}},
    "spans": {"model": BOTH, "training": {"objective": "span-corruption"}},
    "tasks": {"model": BOTH, "training": {"objective": "span-corruption"},
              "text": {"columns": "1,2,3"}},
    "classes": {"model": {**ENCODER, "token_head": False},
                "training": {"objective": "classification", "best_by": "accuracy"}},
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Documents between blank lines, labelled texts, and tasks in three columns."""
    rng = random.Random(1)
    animals = ["cat", "dog", "fox", "hen"]
    lines = [f"the {rng.choice(animals)} number {n} sat on mat {n % 9} ." for n in range(60)]
    made = {name: tmp_path / name for name in ("text.txt", "labels.tsv", "tasks.tsv")}
    made["text.txt"].write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"{'even' if n % 2 == 0 else 'odd'}\t{line}" for n, line in enumerate(lines)]
    made["labels.tsv"].write_text("\n".join(["label\ttext", *rows]) + "\n", encoding="utf-8")
    tasks = [
        f"copy\tthe {n} fox\tthe {n} fox\nreverse\tthe {n} hen\then {n} the" for n in range(30)
    ]
    made["tasks.tsv"].write_text("\n".join(tasks) + "\n", encoding="utf-8")
    return made


def recipe(case: str, **training: Any) -> Recipe:
    parts = CASES[case]
    text = {"tokenizer": "word", "documents": "blank-lines", **parts.get("text", {})}
    if case == "classes":
        del text["documents"]
    values = {"text": text, "model": parts["model"]}
    return recipe_from_dict({**values, "training": {**TRAINING, **parts["training"], **training}})


def start(
    case: str, files: dict[str, Path], out: Path, callbacks: Any = (), **training: Any
) -> Any:
    own = files["labels.tsv" if case == "classes" else "text.txt"]
    pairs: dict[str, Any] = {"pairs": files["tasks.tsv"]} if case == "tasks" else {}
    return train(recipe(case, **training), [own], out=out, callbacks=callbacks, **pairs)


class StopAt:
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, event: Any) -> bool:
        return bool(event.step == self.step)


def history(folder: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in e.items() if k != "clock"} for e in read_metrics(folder / "metrics.jsonl")
    ]


@pytest.mark.parametrize("case", CASES)
def test_stopped_twice_equals_never_stopped(
    tmp_path: Path, files: dict[str, Path], case: str
) -> None:
    start(case, files, tmp_path / "whole")
    assert not start(case, files, tmp_path / "parts", [StopAt(6)]).report["finished"]
    train(resume=tmp_path / "parts", callbacks=[StopAt(11)])
    assert train(resume=tmp_path / "parts").report["finished"]
    assert history(tmp_path / "whole") == history(tmp_path / "parts")
    ends = [read_latest_checkpoint(tmp_path / name) for name in ("whole", "parts")]
    for tensors in ("weights", "training"):
        one, other = (getattr(end, tensors) for end in ends)
        assert one.keys() == other.keys()
        assert not [k for k in one if not torch.equal(one[k], other[k])]


def test_looking_more_often_changes_nothing(tmp_path: Path, files: dict[str, Path]) -> None:
    for case in ("words", "spans"):
        start(case, files, tmp_path / f"{case}-1", steps=6, evaluate_every=6, sample_every=0)
        start(case, files, tmp_path / f"{case}-2", steps=6, evaluate_every=2, sample_every=2)
        ends = [read_latest_checkpoint(tmp_path / f"{case}-{n}") for n in (1, 2)]
        one, other = (end.weights for end in ends if end is not None)
        assert all(torch.equal(one[k], other[k]) for k in one)


def test_an_encoder_is_measured_looked_at_and_fills_gaps(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    start("words", files, tmp_path / "run")
    final = read_metrics(tmp_path / "run" / "metrics.jsonl", "final")[-1]
    assert final["unit"] == "nats per hidden token"
    assert "bits_per_byte" not in final
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl", "baselines")[0]["losses"]
    assert set(lines) == {"uniform", "unigram"}
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "unigram" in page
    assert "is on the plateau" in page
    assert "not comparable with losses of next tokens" in page
    model = bg.load(tmp_path / "run")
    found: Any = model.evaluate()
    assert found.nats_per_token == pytest.approx(final["loss"])
    assert found.whole_words
    filled = model.fill("the [MASK] number 3 sat on [MASK] 4 .", top_k=3)
    assert [len(gap.guesses) for gap in filled.gaps] == [3, 3]
    score = model.score("the cat sat")
    assert score.pseudo
    assert score.tokens == 3
    head = model.trace("the cat number 3").attention("L0.H1")
    assert head.difference < 1e-5
    assert head.weights[0, -1] > 0  # the first token sees the last
    with pytest.raises(UserError, match="has no next token"):
        model.generate("the")
    with pytest.raises(UserError, match="fills in words and reads no source"):
        model.translate("the")
    card = bg.api.card(tmp_path / "run").as_dict()
    assert "validation_nats_per_hidden_token" in card["training"]


def test_t5_fills_spans_and_does_tasks_told_by_their_prefix(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    start("tasks", files, tmp_path / "run")
    model = bg.load(tmp_path / "run")
    found: Any = model.evaluate()
    assert found.n_hidden < found.n_tokens
    filled = model.fill("the [MASK] number 3 sat", top_k=2)
    assert len(filled.gaps[0].guesses) == 2
    assert isinstance(model.translate("reverse: the 3 hen", beam_size=1), str)
    config = model.settings["text"]
    assert config["objective"] == "span-corruption"
    assert config["train_pairs"] > 40
    assert len(config["sources"]) == 2
    notes = " ".join(config["notes"])
    assert "tasks: " in notes
    scored = model.evaluate(pairs=files["tasks.tsv"], columns="2,3")
    assert scored.n_tokens > 0


def test_the_task_stands_before_the_source(tmp_path: Path, files: dict[str, Path]) -> None:
    from budgerigar.training.corpora import gather_corpus
    from budgerigar.training.given import Given

    given = Given(files["text.txt"], pairs=files["tasks.tsv"])
    corpus = gather_corpus(recipe("tasks").text, given, objective="span-corruption")
    sources = {corpus.tokenizer.decode(line.tolist()) for line in corpus.tasks.train.source}
    assert {source.split(":")[0] for source in sources} == {"copy", "reverse"}
    assert any(source.startswith("reverse: the ") for source in sources)


def test_a_classifier_begins_with_an_encoder(tmp_path: Path, files: dict[str, Path]) -> None:
    start("words", files, tmp_path / "encoder")
    settings = {
        "objective": "classification",
        "pooling": "first",
        **TRAINING,
        "best_by": "accuracy",
    }
    settings |= {"steps": 1, "learning_rate": 0.0, "muon_learning_rate": 0.0, "average": "none"}
    run = train(
        None, [files["labels.tsv"]], out=tmp_path / "run", start_from=tmp_path / "encoder",
        settings=settings,
    )  # fmt: skip
    before = load_model(tmp_path / "encoder").network.state_dict()
    after = run.network.state_dict()
    kept = [name for name in before if name.startswith(("encoder.", "embedding."))]
    assert kept
    assert all(torch.equal(before[name], after[name]) for name in kept)
    assert run.network.config.pooling == "first"
    assert (
        run.network.config.dropout_residual == 0.1
    )  # the recipe's 0.3 is for training from nothing
    assert run.network.config.n_classes == 2
    assert (tmp_path / "run" / "report.html").is_file()
    model: Any = bg.load(tmp_path / "run")
    assert model.classes == ["even", "odd"]
    told = model.classify(["the cat number 3", "the fox"])
    assert sum(p for _, p in told[0].classes) == pytest.approx(1)
    assert model.evaluate(files["labels.tsv"]).n_texts == 60
    beside = model.beside()
    assert set(beside) == {"majority", "bag of words"}
    with pytest.raises(UserError, match="tells classes"):
        model.fill("the [MASK]")
    again = train(
        None, [files["labels.tsv"]], out=tmp_path / "again", start_from=tmp_path / "run",
        settings=settings,
    )  # fmt: skip
    head = "class_head.output.weight"
    assert torch.equal(again.network.state_dict()[head], after[head])  # the same classes


def test_what_does_not_fit_is_refused(tmp_path: Path, files: dict[str, Path]) -> None:
    start("words", files, tmp_path / "encoder", steps=1, sample_every=0)
    start("classes", files, tmp_path / "classes", steps=1, sample_every=0)
    text = [files["text.txt"]]
    with pytest.raises(UserError, match="no output layer over its vocabulary"):
        train("bert-tiny", text, start_from=tmp_path / "classes", out=tmp_path / "x")
    with pytest.raises(UserError, match=r"is encoder-only, and next-token is for decoder-only"):
        train("shakespeare", text, start_from=tmp_path / "encoder", out=tmp_path / "x")
    with pytest.raises(UserError, match="is for a Transformer of assembly encoder-only"):
        recipe_from_dict({"training": {"objective": "masked-words"}})
    with pytest.raises(UserError, match="mask_share = 0"):
        recipe_from_dict({"model": ENCODER, "training": {"mask_share": 0.0}})
    with pytest.raises(UserError, match="best_by = 'accuracy' is for"):
        recipe_from_dict({"training": {"best_by": "accuracy"}})
    with pytest.raises(UserError, match="no labelled texts"):
        train("classifier", out=tmp_path / "x")
    with pytest.raises(UserError, match="three, task, source and target"):
        recipe_from_dict({**CASES["spans"], "text": {"columns": "a,b,c,d"}})
    assert not (tmp_path / "x").exists()


def test_the_batch_is_invisible(tmp_path: Path, files: dict[str, Path]) -> None:
    """A text alone and beside longer ones has the same classes."""
    start("classes", files, tmp_path / "run", steps=4, sample_every=0)
    model: Any = bg.load(tmp_path / "run")
    texts = ["the cat", "the fox number 3 sat on mat 4 and on mat 5 and 6", "hen"]
    together = model.classify(texts)
    for text, one in zip(texts, together, strict=True):
        alone = dict(model.classify(text)[0].classes)
        assert alone == pytest.approx(dict(one.classes), rel=1e-4)


def test_warnings_know_the_plateau() -> None:
    def of(loss: float) -> list[str]:
        entries: list[dict[str, Any]] = [
            {"kind": "baselines", "losses": {"uniform": 7.0, "unigram": 6.0}},
            {"kind": "evaluation", "step": 1, "loss": loss, "unit": "nats per hidden token"},
        ]
        return warnings_of(entries)

    assert "on the plateau" in of(5.9)[0]
    assert of(4.0) == []


@pytest.mark.parametrize("name", ["bert-tiny", "t5-tiny", "bert-base", "t5-small", "classifier"])
def test_recipes_are_valid_and_say_where_they_come_from(name: str) -> None:
    found = load_recipe(name)
    more = {"n_classes": 2} if name == "classifier" else {}
    found.model_config(4000, **more)
    assert recipe_from_dict(tomllib.loads(to_toml(found))) == found
    text = recipe_path(name).read_text("utf-8")
    assert "eached here" in text or "not run by us" in text


def test_published_shapes_are_the_papers() -> None:
    from budgerigar.models.papers import paper

    for name in ("bert-base", "t5-small"):
        published = paper(name).config.to_dict()
        ours = load_recipe(name).model_config(published["vocab_size"]).to_dict()
        layers = {"n_layers", "n_encoder_layers", "n_decoder_layers", "decoder_start", "init_std"}
        assert {k: v for k, v in ours.items() if k not in layers} == {
            k: v for k, v in published.items() if k not in layers
        }
        assert (load_recipe(name).training.steps or 0) == 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-tiny", "t5-tiny", "classifier"])
def test_the_packages_recipes_run(tmp_path: Path, files: dict[str, Path], name: str) -> None:
    small = {
        "d_model": 16, "n_heads": 2, "steps": 2, "batch_size": 2, "batch_tokens": 64, "threads": 1,
        "precision": "float32", "vocab_size": 700,
    }  # fmt: skip
    own = files["labels.tsv" if name == "classifier" else "text.txt"]
    assert train(name, [own], out=tmp_path / "run", settings=small).report["finished"]


@pytest.mark.slow
def test_masked_words_leave_the_plateau(tmp_path: Path) -> None:
    """Text in which neighbours tell each other: well under the unigram's line in seconds."""
    rng = random.Random(3)
    pairs = [(f"w{n}a", f"w{n}b") for n in range(40)]
    words = [word for _ in range(6000) for word in rng.choice(pairs)]
    text = tmp_path / "pairs.txt"
    text.write_text(" ".join(words), encoding="utf-8")
    run = train(
        "bert-tiny", [text], out=tmp_path / "run",
        settings={"tokenizer": "word", "steps": 300, "d_model": 64, "n_layers": 2, "n_heads": 2,
                  "context_length": 32, "threads": 1, "sample_every": 0, "evaluate_every": 100},
    )  # fmt: skip
    line = run.report["baselines"]["unigram"]
    assert run.report["best_loss"] < 0.5 * line


@pytest.mark.slow
def test_an_imported_bert_fills_gaps_and_learns_classes(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    """A tiny random BERT that transformers saved: [CLS] and [SEP] stand around what it reads."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "bert"
    folder.mkdir()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["the", "cat", "dog", "fox", "hen", "number", "sat", "on", "mat", ".", "##s", *"12345"]
    (folder / "vocab.txt").write_text("\n".join([*special, *words]) + "\n", encoding="utf-8")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(
        vocab_size=len([*special, *words]),
        intermediate_size=32,
        max_position_embeddings=32,
        **shape,
    )
    theirs = transformers.BertForMaskedLM(config).eval()
    theirs.save_pretrained(folder)
    model = bg.load(folder)
    found = model.fill("the [MASK] sat .", top_k=4)
    ids = torch.tensor([[2, 5, 4, 11, 14, 3]])  # [CLS] the [MASK] sat . [SEP]
    with torch.no_grad():
        logits = theirs(input_ids=ids, token_type_ids=torch.zeros_like(ids)).logits
    p = logits[0, 2].double().softmax(-1)
    for guess in found.gaps[0].guesses:
        assert guess.probability == pytest.approx(float(p[guess.ids[0]]), rel=1e-4)
        assert guess.text.startswith(" ")
    run = train(
        None, [files["labels.tsv"]], out=tmp_path / "run", start_from=folder,
        settings={"objective": "classification", "steps": 2, "threads": 1, "pooling": "first"},
    )  # fmt: skip
    assert run.network.config.n_classes == 2
    told: Any = bg.load(tmp_path / "run")
    assert told.classify("the cat sat on mat 3 .")[0].label in ("even", "odd")
