"""From a recipe's `[text]` and files to a prepared corpus, the same one again when a run resumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.training.classifying import (
    class_lines,
    class_settings,
    describe_labelled,
    gather_labelled,
    make_label_batches,
)
from budgerigar.training.fill_in import (
    fill_in_lines,
    make_span_batches,
    masked,
    specials_of,
    with_tasks,
)
from budgerigar.training.given import PAIR_FILES, Given, Paths
from budgerigar.training.objectives import (
    CLASSIFICATION,
    FILL_IN,
    MASKED_WORDS,
    NEXT_TOKEN,
    PAIRS,
    SPAN_CORRUPTION,
)
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
    objective: str = NEXT_TOKEN,
) -> Any:
    """The corpus that a recipe's `[text]` and the given files describe.

    Args:
        tokenizer: a tokenizer to use instead of the one the recipe asks for (fine-tuning, resuming);
            with separate vocabularies also the source's.
        pairs: sentence pairs, for a model that reads a source (`recipe.reads_pairs`).
        objective: `recipe.objective`, which decides what else is read, and the special tokens.

    Raises:
        UserError: no text is named, or it cannot be read.
    """
    given = given if isinstance(given, Given) else Given(given)
    if pairs or objective == PAIRS:
        return gather_pairs(text, given, tokenizer, source_tokenizer)
    if objective == CLASSIFICATION:
        return gather_labelled(text, given, tokenizer)
    if objective == SPAN_CORRUPTION and given.has_pairs:
        only_text = given.replace(**dict.fromkeys(PAIR_FILES, ()))
        running = gather_corpus(text, only_text, tokenizer, objective=objective)
        return with_tasks(running, text, given)
    specials = specials_of(objective)
    if given:
        return _from_files(text, given.text_files, tokenizer, specials)
    if text.corpus == "stories":
        return _from_stories(text, tokenizer, specials)
    if text.corpus:
        from budgerigar.text.catalogue import fetch

        fetched = fetch(text.corpus)
        return _from_files(text, list(fetched.files.values()), tokenizer, specials)
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
    return gather_corpus(
        recipe.text, given, tokenizer, source_tokenizer, objective=recipe.objective
    )


def _from_files(
    text: TextRecipe, files: list[Path], tokenizer: Any, specials: Sequence[str]
) -> Any:
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
        specials=specials,
    )


def _from_stories(text: TextRecipe, tokenizer: Any, specials: Sequence[str]) -> Any:
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
        specials=specials,
    )


def describe_corpus(
    corpus: Any, given: Given, reads_pairs: bool = False, objective: str | None = None
) -> dict[str, Any]:
    """What config.json keeps of a corpus: enough to find it again and to notice a change."""
    from budgerigar.text.store import opens_texts

    end_id = corpus.train.end_id
    described = {
        **({"objective": objective} if objective in (*FILL_IN, CLASSIFICATION) else {}),
        "documents": corpus.documents,
        "n_documents": corpus.n_documents,
        "starts_documents": opens_texts(corpus.train),
        "end_id": end_id,
        **given.described(),
        "sources": list(corpus.sources),
        "fingerprint": corpus.fingerprint,
        "train_tokens": corpus.train.n_tokens,
        "validation_tokens": corpus.validation.n_tokens,
        "notes": list(corpus.notes),
    }
    if objective == CLASSIFICATION:
        return described | describe_labelled(corpus)
    if getattr(corpus, "tasks", None) is not None:
        described["train_pairs"] = corpus.tasks.train.n_pairs
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
    if recipe.objective == CLASSIFICATION:
        return recipe.model_config(vocab_size, **class_settings(recipe, corpus))
    if recipe.objective == SPAN_CORRUPTION:
        return recipe.model_config(vocab_size, decoder_start=corpus.tokenizer.end_id)
    if not recipe.reads_pairs:
        return recipe.model_config(vocab_size)
    return recipe.model_config(vocab_size, **vocabulary_settings(corpus))


def make_batches(recipe: Recipe, corpus: Any, network: Any) -> Any:
    """Endless training batches for the recipe's objective."""
    if recipe.reads_pairs:
        return make_pair_batches(recipe, corpus, network)
    if recipe.objective == CLASSIFICATION:
        return make_label_batches(recipe, corpus, network)
    if recipe.objective == SPAN_CORRUPTION:
        return make_span_batches(recipe, corpus, network)
    windows = _windows(recipe, corpus, network)
    return masked(windows, recipe, corpus) if recipe.objective == MASKED_WORDS else windows


def _windows(recipe: Recipe, corpus: Any, network: Any) -> Any:
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
    if recipe.objective in FILL_IN:
        return fill_in_lines(recipe, corpus, context_length)
    if recipe.objective == CLASSIFICATION:
        return class_lines(corpus)
    from budgerigar.evaluation import baselines

    found = baselines(corpus.train, corpus.validation, context_length=context_length)
    return {name: float(loss) for name, loss in found.items()}
