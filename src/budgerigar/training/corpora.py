"""From a recipe's `[text]` and files to a prepared corpus, the same one again when a run resumes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.training.given import Given, Paths
from budgerigar.training.pair_corpora import (
    describe_pairs,
    gather_pairs,
    make_pair_batches,
    vocabulary_settings,
)
from budgerigar.training.recipe import Recipe, TextRecipe, TrainingRecipe

WINDOW_LENGTH = 256  # tokens, for a model without a context_length
HELD_OUT_STORIES = 500  # validation stories of the generated corpus


def gather_corpus(
    text: TextRecipe,
    given: Given | Paths = (),
    tokenizer: Any = None,
    source_tokenizer: Any = None,
    pairs: bool = False,
) -> Any:
    """The corpus that a recipe's `[text]` and the given files describe.

    Args:
        tokenizer: a tokenizer to use instead of the one the recipe asks for (fine-tuning, resuming);
            with separate vocabularies also the source's.
        pairs: sentence pairs, for a model that reads a source (`recipe.reads_pairs`).

    Raises:
        UserError: no text is named, or it cannot be read.
    """
    given = given if isinstance(given, Given) else Given(given)
    if pairs:
        return gather_pairs(text, given, tokenizer, source_tokenizer)
    if given:
        return _from_files(text, given.text_files, tokenizer)
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


def corpus_of_run(
    recipe: Recipe,
    described: dict[str, Any],
    folder: Path,
    tokenizer: Any,
    source_tokenizer: Any = None,
) -> Any:
    """The corpus of the run in `folder` again; `described` is the part `text` of its config.json."""
    given = Given.from_described(described, folder)
    return gather_corpus(recipe.text, given, tokenizer, source_tokenizer, recipe.reads_pairs)


def _from_files(text: TextRecipe, files: list[Path], tokenizer: Any) -> Any:
    from budgerigar.text.corpus import prepare

    return prepare(
        files,
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


def describe_corpus(corpus: Any, given: Given, reads_pairs: bool = False) -> dict[str, Any]:
    """What config.json keeps of a corpus: enough to find it again and to notice a change."""
    end_id = corpus.train.end_id
    described = {
        "documents": corpus.documents,
        "n_documents": corpus.n_documents,
        "starts_documents": end_id is not None,
        "end_id": end_id,
        **given.described(),
        "sources": list(corpus.sources),
        "fingerprint": corpus.fingerprint,
        "train_tokens": corpus.train.n_tokens,
        "validation_tokens": corpus.validation.n_tokens,
        "notes": list(corpus.notes),
    }
    return described | describe_pairs(corpus) if reads_pairs else described


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
            f"text back, or start a new run from its weights: budgie train … --from {folder}"
        )


def first_tokens(store: Any, count: int, tokenizer: Any) -> Any:
    """The first `count` tokens of a store, to evaluate on quickly along the way."""
    tokens = store.tokens[:count]
    text = tokenizer.decode(tokens.tolist())
    return dataclasses.replace(
        store, tokens=tokens, n_bytes=len(text.encode()), n_characters=len(text), path=None
    )


def model_config(recipe: Recipe, corpus: Any) -> Any:
    """The validated config of the recipe's model for the vocabularies of `corpus`."""
    vocab_size = corpus.tokenizer.vocab_size
    if not recipe.reads_pairs:
        return recipe.model_config(vocab_size)
    return recipe.model_config(vocab_size, **vocabulary_settings(corpus))


def make_batches(recipe: Recipe, corpus: Any, network: Any) -> Any:
    if recipe.reads_pairs:
        return make_pair_batches(recipe, corpus, network)
    from budgerigar.text.batches import WindowBatches
    from budgerigar.text.streams import StreamBatches

    training, train = recipe.training, corpus.train
    length = min(window_length(training, network.context_length), train.n_tokens - 1)
    rows, order = training.batch_size, training.window_order
    if order == "streams":
        return StreamBatches(train, length, rows, training.seed, training.reset_share)
    return WindowBatches(train, length, rows, seed=training.seed, order=order)


def window_length(training: TrainingRecipe, context_length: int | None) -> int:
    """Tokens of a training window, for a model of that context (None: without a limit)."""
    return training.window_length or context_length or WINDOW_LENGTH


def measure_baselines(recipe: Recipe, corpus: Any, context_length: int | None) -> dict[str, float]:
    """Losses of simple models, measured with the windows that ours is measured with.

    None for sentence pairs: these models know no source.
    """
    if not recipe.training.baselines or recipe.reads_pairs:
        return {}
    from budgerigar.evaluation import baselines

    found = baselines(corpus.train, corpus.validation, context_length=context_length)
    return {name: float(loss) for name, loss in found.items()}
