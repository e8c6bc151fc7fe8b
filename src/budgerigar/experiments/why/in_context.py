"""Why two layers of attention: a model that reads a rule in its context uses it without learning it.

Brown et al. 2020 (GPT-3) called it in-context learning: shown some pairs of a map in the text itself,
the model goes on with the map, its weights unchanged. Olsson et al. 2022 found what does it in small
models and when it comes: an *induction head*, which looks at what followed the present word when it
stood there before. It needs a head below it that tells each place which word stands before it
(Elhage et al. 2021): two layers. Here: two layers of one head each and nothing else, against the same
two heads side by side in one layer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from budgerigar.experiments.why import word_maps
from budgerigar.experiments.why.frame import Lines, Measured, WhyResult
from budgerigar.experiments.why.learning import ADAM, Inputs, learn
from budgerigar.experiments.why.parts import attention_weights, for_words, without_feed_forward
from budgerigar.experiments.why.real_maps import WORDS
from budgerigar.experiments.why.word_maps import Shots
from budgerigar.inspection.induction import THRESHOLD, induction_scores
from budgerigar.models.transformer import Transformer
from budgerigar.said import Said, said

# A rate three times that of the other small tasks: with it the head forms well within 500 steps.
SETTINGS = dataclasses.replace(ADAM, learning_rate=0.01, schedule="constant")
KNOWN = 90.0  # % right that count as knowing the map
UNKNOWN = 50.0  # and as not knowing it: a guess among the values of the map has 1 of `pairs`
AROUND = 3  # measurements before and after the head's step, between which the drop is taken


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    n_words: int = 48
    pairs: int = 6
    """of a map"""
    rounds: int = 9
    """of a test sequence; its last has seen each pair rounds - 1 times"""
    steps: int = 500
    batch: int = 32
    every: int = 20
    """steps between two measurements"""
    d_model: int = 64
    tests: int = 64
    """sequences"""
    repeats: int = 16
    """texts of as many random words as a map has, twice: what the induction score is measured on"""
    shown: tuple[int, ...] = (0, 1, 2, 4, 8)
    """numbers of shots in the words of the result"""

    @property
    def turns(self) -> int:
        """Pairs of a sequence."""
        return self.pairs * self.rounds


@dataclass(frozen=True)
class Moment:
    """One network at one step of its training."""

    step: int
    shots: Shots
    scores: dict[str, float]
    """induction score of each head"""
    before: dict[str, float]
    """mean weight of each head on the word before"""

    @property
    def best(self) -> tuple[str, float]:
        """The head with the highest induction score, and that score."""
        return max(self.scores.items(), key=lambda item: item[1])


@dataclass(frozen=True)
class Learnt:
    """One network from its first step to its last."""

    moments: tuple[Moment, ...]
    parameters: int

    @property
    def appears(self) -> int | None:
        """Index of the first moment with an induction head; None: there is none."""
        found = (n for n, moment in enumerate(self.moments) if moment.best[1] >= THRESHOLD)
        return next(found, None)

    @property
    def step(self) -> int | None:
        """The step of that moment."""
        return None if self.appears is None else self.moments[self.appears].step

    @property
    def drop(self) -> tuple[float, float] | None:
        """The in-context loss shortly before and shortly after the head appears."""
        if self.appears is None:
            return None
        early = self.moments[max(0, self.appears - AROUND)]
        late = self.moments[min(len(self.moments) - 1, self.appears + AROUND)]
        return early.shots.in_context, late.shots.in_context


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """Train both and measure them all the while."""
    one = measure(seed, sizes, layers=1)
    two = measure(seed, sizes, layers=2)
    return report(seed, sizes, one, two)


def report(seed: int, sizes: Sizes, one: Learnt, two: Learnt) -> WhyResult:
    """The measurements as a result."""
    shots = list(range(sizes.rounds))
    last, control = two.moments[-1], one.moments[-1]
    held = holds(one, two)
    early = two.moments[max(0, (two.appears or len(two.moments)) - AROUND)]
    curves: dict[str, Moment] = {
        said("2 layers, step {step}", step=last.step): last,
        said("2 layers, step {step}", step=early.step): early,
        said("1 layer, step {step}", step=control.step): control,
    }
    return WhyResult(
        part="in-context",
        seed=seed,
        problem=said(
            "Weights know what was in the training text. A map of words that is made up in the text "
            "itself, cat → tac, dog → god, they cannot know: it has to be read there."
        ),
        without=Measured(
            said("1 layer, shown {times} times", times=shots[-1]),
            control.shots.accuracy[-1].mean,
            said("% right"),
            1,
        ),
        with_part=Measured(said("2 layers"), last.shots.accuracy[-1].mean, said("% right"), 1),
        panels=(*_curves(sizes, shots, curves), _history(sizes, one, two)),
        shows=_shows(sizes, one, two, early),
        held=held,
        verdict=_verdict(held, two),
        next_problem=said(
            "A model of real text is shown examples of a rule, not the same pair again: what does it "
            "make of them?"
        ),
        samples=(
            (said("a text (the model reads the words alone, as numbers)"), _sample(seed, sizes)),
        ),
        numbers={
            "2 layers": two,
            "1 layer": one,
            "appears at step": two.step,
            "in-context loss around it": two.drop,
        },
    )


def holds(one: Learnt, two: Learnt) -> bool:
    """The head comes, most of the fall of the in-context loss with it, and the map is known then and
    not before; a single layer has no such head and does not know the map.
    """
    if two.appears is None or one.appears is not None or two.drop is None:
        return False
    early = two.moments[max(0, two.appears - AROUND)].shots.accuracy[-1].mean
    late, control = (learnt.moments[-1].shots.accuracy[-1].mean for learnt in (two, one))
    whole = two.moments[0].shots.in_context - two.moments[-1].shots.in_context
    sharp = two.drop[0] - two.drop[1] > whole / 2
    return sharp and late > KNOWN and early < UNKNOWN and control < UNKNOWN


def _chance(sizes: Sizes) -> tuple[str, float]:
    return said("any word alike"), math.log(sizes.n_words)


def _guess(sizes: Sizes) -> tuple[str, float]:
    return said("one of the map's values"), 100 / sizes.pairs


def _curves(sizes: Sizes, shots: list[int], curves: dict[str, Moment]) -> tuple[Lines, Lines]:
    losses, answers = said("loss by times shown"), said("answers by times shown")
    return (
        _curve(losses, said("nats per value"), shots, curves, "loss", _chance(sizes)),
        _curve(answers, said("% right"), shots, curves, "accuracy", _guess(sizes)),
    )


def _curve(
    title: str,
    unit: str,
    shots: list[int],
    curves: dict[str, Moment],
    what: str,
    line: tuple[str, float],
) -> Lines:
    rows = {name: [m.mean for m in getattr(one.shots, what)] for name, one in curves.items()}
    return Lines(
        title,
        said("times that the pair was shown before"),
        unit,
        shots,
        rows,
        line=line,
        bottom=0.0,
        top=100.0 if what == "accuracy" else None,
    )


def _history(sizes: Sizes, one: Learnt, two: Learnt) -> Lines:
    """All in one: what falls, and the head that comes meanwhile."""
    chance = math.log(sizes.n_words)
    return Lines(
        said("as it learns"),
        said("training steps"),
        said("loss: share of chance; heads: weight"),
        [moment.step for moment in two.moments],
        {
            said("2 layers: loss on what was shown"): [
                m.shots.in_context / chance for m in two.moments
            ],
            said("2 layers: induction score, L1.H0"): [m.scores["L1.H0"] for m in two.moments],
            said("2 layers: L0.H0 on the word before"): [m.before["L0.H0"] for m in two.moments],
            said("1 layer: loss on what was shown"): [
                m.shots.in_context / chance for m in one.moments
            ],
            said("1 layer: best induction score"): [m.best[1] for m in one.moments],
        },
        line=(said("threshold"), THRESHOLD),
        bottom=0.0,
        top=1.0,
    )


def _shows(sizes: Sizes, one: Learnt, two: Learnt, early: Moment) -> Said:
    last, control = two.moments[-1], one.moments[-1]
    shown = [k for k in sizes.shown if k < sizes.rounds]
    return said(
        "Maps of {pairs} pairs of {n_words} words, new in each text. {born} Right answers after "
        "{shots} shots, mean and standard error over {tests} maps: {right} (not shown, a value costs "
        "{unshown:.2f} nats, any word alike {chance:.2f}: it bets on what it has read); at step "
        "{early} {early_right}. One layer with both heads side by side ({one_weights:,} weights, "
        "{two_weights:,} in two layers): {one_right}, loss {one_loss:.2f}, best score {one_best:.2f}: "
        "a place that has not been told which word stands before it cannot be found by that word.",
        pairs=sizes.pairs,
        n_words=sizes.n_words,
        born=_born(sizes, two, early),
        shots=", ".join(map(str, shown)),
        tests=sizes.tests,
        right=_row(last, shown),
        unshown=last.shots.loss[0].mean,
        chance=math.log(sizes.n_words),
        early=early.step,
        early_right=_row(early, shown),
        one_weights=one.parameters,
        two_weights=two.parameters,
        one_right=_row(control, shown),
        one_loss=control.shots.in_context,
        one_best=control.best[1],
    )


def _born(sizes: Sizes, two: Learnt, early: Moment) -> Said:
    """When the head came, and what fell with it."""
    at = two.appears
    if at is None:
        return said(
            "No head reaches an induction score of {threshold} in {steps} steps.",
            threshold=THRESHOLD,
            steps=sizes.steps,
        )
    before, after = two.drop or (math.nan, math.nan)
    moment = two.moments[at]
    return said(
        "{head} looks at what followed the same word before from step {step} on (score {earlier:.2f} "
        "{every} steps earlier, {then:.2f} then, {end:.2f} in the end; {threshold} counts). From step "
        "{from_step} to {to_step} the loss on what was shown falls from {before:.2f} to {after:.2f} "
        "nats.",
        head=moment.best[0],
        step=moment.step,
        earlier=two.moments[max(0, at - 1)].best[1],
        every=sizes.every,
        then=moment.best[1],
        end=two.moments[-1].best[1],
        threshold=THRESHOLD,
        from_step=early.step,
        to_step=two.moments[min(len(two.moments) - 1, at + AROUND)].step,
        before=before,
        after=after,
    )


def _row(moment: Moment, shown: list[int]) -> str:
    means = [moment.shots.accuracy[k] for k in shown]
    return ", ".join(f"{mean.mean:.0f} ± {mean.error:.1f}" for mean in means) + "%"


def _verdict(held: bool, two: Learnt) -> Said:
    if held:
        return said(
            "It holds: looking back at what followed takes two layers, and when the head that does it "
            "appears (step {step}), the model starts to learn from its context.",
            step=two.step,
        )
    return said(
        "It does not show this time: no induction head came, or the loss did not fall with it, or one "
        "layer managed too."
    )


def _sample(seed: int, sizes: Sizes) -> str:
    generator = torch.Generator().manual_seed(seed)
    maps = word_maps.draw_map(1, len(WORDS), sizes.pairs, generator)
    turns = word_maps.at_random(1, sizes.pairs, sizes.turns, generator)
    words = [WORDS[n] for n in word_maps.spell(maps, turns)[0].tolist()]
    pairs = zip(words[::2], words[1::2], strict=True)
    return ", ".join(f"{key} → {value}" for key, value in pairs)


def measure(seed: int, sizes: Sizes, layers: int) -> Learnt:
    """Train a network of two heads: one in each of two layers, or both in one."""
    heads = 2 // layers
    own = {"n_layers": layers, "n_heads": heads, "d_head": sizes.d_model, "d_ff": 1}
    config = for_words(sizes.n_words, 2 * sizes.turns, sizes.d_model, **own)
    network = without_feed_forward(Transformer(config, seed))
    generator = torch.Generator().manual_seed(seed)

    def following() -> tuple[Inputs, Tensor]:
        maps = word_maps.draw_map(sizes.batch, sizes.n_words, sizes.pairs, generator)
        turns = word_maps.at_random(sizes.batch, sizes.pairs, sizes.turns, generator)
        tokens = word_maps.cut(word_maps.spell(maps, turns), generator)
        return {"tokens": tokens[:, :-1]}, tokens[:, 1:]

    look = _watcher(network, seed, sizes)
    moments: list[Moment] = []

    def watch(step: int) -> None:
        if step % sizes.every == 0:
            moments.append(look(step))

    learn(network, following, sizes.steps, SETTINGS, f"{layers} layers", watch=watch)
    return Learnt(tuple(moments), sum(p.numel() for p in network.parameters() if p.requires_grad))


def _watcher(network: Transformer, seed: int, sizes: Sizes) -> Callable[[int], Moment]:
    """Measures the network on texts of another seed, the same at each step."""
    generator = torch.Generator().manual_seed(seed + 10_000)
    maps = word_maps.draw_map(sizes.tests, sizes.n_words, sizes.pairs, generator)
    turns = word_maps.in_rounds(sizes.tests, sizes.pairs, sizes.rounds, generator)
    tests = word_maps.spell(maps, turns)
    twice = word_maps.repeated(sizes.repeats, sizes.n_words, 2 * sizes.pairs, generator)

    @torch.inference_mode()
    def look(step: int) -> Moment:
        found = word_maps.shots(network(tests), tests, sizes.rounds)
        return Moment(step, found, *head_scores(network, twice))

    return look


def head_scores(network: Transformer, texts: Tensor) -> tuple[dict[str, float], dict[str, float]]:
    """Induction score and mean weight on the token before, of every head, over texts (B,T)."""
    induction, before = {}, {}
    for layer, weights in enumerate(attention_weights(network, texts)):
        rows = [induction_scores(one, text)[0] for one, text in zip(weights, texts, strict=True)]
        steps_back = weights.diagonal(-1, dim1=-2, dim2=-1).mean((0, 2))
        for head in range(weights.shape[1]):
            induction[f"L{layer}.H{head}"] = sum(float(row[head]) for row in rows) / len(rows)
            before[f"L{layer}.H{head}"] = float(steps_back[head])
    return induction, before
