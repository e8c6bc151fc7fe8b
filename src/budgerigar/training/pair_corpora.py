"""From a recipe's `[text]` and given files to sentence pairs, their batches and vocabularies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.training.given import Given
from budgerigar.training.recipe import Recipe, TextRecipe
from budgerigar.training.recipe_checks import column_names

STORIES = "stories"


def for_other_pairs(recipe: Recipe, given: bool, corpus: str | None) -> Recipe:
    """`recipe` without languages where these are its own corpus's and it is to learn from other pairs:
    files that were `given`, or the corpus of this name. These have their own languages."""
    own = recipe.text.corpus
    if not recipe.reads_pairs or own is None or not (given or corpus not in (None, own)):
        return recipe
    return recipe.replace(text={"source_language": None, "target_language": None})


def gather_pairs(
    text: TextRecipe, given: Given, tokenizer: Any = None, source_tokenizer: Any = None
) -> Any:
    """The `PairCorpus` that a recipe's `[text]` and the given files describe.

    Args:
        tokenizer: one to use instead of the one the recipe asks for (fine-tuning, resuming); with
            separate vocabularies `source_tokenizer` too.

    Raises:
        UserError: no pairs are named, or they cannot be read.
    """
    from budgerigar.text.pair_corpus import (
        fetch_pairs,
        generated_pairs,
        prepare_pair_lists,
        prepare_pairs,
    )

    languages: dict[str, Any] = {
        "source_language": text.source_language,
        "target_language": text.target_language,
    }
    columns = _columns(text)
    files = given.training_pairs(columns)
    options = _options(text, tokenizer, source_tokenizer, files) | languages
    if given.text_files:
        raise UserError(
            f"{given.text_files[0]} is one text, and this model learns from sentence pairs. Give "
            "--source FILE and --target FILE (line n of one is line n of the other), or --pairs FILE."
        )
    if given:
        validation = given.validation_split(columns) or _validation_file(text, columns)
        return prepare_pairs(
            files,
            validation=validation,
            validation_fraction=text.validation_fraction,
            **options,
        )
    if text.corpus == STORIES:
        train, held_out = generated_pairs(text.n_pairs, text.corpus_seed, **languages)
        return prepare_pair_lists(train, held_out, **options)
    if text.corpus:
        train_files, validation, _ = fetch_pairs(text.corpus, **languages)
        return prepare_pairs(
            train_files,
            validation=validation,
            validation_fraction=text.validation_fraction,
            **options,
        )
    raise UserError(
        "There are no sentence pairs to train on. Give two files (budgie train --source a.de "
        "--target a.en), one with both sides (--pairs FILE), or a corpus (--corpus NAME; `budgie "
        "list` shows them)."
    )


def _options(text: TextRecipe, tokenizer: Any, source_tokenizer: Any, files: Any) -> dict[str, Any]:
    """What preparing files and lists have in common: tokenizers, and how text is read."""
    from budgerigar.text.pair_catalogue import guess_languages
    from budgerigar.text.pair_corpus import find_pairs

    options: dict[str, Any] = {
        "vocabulary": text.vocabulary,
        "tokenizer": text.tokenizer,
        "vocab_size": text.vocab_size,
        "source_tokenizer": text.source_tokenizer,
        "source_vocab_size": text.source_vocab_size,
        "encoding": text.encoding,
        "lowercase": text.lowercase,
        "seed": text.corpus_seed,
    }
    if tokenizer is not None:
        two = source_tokenizer is not None and source_tokenizer.fingerprint != tokenizer.fingerprint
        options |= {"tokenizer": tokenizer, "vocab_size": None, "source_vocab_size": None}
        options["source_tokenizer"] = source_tokenizer if two else None
        options["vocabulary"] = "separate" if two else "joint"
    if text.mix:
        guessed = guess_languages(files)  # what is mixed in goes the same way
        languages = (text.source_language or guessed[0], text.target_language or guessed[1])
        options["mix"] = find_pairs(text.mix, *languages, columns=_columns(text))
    return options


def _columns(text: TextRecipe) -> tuple[str, str] | None:
    names = column_names(text.columns or "")
    return (names[0], names[1]) if names else None


def _validation_file(text: TextRecipe, columns: tuple[str, str] | None) -> Any:
    """The recipe's own validation file, which for pairs holds both sides."""
    if text.validation is None:
        return None
    return Given(validation_pairs=Path(text.validation)).validation_split(columns)


def describe_pairs(corpus: Any) -> dict[str, Any]:
    """What config.json keeps of pairs beside what it keeps of any text."""
    described = {
        "pairs": True,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "source_end_id": corpus.train.source_end_id,
        "train_pairs": corpus.train.n_pairs,
        "validation_pairs": corpus.validation.n_pairs,
        "train_source_tokens": corpus.train.n_source_tokens,
    }
    return {name: value for name, value in described.items() if value is not None}


def has_two_vocabularies(corpus: Any) -> bool:
    """Whether source and target have tokenizers of their own."""
    return corpus.source_tokenizer.fingerprint != corpus.tokenizer.fingerprint


def vocabulary_settings(corpus: Any) -> dict[str, Any]:
    """What the vocabularies of pairs decide of a model's config."""
    settings: dict[str, Any] = {"decoder_start": corpus.tokenizer.end_id}
    if has_two_vocabularies(corpus):
        settings["source_vocab_size"] = corpus.source_tokenizer.vocab_size
        settings["shared_embeddings"] = False
    return settings


def make_pair_batches(recipe: Recipe, corpus: Any, network: Any) -> Any:
    """Batches of pairs for training; says how many pairs are too long for the model."""
    from budgerigar.text.pair_batches import PairBatches

    training, longest = recipe.training, network.context_length
    batches = PairBatches(
        corpus.train,
        training.batch_tokens,
        training.seed,
        network.config.decoder_start,
        longest,
        longest,
    )
    if batches.left_out:
        limit = training.batch_tokens
        limit = limit if longest is None else min(limit, longest)
        progress.note(
            f"{batches.left_out:,} of {corpus.train.n_pairs:,} pairs are left out: a side has more "
            f"than {limit:,} tokens (--context-length {longest}, --batch-tokens "
            f"{training.batch_tokens:,})"
        )
    return batches
