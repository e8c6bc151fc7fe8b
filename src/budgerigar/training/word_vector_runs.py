"""Run folders of word vectors: a new one, and going on with one that was stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.evaluation.word_vectors import VectorEvaluation, evaluate_vectors
from budgerigar.formats.checkpoints import Checkpoint
from budgerigar.formats.metrics import append_metrics, cut_metrics
from budgerigar.formats.run import RunFolder, make_config
from budgerigar.models.word_vectors import WordVectors
from budgerigar.training.corpora import describe_corpus
from budgerigar.training.finish import TrainedRun
from budgerigar.training.given import Given
from budgerigar.training.recipe import Recipe, to_toml
from budgerigar.training.report import write_report
from budgerigar.training.signals import StopRequest
from budgerigar.training.timing import SHARE_FOR_STEPS
from budgerigar.training.word_vectors import Place, VectorText, VectorTrainer, vector_text

PROBE_CHARACTERS = 200_000  # of a text, to see whether it has spaces between words
TIMED_BLOCKS = 200
SHOWN_RANKS = (40, 60, 90, 130, 190, 270, 400, 600)  # of words whose neighbours a report lists


def settle_tokenizer(recipe: Recipe, given: Given) -> Recipe:
    """`recipe` with tokenizer "auto" decided: words, or characters for a text without spaces."""
    if recipe.text.tokenizer != "auto":
        return recipe
    if _has_spaces(recipe, given):
        kind, why = "word", "vectors are for words"
    else:
        kind, why = "character", "the text is mostly Chinese, Japanese or Korean, without spaces"
    progress.note(f"tokenizer: {kind}, because {why} (--tokenizer takes another)")
    return recipe.replace(text={"tokenizer": kind})


def _has_spaces(recipe: Recipe, given: Given) -> bool:
    from budgerigar.text.plan import expand
    from budgerigar.text.reading import read_blocks
    from budgerigar.text.sampling import draw_sample

    files = list(given.text_files)
    if not files and recipe.text.corpus == "stories":
        return recipe.text.language != "zh"
    if not files and recipe.text.corpus:
        from budgerigar.text.catalogue import fetch

        files = list(fetch(recipe.text.corpus).files.values())
    if not files:
        return True
    start = ""
    for block in read_blocks(expand(files)[0], recipe.text.encoding):
        start += block
        if len(start) >= PROBE_CHARACTERS:
            break
    return not draw_sample([start[:PROBE_CHARACTERS]], 4 * PROBE_CHARACTERS, 0).mostly_cjk


def train_vectors(recipe: Recipe, corpus: Any, given: Given, path: Path) -> TrainedRun:
    """Learn vectors from a prepared corpus, in a new run folder."""
    asked = recipe.model_config(corpus.tokenizer.vocab_size)
    text = vector_text(corpus, asked)
    for note in _notes(text, corpus):
        progress.note(note)
    recipe = _fix_epochs(recipe, text)
    described = describe_corpus(corpus, given)
    config = make_config(text.config, described)
    folder = RunFolder.create(path, config, to_toml(recipe), corpus.tokenizer)
    with folder.lock():
        return _finish(folder, recipe, corpus, text, None)


def resume_vectors(
    folder: RunFolder, recipe: Recipe, corpus: Any, checkpoint: Checkpoint | None
) -> TrainedRun:
    """Go on with a run (its lock is held) from `checkpoint`, or from the beginning."""
    text = vector_text(corpus, recipe.model_config(corpus.tokenizer.vocab_size))
    bytes_then = 0 if checkpoint is None else int(checkpoint.state["metrics_bytes"])
    cut_metrics(folder.metrics_path, bytes_then)
    return _finish(folder, recipe, corpus, text, checkpoint)


def _notes(text: VectorText, corpus: Any) -> list[str]:
    config, n = text.config, len(text.train)
    case = ""
    if corpus.tokenizer.kind == "word":
        case = (
            ", upper and lower case as one" if config.lowercase else ", upper and lower case apart"
        )
    return [
        f"vectors: for {len(text.words):,} words (at least {config.min_count} times in the text"
        f"{case}); {n:,} of {corpus.train.n_tokens:,} tokens are such words, the others (signs, "
        "white space, rare words) are left out"
    ]


def _fix_epochs(recipe: Recipe, text: VectorText) -> Recipe:
    """Settle the number of passes once, where minutes were asked for."""
    minutes = recipe.training.minutes
    if minutes is None:
        return recipe
    trainer = VectorTrainer(_fresh(text, recipe), text, recipe.training, 1)
    begun = time.perf_counter()
    blocks = trainer.blocks(0, 0)
    timed = min(TIMED_BLOCKS, len(blocks))
    prepared = time.perf_counter() - begun
    for number in range(timed):
        trainer.learn(blocks[number], 0.0)
    each = (time.perf_counter() - begun - prepared) / max(timed, 1)
    spans = max(1.0, len(text.train) / max(trainer.span_words(), 1))
    seconds = spans * (prepared + each * len(blocks))
    epochs = max(1, int(SHARE_FOR_STEPS * 60 * minutes / max(seconds, 1e-9)))
    progress.note(f"{epochs:,} passes over the text fit into {minutes:g} minutes here")
    return recipe.replace(training={"epochs": epochs, "minutes": None})


def _fresh(text: VectorText, recipe: Recipe) -> WordVectors:
    return WordVectors.begin(text.config, text.rows, text.counts, recipe.training.seed)


def _finish(
    folder: RunFolder,
    recipe: Recipe,
    corpus: Any,
    text: VectorText,
    checkpoint: Checkpoint | None,
) -> TrainedRun:
    trainer = VectorTrainer(
        _fresh(text, recipe), text, recipe.training, recipe.training.epochs, folder
    )
    if checkpoint is not None:
        trainer.restore(checkpoint)
        place = trainer.place
        progress.note(f"going on in pass {place.epoch + 1} of {trainer.epochs}")
    begun = time.perf_counter()
    with StopRequest() as stop:
        finished = trainer.run(stop)
    place = trainer.place
    if not finished:
        progress.note(
            f"stopped in pass {place.epoch + 1} of {trainer.epochs} ({stop.asked}); its state is "
            f"saved. Go on with: budgie train --resume {folder.path}"
        )
    model = trainer.model
    report: dict[str, Any] = {
        "finished": finished,
        "step": place.blocks,
        "epochs": place.epoch,
        "best_loss": place.best_loss,
        "best_epoch": place.best_epoch,
        "pairs": place.pairs,
        "training_seconds": place.seconds,
        "seconds": time.perf_counter() - begun,
    }
    if finished:
        found = evaluate_vectors(model, text.validation)
        report["evaluation"] = found.as_dict()
        _log_final(folder, model, text, found, place)
        write_report(folder.path)
    return TrainedRun(folder.path, model, corpus.tokenizer, report)


def _log_final(
    folder: RunFolder, model: WordVectors, text: VectorText, found: VectorEvaluation, place: Place
) -> None:
    """The kept vectors' losses and the neighbours of some words, for the report."""
    losses = {"frequency alone": found.by_frequency, "nothing": found.by_nothing}
    append_metrics(folder.metrics_path, {"kind": "baselines", "losses": losses})
    ranks = [rank for rank in SHOWN_RANKS if rank < model.n_words] or range(min(4, model.n_words))
    near = {
        text.words[rank]: [text.words[row] for row, _ in model.neighbours(rank, 8)]
        for rank in ranks
    }
    append_metrics(folder.metrics_path, {"kind": "neighbours", "words": near})
    entry = {"kind": "final", "step": place.blocks, "epoch": place.epoch, "loss": found.loss}
    append_metrics(folder.metrics_path, entry | {"n_tokens": found.n_tokens})
    progress.note(
        f"held-out loss {found.loss:.4f} nats per pair; by frequency alone "
        f"{found.by_frequency:.4f}, by nothing {found.by_nothing:.4f}{_rose(place, found.loss)}"
    )


def _rose(place: Place, loss: float) -> str:
    """A remark where fewer passes would have given a lower loss."""
    if place.best_loss is None or loss < place.best_loss + 0.01:
        return ""
    return (
        f". It was lowest, {place.best_loss:.4f}, after pass {place.best_epoch}: at a high rate the "
        "vectors lean to what they read last, later some is learnt by heart. Kept is the last pass"
    )
