"""What is measured between two steps of a loop: evaluations, the best weights, samples.

None of it changes the training: generators and the network's mode are put back, averaged weights
are in place only while they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from budgerigar import progress
from budgerigar.formats.run import save_weights
from budgerigar.training.events import (
    EvaluationEvent,
    SampleEvent,
    Written,
    beside,
    on_one_line,
    untouched,
)
from budgerigar.training.progress_state import Standing
from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.signals import StopRequest

if TYPE_CHECKING:
    from budgerigar.training.loop import Loop


NATS_PER_TOKEN = "nats per token"


@dataclass
class Surroundings:
    """What the loop needs from outside; `evaluate` and `sample` leave the network as it was."""

    evaluate: Callable[[nn.Module, bool], Any]  # (network, whole split?) -> Evaluation
    sample: Callable[[nn.Module, int], Written | str] | None  # (network, step) -> what it writes
    tokenizer: Any
    vocab_size: int
    baselines: dict[str, float] = field(default_factory=dict)
    evaluated_on: str = ""  # which part of the validation split, in words; empty: all of it
    weights_metadata: dict[str, str] = field(default_factory=dict)


def evaluate(loop: Loop, stop: StopRequest, last: bool) -> None:
    """Measure the (averaged) weights, keep them if they are the best, end the run out of patience."""
    loop.read(stop)
    loop.check_weights()
    loop.averages.before_evaluation()
    with untouched(loop.network), loop.averages.in_place():
        loop.network.eval()
        found = loop.around.evaluate(loop.network, False)
        loop.check_weights(found.nats_per_token)
        is_best = _judge(loop.standing, found, loop.settings)
        if is_best:
            loop.best_evaluation = found
            metadata = {"step": str(loop.standing.step), **loop.around.weights_metadata}
            save_weights(loop.folder.path, loop.network, metadata)
        told = loop.watchers.tell("on_evaluation", _event(loop, found, is_best))
    _log(loop, found, is_best)
    if told:
        stop.ask("a callback")
    patience = loop.settings.patience
    if patience is not None and loop.standing.evaluations_since_best >= patience and not last:
        standing = loop.standing
        progress.note(
            f"no better {loop.settings.best_by.replace('bleu', 'BLEU')} in {patience} evaluations: "
            f"stopped at step {standing.step}; the best was {best_in_words(standing, loop.settings)} "
            f"at step {standing.best_step}"
        )
        standing.finished = True


def _judge(standing: Standing, found: Any, settings: TrainingRecipe) -> bool:
    """Whether these weights are the best so far; `standing` then knows them by both measures."""
    loss, bleu, accuracy = found.nats_per_token, bleu_of(found), accuracy_of(found)
    score = {"bleu": bleu, "accuracy": accuracy}.get(settings.best_by)
    best = {"bleu": standing.best_bleu, "accuracy": standing.best_accuracy}.get(settings.best_by)
    if standing.best_loss is None:
        is_best = True
    elif score is not None and best is not None:
        is_best = (score, -loss) > (best, -standing.best_loss)
    else:
        is_best = loss < standing.best_loss
    if is_best:
        standing.best_loss, standing.best_bleu, standing.best_step = loss, bleu, standing.step
        standing.best_accuracy = accuracy
    standing.evaluations_since_best = 0 if is_best else standing.evaluations_since_best + 1
    return is_best


def bleu_of(found: Any) -> float | None:
    """BLEU of an evaluation; None where nothing was translated."""
    return getattr(found, "bleu", None)


def unit_of(found: Any) -> str:
    """What the loss of an evaluation is counted in."""
    return str(getattr(found, "unit", NATS_PER_TOKEN))


def accuracy_of(found: Any) -> float | None:
    """Share of texts whose class was told right; None where no classes are told."""
    return found.accuracy if hasattr(found, "macro_f1") else None


def bits_of(found: Any) -> float | None:
    """Bits per byte; None for what is no probability of a text."""
    return getattr(found, "bits_per_byte", None)


def best_in_words(standing: Standing, settings: TrainingRecipe) -> str:
    """The best value so far of what decides."""
    if settings.best_by == "accuracy" and standing.best_accuracy is not None:
        return f"{100 * standing.best_accuracy:.1f} %"
    if settings.best_by == "bleu" and standing.best_bleu is not None:
        return f"{standing.best_bleu:.2f}"
    return f"{standing.best_loss:.4f}"


def _event(loop: Loop, found: Any, is_best: bool) -> EvaluationEvent:
    return EvaluationEvent(
        step=loop.standing.step,
        total_steps=loop.standing.total_steps,
        loss=found.nats_per_token,
        bits_per_byte=bits_of(found),
        is_best=is_best,
        baselines=loop.around.baselines,
        training_seconds=loop.standing.training_seconds,
        evaluation=found,
        network=loop.network,
        tokenizer=loop.around.tokenizer,
        bleu=bleu_of(found),
    )


def measures(found: Any) -> dict[str, Any]:
    """What metrics.jsonl keeps of an evaluation."""
    entry = {"loss": found.nats_per_token, "n_tokens": found.n_tokens}
    if unit_of(found) != NATS_PER_TOKEN:
        entry["unit"] = unit_of(found)
    more = {"bits_per_byte": bits_of(found), "bleu": bleu_of(found), "accuracy": accuracy_of(found)}
    more["macro_f1"] = getattr(found, "macro_f1", None)
    return entry | {name: value for name, value in more.items() if value is not None}


def beside_loss(found: Any) -> str:
    """In words, what an evaluation found beside its loss."""
    said = []
    if (bits := bits_of(found)) is not None:
        said.append(f"{bits:.3f} bits per byte")
    if (bleu := bleu_of(found)) is not None:
        said.append(f"BLEU {bleu:.2f}")
    if (accuracy := accuracy_of(found)) is not None:
        said.append(f"{100 * accuracy:.1f} % right, macro F1 {100 * found.macro_f1:.1f} %")
    return "".join(f", {words}" for words in said)


def _log(loop: Loop, found: Any, is_best: bool) -> None:
    standing = loop.standing
    entry = {"kind": "evaluation", "step": standing.step, **measures(found), "best": is_best}
    entry["clock"] = {"training_seconds": round(standing.training_seconds, 3)}
    loop.metrics.append(entry)
    loop.metrics.flush()
    progress.note(
        f"step {standing.step:,} of {standing.total_steps:,}: loss {found.nats_per_token:.4f}"
        f"{beside_loss(found)}{loop.around.evaluated_on}"
        f"{beside(found.nats_per_token, loop.around.baselines)}"
    )


def sample(loop: Loop, stop: StopRequest) -> None:
    """Let the network write something, and log it."""
    loop.read(stop)
    loop.check_weights()
    assert loop.around.sample is not None
    with untouched(loop.network), loop.averages.in_place(), torch.no_grad():
        loop.network.eval()
        found = loop.around.sample(loop.network, loop.standing.step)
    written = Written(found) if isinstance(found, str) else found
    entry: dict[str, Any] = {"kind": "sample", "step": loop.standing.step, "text": written.text}
    if written.translations:
        entry["translations"] = [t.as_dict() for t in written.translations]
    loop.metrics.append(entry)
    if written.translations:
        for one in written.translations:
            progress.note(f"  {on_one_line(one.source)} -> {on_one_line(one.hypothesis)}")
    else:
        progress.note(f"  it writes: {on_one_line(written.text)}")
    event = SampleEvent(loop.standing.step, written.text, written.translations)
    if loop.watchers.tell("on_sample", event):
        stop.ask("a callback")
