"""Why attention: what a recurrent network has read fades; attention looks back at it.

Stories that name a pet, then talk of other things, then ask for the pet. An LSTM (Hochreiter &
Schmidhuber 1997) has to carry the pet through every word between in a state of fixed size; a
Transformer of fewer weights looks at the word itself. Both learn from the same words, the same
number of times, by the same optimizer. (With AdamW the LSTM's loss is twice as high: 1.52 nats instead
of 0.75, and it recalls no more.)
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

from budgerigar.evaluation.cloze import fill_gaps
from budgerigar.experiments.why.frame import Lines, Measured, WhyResult
from budgerigar.experiments.why.learning import from_windows, last_mean, learn
from budgerigar.experiments.why.stories import Stories, config, gather, settings
from budgerigar.models import build
from budgerigar.models.ancestor_configs import RecurrentConfig
from budgerigar.said import Said, said
from budgerigar.text.batches import WindowBatches
from budgerigar.text.corpus import Corpus
from budgerigar.text.stories import CHANCE, cloze_set
from budgerigar.training.recipe import TrainingRecipe

# 96: the longest passage with 24 words between has 90
STORIES = Stories(n=8000, filler_words=(0, 30), length=96, d_model=72, steps=200, batch=24)
AT_RANDOM = 100 * CHANCE  # % right


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    stories: Stories = STORIES
    d_hidden: int = 128
    d_embedding: int = 64
    distances: tuple[int, ...] = (0, 6, 12, 24)
    """words of other things between the opening and the gap"""
    told: int = 24
    tests: int = 150


@dataclass(frozen=True)
class Recall:
    """What one network remembers."""

    accuracy: list[float]
    """% of the gaps, at each distance"""
    loss: float
    """nats per word at the end of the training"""
    parameters: int
    seconds: float


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """Train both on the same stories and ask both for the pet."""
    corpus = gather(sizes.stories, seed)
    training = settings(sizes.stories)
    recurrent = measure(_lstm(corpus, seed, sizes), lstm_settings(training), corpus, seed, sizes)
    attentive = measure(build(config(corpus, sizes.stories), seed), training, corpus, seed, sizes)
    at = sizes.distances.index(sizes.told)
    without, with_attention = recurrent.accuracy[at], attentive.accuracy[at]
    held = with_attention > 90 and without < 60
    fades = recurrent.accuracy[0] > 2 * AT_RANDOM
    lost = said("the LSTM loses") if fades else said("the LSTM has not learnt to carry along")
    return WhyResult(
        part="attention",
        seed=seed,
        problem=said(
            "A recurrent network squeezes all that it has read into one vector, word after word; what "
            "was said long ago has to survive each of these rewritings."
        ),
        without=Measured(
            said("LSTM, {told}+ words later", told=sizes.told), without, said("% recalled"), 1
        ),
        with_part=Measured(said("Transformer"), with_attention, said("% recalled"), 1),
        panels=(_curves(recurrent, attentive, sizes),),
        shows=_shows(recurrent, attentive, fades, sizes),
        held=held,
        verdict=said("It holds: attention finds what {lost}, in the same training.", lost=lost)
        if held
        else said(
            "It does not show this time: the LSTM recalls too well, or the Transformer too badly."
        ),
        next_problem=said(
            "One look is one weighted average. A word often needs two others at once."
        ),
        numbers={
            "distances": list(sizes.distances),
            "LSTM": recurrent,
            "Transformer": attentive,
            "chance": AT_RANDOM,
        },
    )


def _curves(recurrent: Recall, attentive: Recall, sizes: Sizes) -> Lines:
    return Lines(
        said("the pet named again after other words (generated stories)"),
        said("words between, at least"),
        said("% right"),
        sizes.distances,
        {said("Transformer"): attentive.accuracy, said("LSTM"): recurrent.accuracy},
        line=(said("chance"), AT_RANDOM),
        bottom=0.0,
        top=100.0,
    )


def _shows(recurrent: Recall, attentive: Recall, fades: bool, sizes: Sizes) -> Said:
    never = said("in this time it has not learnt to carry the pet along at all")
    return said(
        "After {words:,} words of training, the same for both, of {tests} unseen stories at each "
        "distance: the LSTM ({lstm_weights:,} weights, {lstm_seconds:.0f} s) recalls {lstm}% at "
        "{distances} words: {kept}; the Transformer ({weights:,} weights, {seconds:.0f} s) "
        "{transformer}%. Chance is {chance:.1f}%. In their losses, {lstm_loss:.2f} and {loss:.2f} "
        "nats per word, one sees little of it: most words depend on what is near, this one does "
        "not.",
        words=sizes.stories.steps * sizes.stories.batch * sizes.stories.length,
        tests=sizes.tests,
        lstm_weights=recurrent.parameters,
        lstm_seconds=recurrent.seconds,
        lstm=_row(recurrent),
        distances=_plain(sizes.distances),
        kept=said("it fades") if fades else never,
        weights=attentive.parameters,
        seconds=attentive.seconds,
        transformer=_row(attentive),
        chance=AT_RANDOM,
        lstm_loss=recurrent.loss,
        loss=attentive.loss,
    )


def _lstm(corpus: Corpus, seed: int, sizes: Sizes) -> Any:
    return build(
        RecurrentConfig(
            vocab_size=corpus.tokenizer.vocab_size,
            cell="lstm",
            n_layers=1,
            d_embedding=sizes.d_embedding,
            d_hidden=sizes.d_hidden,
        ),
        seed,
    )


def lstm_settings(training: TrainingRecipe) -> TrainingRecipe:
    """The Transformer's, with the rates that suit an LSTM, and clipped (Pascanu et al. 2013)."""
    return dataclasses.replace(training, muon_learning_rate=0.04, learning_rate=0.02, clip=1.0)


def measure(
    network: Any, training: TrainingRecipe, corpus: Corpus, seed: int, sizes: Sizes
) -> Recall:
    """Train `network` on the stories, then fill the gaps of unseen ones."""
    own = sizes.stories
    batches = WindowBatches(corpus.train, own.length, own.batch, seed, order="shuffled")
    started = time.perf_counter()
    what = type(network).__name__
    losses = learn(network, from_windows(batches), own.steps, training, what)
    seconds = time.perf_counter() - started
    accuracy = []
    for distance in sizes.distances:
        tests = cloze_set(sizes.tests, seed + 1, filler_words=distance)
        found = fill_gaps(network, corpus.tokenizer, tests, corpus.train.end_id)
        accuracy.append(100 * found.accuracy)
    weights = sum(p.numel() for p in network.parameters())
    return Recall(accuracy, last_mean(losses), weights, seconds)


def _row(found: Recall) -> str:
    return _plain(round(value) for value in found.accuracy)


def _plain(values: Any) -> str:
    return ", ".join(map(str, values))


__all__ = ["Recall", "Sizes", "measure", "run"]
