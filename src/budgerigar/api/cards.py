"""`card`: what a model is and costs, from a run, a recipe or a published shape. `eject`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from budgerigar.api.imported_card import imported_card, remote_card
from budgerigar.errors import UserError
from budgerigar.models.card import Card, paper_card
from budgerigar.models.card import card as card_of

ASSUMED = {"character": 65, "symbols": 65, "byte": 256}  # vocabularies of recipes, else GPT-2's
GPT2_VOCABULARY = 50257
PAIRS_VOCABULARY = 8000  # what small corpora of pairs get
WORDS_VOCABULARY = 4000  # of some thousand short texts to classify


def card(thing: str | Path, vocab_size: int | None = None) -> Card:
    """The card of a run's folder (or "last"), a model that others made (a folder, a file, a name of
    the catalogue or the hub), a recipe or a paper's shape, whichever it names.

    `vocab_size` is for recipes, whose vocabulary only the text decides.

    Raises:
        UserError: it is none of them; the nearest names are given.
    """
    from budgerigar.formats.names import is_hub_name
    from budgerigar.models.papers import papers
    from budgerigar.text.model_catalogue import models
    from budgerigar.training.recipe import recipe_names

    name = str(thing)
    if name == "last" or Path(name).is_dir() or (Path("runs") / name).is_dir():
        return _run_card(name)
    if name in papers():
        return paper_card(name)
    if name in recipe_names() or name.endswith(".toml"):
        return _recipe_card(name, vocab_size)
    if Path(name).is_file() or name in models():
        return _file_card(name)
    if is_hub_name(name):
        return remote_card(name)
    raise UserError(_unknown(name, sorted({*recipe_names(), *papers(), *models()})))


def _file_card(name: str) -> Card:
    """Of a model's file, or of a model of the catalogue, which is fetched if need be."""
    from budgerigar.formats.names import find_named

    path = find_named(name, check=False) or Path(name)
    found = imported_card(path)
    if found is None:
        raise UserError(
            f"{path} is no model's file that is known here: give the folder of a run or a model, a "
            ".gguf file or llama2.c's .bin"
        )
    return found


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=2, cutoff=0.5)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"{name!r} is no run folder, model, recipe or paper's shape.{meant} Known: {', '.join(known)}; "
        "runs are folders under runs/, or `last`."
    )


def _run_card(name: str) -> Card:
    from budgerigar.formats.metrics import read_metrics
    from budgerigar.formats.run import RunFolder, resolve_run
    from budgerigar.models.configs import config_from_dict

    if (imported := imported_card(resolve_run(name))) is not None:
        return imported
    run = RunFolder.open(resolve_run(name))
    settings = run.config()
    text = settings.get("text") or {}
    measured = read_metrics(run.metrics_path, "evaluation") if run.metrics_path.is_file() else []
    training: dict[str, Any] = {
        "text": ", ".join(Path(str(source["path"])).name for source in text.get("sources", [])),
        "documents": text.get("documents"),
        "tokens_to_train_on": text.get("train_tokens"),
    }
    if text.get("pairs"):
        training |= _pairs_facts(text)
    if text.get("classes"):
        training |= {"texts": text.get("n_documents"), "classes": ", ".join(text["classes"])}
    if measured:
        best = min(measured, key=lambda row: float(row["loss"]))
        if settings["kind"] == "word-vectors":
            training["validation_nats_per_pair"] = round(float(measured[-1]["loss"]), 4)
        else:
            unit = str(best.get("unit", "nats per token")).replace(" ", "_")
            training[f"validation_{unit}"] = round(float(best["loss"]), 4)
            if "bits_per_byte" in best:
                training["validation_bits_per_byte"] = round(float(best["bits_per_byte"]), 4)
            training["at_step"] = best["step"]
        right = [float(row["accuracy"]) for row in measured if "accuracy" in row]
        if right:
            training["validation_accuracy"] = round(max(right), 4)
        scores = [float(row["bleu"]) for row in measured if row.get("bleu") is not None]
        if scores:
            training["validation_bleu_greedy_in_passing"] = round(max(scores), 2)
    about = str((run.recipe() or {}).get("about", "")).split("\n")[0]
    found = card_of(
        config_from_dict(settings["model"]), str(run.path), notes=(about,) if about else ()
    )
    return _with_training(found, training)


def _pairs_facts(text: dict[str, Any]) -> dict[str, Any]:
    """What a translator was trained on."""
    languages = [text.get("source_language"), text.get("target_language")]
    return {
        "documents": None,
        "languages": " → ".join(map(str, languages)) if all(languages) else None,
        "sentence_pairs": text.get("n_documents"),
    }


def _recipe_card(name: str, vocab_size: int | None) -> Card:
    from budgerigar.training.recipe import load_recipe

    recipe = load_recipe(name)
    text = recipe.text
    usual = PAIRS_VOCABULARY if recipe.reads_pairs else GPT2_VOCABULARY
    usual = WORDS_VOCABULARY if recipe.objective == "classification" else usual
    size = vocab_size or text.vocab_size or ASSUMED.get(text.tokenizer, usual)
    changes: dict[str, Any] = {}
    if recipe.objective == "classification":
        changes["n_classes"] = 2
    if recipe.reads_pairs and text.vocabulary == "separate":
        changes["source_vocab_size"] = text.source_vocab_size or size
    notes = (
        recipe.about,
        f"the text decides the vocabulary; {size:,} is taken here (--vocab-size N takes another)",
    )
    found = card_of(recipe.model_config(size, **changes), name, notes=notes)
    if recipe.kind == "ngram":  # counted, not trained
        return found
    if recipe.kind == "word-vectors":
        used = ("epochs", "learning_rate")
        return _with_training(found, {name: getattr(recipe.training, name) for name in used})
    batch = "batch_size"
    if recipe.reads_pairs or recipe.objective == "span-corruption":
        batch = "batch_tokens"
    names = ("steps", "minutes", "optimizer", batch, "learning_rate")
    return _with_training(found, {name: getattr(recipe.training, name) for name in names})


def _with_training(found: Card, training: dict[str, Any]) -> Card:
    known = {name: value for name, value in training.items() if value}
    return dataclasses.replace(found, facts={**found.facts, "training": known}) if known else found


def eject(run: str | Path, out: str | Path | None = None) -> tuple[Path, int]:
    """Write one plain PyTorch file of this model only -> its path and number of lines."""
    from budgerigar.formats.eject import eject as write

    return write(run, out)
