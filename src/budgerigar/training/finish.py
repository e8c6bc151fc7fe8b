"""What surrounds a loop, the same for new and resumed runs: evaluating, sampling, ending well."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from budgerigar import progress
from budgerigar.formats.adapters import weights_file
from budgerigar.formats.metrics import append_metrics
from budgerigar.formats.run import RunFolder, save_weights
from budgerigar.formats.tensors import load_network_tensors, read_tensors
from budgerigar.training.adapting import before_and_after, evaluation_length
from budgerigar.training.allocator import give_back_freed_memory
from budgerigar.training.classifying import class_evaluator, class_sampler
from budgerigar.training.corpora import first_tokens, measure_baselines
from budgerigar.training.device import Compute
from budgerigar.training.events import untouched
from budgerigar.training.fill_in import fill_in_evaluator, fill_in_sampler, plateau
from budgerigar.training.loop import Loop
from budgerigar.training.measuring import Surroundings, beside_loss, measures, unit_of
from budgerigar.training.objectives import CLASSIFICATION, FILL_IN, NEXT_TOKEN
from budgerigar.training.recipe import Recipe
from budgerigar.training.report import write_report
from budgerigar.training.signals import StopRequest
from budgerigar.training.translating import pair_evaluator, pair_sampler


@dataclass
class TrainedRun:
    """A run that has ended or was asked to stop. `network` has its best weights."""

    folder: Path
    network: Any
    tokenizer: Any
    report: dict[str, Any]
    source_tokenizer: Any = None  # of an encoder-decoder; the same object as tokenizer where joint


def compared(recipe: Recipe, corpus: Any, context_length: int | None) -> dict[str, float]:
    lines = measure_baselines(recipe, corpus, context_length)
    if lines:
        shown = ", ".join(f"{name} {loss:.3f}" for name, loss in lines.items())
        per = "text" if recipe.objective == CLASSIFICATION else "token"
        progress.note(f"to compare with, nats per {per}: {shown}")
    return lines


def make_loop(
    recipe: Recipe,
    corpus: Any,
    folder: RunFolder,
    network: nn.Module,
    batches: Any,
    compute: Compute,
    threads: int,
    lines: dict[str, float],
    callbacks: Iterable[Any],
) -> Loop:
    evaluate, sample = _eyes(recipe, corpus)
    classes = getattr(corpus, "classes", None)
    on_part = recipe.objective in (NEXT_TOKEN, *FILL_IN)
    around = Surroundings(
        evaluate=evaluate,
        sample=sample,
        tokenizer=corpus.tokenizer,
        vocab_size=len(classes) if classes else corpus.tokenizer.vocab_size,
        baselines=lines,
        evaluated_on=_part_in_words(recipe, corpus) if on_part else "",
    )
    steps = recipe.training.steps
    assert steps is not None
    return Loop(
        network, batches, recipe.training, compute, folder, around, steps, threads, callbacks
    )


def _eyes(recipe: Recipe, corpus: Any) -> tuple[Any, Any]:
    """What evaluates and what samples, by the objective."""
    if recipe.reads_pairs:
        return pair_evaluator(recipe, corpus), pair_sampler(recipe, corpus)
    if recipe.objective == CLASSIFICATION:
        return class_evaluator(corpus), class_sampler(recipe, corpus)
    if recipe.objective in FILL_IN:
        evaluate = fill_in_evaluator(
            recipe, corpus.validation, _part(recipe, corpus), corpus.tokenizer
        )
        return evaluate, fill_in_sampler(recipe, corpus)
    return _evaluator(recipe, corpus), _sampler(recipe, corpus)


def _part(recipe: Recipe, corpus: Any) -> Any:
    """What is evaluated on along the way: the validation split, or its beginning."""
    most, whole = recipe.training.evaluation_tokens, corpus.validation
    if most is None or most >= whole.n_tokens:
        return whole
    return first_tokens(whole, most, corpus.tokenizer)


def _evaluator(recipe: Recipe, corpus: Any) -> Callable[[nn.Module, bool], Any]:
    from budgerigar.evaluation import evaluate

    whole, part = corpus.validation, _part(recipe, corpus)

    def run(network: Any, everything: bool) -> Any:
        length = evaluation_length(recipe, network)
        give_back_freed_memory()
        found = evaluate(network, whole if everything else part, context_length=length)
        give_back_freed_memory()
        return found

    return run


def _part_in_words(recipe: Recipe, corpus: Any) -> str:
    most, all_of_it = recipe.training.evaluation_tokens, corpus.validation.n_tokens
    if most is None or most >= all_of_it:
        return ""
    return f" on the first {most:,} of {all_of_it:,} tokens"


def _sampler(recipe: Recipe, corpus: Any) -> Callable[[nn.Module, int], str] | None:
    if recipe.training.sample_every == 0:
        return None
    from budgerigar.generation.options import SamplingOptions
    from budgerigar.generation.streaming import generate_texts
    from budgerigar.text.store import opens_texts

    starts = opens_texts(corpus.train)

    def run(network: nn.Module, step: int) -> str:
        options = SamplingOptions(
            max_new_tokens=recipe.training.sample_tokens, seed=recipe.training.seed
        )
        found = generate_texts(network, corpus.tokenizer, [""], options, starts_documents=starts)
        return str(found[0].text)

    return run


def run_loop(loop: Loop, recipe: Recipe, corpus: Any, folder: RunFolder) -> TrainedRun:
    """Train, then give back the best weights with a report of how it went."""
    with StopRequest() as stop:
        standing = loop.run(stop)
    finished = standing.step >= standing.total_steps or standing.finished
    if not finished:
        progress.note(
            f"stopped at step {standing.step:,} of {standing.total_steps:,} ({stop.asked}); its state "
            f"is saved. Go on with: budgie train --resume {folder.path}"
        )
    network = loop.network
    if folder.weights_path.is_file():  # into the network there is: a second one would not fit
        path = weights_file(folder.path, folder.config())
        load_network_tensors(network, read_tensors(path), path)
    else:
        save_weights(folder.path, network)
    source = getattr(corpus, "source_tokenizer", None)
    report: dict[str, Any] = {
        "finished": finished,
        "step": standing.step,
        "total_steps": standing.total_steps,
        "best_loss": standing.best_loss,
        "best_bleu": standing.best_bleu,
        "best_accuracy": standing.best_accuracy,
        "best_step": standing.best_step,
        "tokens": standing.tokens,
        "training_seconds": standing.training_seconds,
        "seconds": standing.seconds,
        "threads": loop.threads,
        "baselines": loop.around.baselines,
    }
    if finished:
        found = _final_evaluation(loop, network)
        report["evaluation"] = dataclasses.asdict(found)
        _log_final(folder, loop, found)
        report |= before_and_after(folder.metrics_path, found)
        write_report(folder.path, network, corpus.tokenizer, source)
    return TrainedRun(folder.path, network.eval(), corpus.tokenizer, report, source)


def _final_evaluation(loop: Loop, network: Any) -> Any:
    """The best weights on the whole validation split."""
    found = loop.best_evaluation
    if found is None or loop.around.evaluated_on:  # along the way, on a part
        with untouched(network):
            found = loop.around.evaluate(network.eval(), True)
    return found


def _log_final(folder: RunFolder, loop: Loop, found: Any) -> None:
    """The number of the run: its best weights over every token of the validation split."""
    entry = {"kind": "final", "step": loop.standing.best_step, **measures(found)}
    append_metrics(folder.metrics_path, entry)
    unit = unit_of(found)
    things = "texts" if unit == "nats per text" else "tokens"
    progress.note(
        f"the weights of step {loop.standing.best_step:,} are kept; over all {found.n_tokens:,} "
        f"validation {things} their loss is {found.nats_per_token:.4f} {unit}{beside_loss(found)}"
    )
    if warning := plateau([found.nats_per_token], loop.around.baselines, unit):
        progress.note(f"warning: {warning}")
