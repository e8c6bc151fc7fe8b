"""Training that tells which class a text is of, from scratch or from a pre-trained encoder."""

from __future__ import annotations

from typing import Any

from torch import nn

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.training.events import Written
from budgerigar.training.given import Given
from budgerigar.training.recipe import Recipe, TextRecipe
from budgerigar.training.recipe_checks import column_names

BAG, MAJORITY = "bag of words", "majority"
SHOWN = 6  # held-out texts in a sample


def gather_labelled(text: TextRecipe, given: Given, tokenizer: Any = None) -> Any:
    """The `LabelledCorpus` that a recipe's `[text]` and the given files describe.

    Raises:
        UserError: no file is named, or it does not hold labelled texts.
    """
    from budgerigar.text.labelled_corpus import prepare_labelled

    if given.has_pairs:
        raise UserError(
            "--source, --target and --pairs are sentences to translate; texts to classify stand in one "
            "table, a label and a text a row: budgie train texts.tsv --classify"
        )
    if not given.text_files:
        raise UserError(
            "there are no labelled texts to learn from. Name a table, a label, a tab and a text a row: "
            "budgie train texts.tsv --classify"
        )
    names = column_names(text.columns or "")
    return prepare_labelled(
        given.text_files,
        tokenizer=text.tokenizer if tokenizer is None else tokenizer,
        vocab_size=text.vocab_size if tokenizer is None else None,
        columns=(names[0], names[1]) if names else None,
        validation=text.validation,
        validation_fraction=text.validation_fraction,
        encoding=text.encoding,
        seed=text.corpus_seed,
    )


def describe_labelled(corpus: Any) -> dict[str, Any]:
    """What config.json keeps of labelled texts beside what it keeps of any text."""
    return {
        "classes": list(corpus.classes),
        "train_texts": len(corpus.train),
        "validation_texts": len(corpus.validation),
        "starts_documents": bool(corpus.train.start),
    }


def class_settings(recipe: Recipe, corpus: Any) -> dict[str, Any]:
    """What the classes decide of a model's config."""
    none = {"token_head": False, "head_transform": False, "head_bias": False}
    return {**none, "n_classes": len(corpus.classes)}


def make_label_batches(recipe: Recipe, corpus: Any, network: Any) -> Any:
    """Batches of labelled texts; says how many are cut to the model's context."""
    from budgerigar.text.labelled_corpus import LabelBatches

    training, most = recipe.training, network.context_length
    long = int((corpus.train.lengths() > most).sum())
    if long:
        progress.note(
            f"{long:,} of {len(corpus.train):,} texts have more than {most:,} tokens: the rest of them "
            f"is not read (--context-length {most})"
        )
    return LabelBatches(corpus.train, training.batch_size, training.seed, most)


def fitted_bag(corpus: Any) -> Any:
    """The logistic regression on words of the training texts."""
    from budgerigar.evaluation.bag_of_words import fit_bag_of_words

    with progress.track("bag of words"):
        train = corpus.train
        return fit_bag_of_words(train.texts, train.labels, len(corpus.classes))


def class_scores(corpus: Any, store: Any, bag: Any = None) -> dict[str, Any]:
    """`ClassEvaluation` of what needs no network, by name, on `store`."""
    from budgerigar.evaluation.bag_of_words import majority_log_p
    from budgerigar.evaluation.classes import score_classes

    classes, train = corpus.classes, corpus.train
    found = {
        MAJORITY: majority_log_p(train.labels, len(classes), len(store)),
        BAG: (fitted_bag(corpus) if bag is None else bag).log_p(store.texts),
    }
    return {name: score_classes(log_p, store.labels, classes) for name, log_p in found.items()}


def class_lines(corpus: Any) -> dict[str, float]:
    """Losses of the simple ones on the validation texts; their accuracy is said."""
    found = class_scores(corpus, corpus.validation)
    said = ", ".join(f"{name} {100 * one.accuracy:.1f} %" for name, one in found.items())
    progress.note(f"right of the {len(corpus.validation):,} texts to validate with: {said}")
    return {name: one.nats_per_text for name, one in found.items()}


def class_evaluator(corpus: Any) -> Any:
    """`(network, whole split?) -> ClassEvaluation`."""
    from budgerigar.evaluation.classes import evaluate_classes

    def run(network: Any, _everything: bool) -> Any:
        return evaluate_classes(network, corpus.validation, corpus.classes)

    return run


def class_sampler(recipe: Recipe, corpus: Any) -> Any:
    """`(network, step) -> some held-out texts with the class told and the right one`."""
    if recipe.training.sample_every == 0:
        return None
    from budgerigar.evaluation.classes import class_log_p

    store = corpus.validation
    every = max(len(store) // SHOWN, 1)
    some = store.pick(range(0, len(store), every)[:SHOWN])

    def run(network: nn.Module, step: int) -> Written:
        lines = []
        told = class_log_p(network, some).argmax(1)
        for text, label, own in zip(some.texts, some.labels, told, strict=True):
            mark = "" if own == label else f" (it is {corpus.classes[label]})"
            lines.append(f"{corpus.classes[own]}{mark}: {text}")
        return Written("\n".join(lines))

    return run
