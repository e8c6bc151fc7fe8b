"""From a recipe's `[text]` and files to a prepared corpus, the same one again when a run resumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.training.recipe import Recipe, TextRecipe

HELD_OUT_STORIES = 500  # validation stories of the generated corpus


def gather_corpus(text: TextRecipe, files: Sequence[str | Path] = (), tokenizer: Any = None) -> Any:
    """The corpus that a recipe's `[text]` and `files` describe.

    Args:
        tokenizer: a tokenizer to use instead of the one the recipe asks for (fine-tuning, resuming).

    Raises:
        UserError: no text is named, or it cannot be read.
    """
    if files:
        return _from_files(text, files, tokenizer)
    if text.corpus == "stories":
        return _from_stories(text, tokenizer)
    if text.corpus:
        from budgerigar.text.catalogue import fetch

        fetched = fetch(text.corpus)
        return _from_files(text, list(fetched.files.values()), tokenizer)
    raise UserError(
        "There is no text to train on. Give a file (budgie train my.txt), or a corpus of the "
        "catalogue (--corpus NAME; `budgie list` shows them)."
    )


def _from_files(text: TextRecipe, files: Sequence[str | Path], tokenizer: Any) -> Any:
    from budgerigar.text.corpus import prepare

    return prepare(
        [Path(file) for file in files],
        tokenizer=text.tokenizer if tokenizer is None else tokenizer,
        vocab_size=text.vocab_size if tokenizer is None else None,
        documents=text.documents,
        validation=None if text.validation is None else Path(text.validation),
        validation_fraction=text.validation_fraction,
        encoding=text.encoding,
        seed=text.corpus_seed,
    )


def _from_stories(text: TextRecipe, tokenizer: Any) -> Any:
    from budgerigar.text.corpus import prepare_documents
    from budgerigar.text.stories import stories_documents

    options: dict[str, Any] = {
        "language": text.language,
        "filler_words": tuple(text.filler_words),
    }
    return prepare_documents(
        stories_documents(text.n_stories, text.corpus_seed, **options),
        stories_documents(HELD_OUT_STORIES, text.corpus_seed, split="validation", **options),
        tokenizer=text.tokenizer if tokenizer is None else tokenizer,
        vocab_size=text.vocab_size if tokenizer is None else None,
        seed=text.corpus_seed,
    )


def describe_corpus(corpus: Any, files: Sequence[str | Path]) -> dict[str, Any]:
    """What config.json keeps of a corpus: enough to find it again and to notice a change."""
    end_id = corpus.train.end_id
    return {
        "documents": corpus.documents,
        "n_documents": corpus.n_documents,
        "starts_documents": end_id is not None,
        "end_id": end_id,
        "files": [str(Path(file).resolve()) for file in files],
        "sources": list(corpus.sources),
        "fingerprint": corpus.fingerprint,
        "train_tokens": corpus.train.n_tokens,
        "validation_tokens": corpus.validation.n_tokens,
        "notes": list(corpus.notes),
    }


def files_of(described: dict[str, Any], folder: Path) -> list[str]:
    """The files that a run was trained on; empty for a generated or a catalogue's text.

    Raises:
        UserError: names one that is gone.
    """
    files = [str(file) for file in described.get("files", ())]
    gone = [file for file in files if not Path(file).exists()]
    if gone:
        raise UserError(f"The text of {folder} is gone: there is no {gone[0]}. Put it back there.")
    return files


def what_changed(corpus: Any, described: dict[str, Any]) -> str | None:
    """In words, what of a text is no longer as config.json describes it; None if nothing is."""
    before = {s["path"]: s["sha256"] for s in described.get("sources", [])}
    changed = [
        s["path"] for s in corpus.sources if before.get(s["path"], s["sha256"]) != s["sha256"]
    ]
    if changed:
        return f"{changed[0]} has changed"
    if corpus.fingerprint != described.get("fingerprint"):
        return "The text or how it is cut has changed"
    return None


def check_same_corpus(corpus: Any, described: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with a text that changed since the run began.

    Raises:
        UserError: names the file whose SHA-256 differs.
    """
    changed = what_changed(corpus, described)
    if changed:
        raise UserError(
            f"{changed} since {folder} began, so going on would not continue that run. Put the old "
            f"text back, or start a new run from its weights: budgie train FILE --from {folder}"
        )


def first_tokens(store: Any, count: int, tokenizer: Any) -> Any:
    """The first `count` tokens of a store, to evaluate on quickly along the way."""
    tokens = store.tokens[:count]
    text = tokenizer.decode(tokens.tolist())
    return dataclasses.replace(
        store, tokens=tokens, n_bytes=len(text.encode()), n_characters=len(text), path=None
    )


def make_batches(recipe: Recipe, corpus: Any, network: Any) -> Any:
    from budgerigar.text.batches import WindowBatches

    training = recipe.training
    length = min(network.context_length, corpus.train.n_tokens - 1)
    return WindowBatches(
        corpus.train, length, training.batch_size, seed=training.seed, order=training.window_order
    )


def measure_baselines(recipe: Recipe, corpus: Any, context_length: int) -> dict[str, float]:
    """Losses of simple models, measured with the windows that ours is measured with."""
    if not recipe.training.baselines:
        return {}
    from budgerigar.evaluation import baselines

    found = baselines(corpus.train, corpus.validation, context_length=context_length)
    return {name: float(loss) for name, loss in found.items()}
