"""Why a feed-forward network: attention gathers, only the feed-forward combines.

"The dear black apple": attention carries price and colour to the apple, and that is all it can do,
for it adds up what the words say. That dear AND black is a computer, while dear alone or black alone
decides nothing, takes a unit that is silent below a threshold. The weights are set by hand
(models/worked.py) and run through the layers of every other model.
"""

from __future__ import annotations

import itertools

import torch

from budgerigar.experiments.why.frame import Bars, Grid, Measured, WhyResult
from budgerigar.models.worked import Worked, apple, worked_steps
from budgerigar.said import Said, said

FEATURES = (said("price"), said("black"), said("fruit"), said("tech"))
"""as `models.worked.apple` has them"""
SENTENCES = ("the apple", "the dear apple", "the black apple", "the dear black apple")
DECIDED = 0.5  # the least difference between tech and fruit that counts as a decision
Spoken = dict[str, list[float]]
"""the four features of the apple, by the sentence in which it stands"""


def run(seed: int = 1) -> WhyResult:
    """Without and with one ReLU unit; and the best that any sum could do instead. Draws nothing."""
    without, with_unit = apple(feed_forward=False), apple()
    silent = {s: _features(without, s) for s in SENTENCES}
    speaking = {s: _features(with_unit, s) for s in SENTENCES}
    last = SENTENCES[-1]
    gaps = {s: _gap(speaking[s]) for s in SENTENCES}
    sum_gaps = best_sum(list(gaps.values()))
    decided = _gap(speaking[last]) > DECIDED
    others = max(abs(gaps[s]) for s in SENTENCES[:-1])
    held = decided and abs(_gap(silent[last])) < 1e-5 and others < 1e-5
    return WhyResult(
        part="feed-forward",
        seed=seed,
        problem=said(
            "Attention brings “dear” and “black” to the apple, but it only adds up: that both together "
            "mean a computer, it cannot say."
        ),
        without=Measured(
            said("attention alone: tech minus fruit"), _gap(silent[last]), said("of 1")
        ),
        with_part=Measured(
            said("and one ReLU unit: tech minus fruit"), _gap(speaking[last]), said("of 1")
        ),
        panels=_panels(_stages(with_unit, last), gaps),
        shows=_shows(silent, speaking, sum_gaps),
        held=held,
        verdict=said(
            "It holds: undecided without the unit, decided with it, and only where both are true."
        )
        if held
        else said("It does not hold: the hand-set weights no longer give the lesson's numbers."),
        next_problem=said(
            "Attention and a feed-forward make one layer, and language needs many: does a gradient "
            "get through them?"
        ),
        numbers={
            "attention alone": silent,
            "with the unit": speaking,
            "largest miss of the best sum": sum_gaps,
        },
    )


def _panels(stages: list[list[float]], gaps: dict[str, float]) -> tuple[Grid, Bars]:
    return (
        Grid(
            said("“the dear black apple”, the apple's numbers"),
            (said("at first"), said("after attention"), said("after the feed-forward")),
            FEATURES,
            stages,
            column_axis=said("what each number stands for"),
        ),
        Bars(said("tech minus fruit after the unit"), "", list(gaps.items()), top=1.0),
    )


def _shows(silent: Spoken, speaking: Spoken, miss: float) -> Said:
    _, dear, _, both = SENTENCES
    return said(
        "Price, black, fruit, tech are {gathered} after attention: gathered, undecided. One unit, "
        "relu(price + black - 1.3), takes itself from fruit and adds 0.7 of itself to tech: "
        "{decided}. The merely dear and the merely black apple keep {fruit:.2f} and {tech:.2f}. A "
        "sum cannot do that: of all rules a·price + b·black + c, the one that comes nearest to "
        "these four verdicts still misses one by {miss:.2f}.",
        gathered=_row(silent[both]),
        decided=_row(speaking[both]),
        fruit=speaking[dear][2],
        tech=speaking[dear][3],
        miss=miss,
    )


def _row(features: list[float]) -> str:
    return ", ".join(f"{feature:.2f}" for feature in features)


def _features(model: Worked, sentence: str) -> list[float]:
    """Price, black, fruit, tech of the last word after the block."""
    return [float(v) for v in worked_steps(model, sentence).after_feed_forward]


def _stages(model: Worked, sentence: str) -> list[list[float]]:
    steps = worked_steps(model, sentence)
    parts = (steps.before, steps.after_attention, steps.after_feed_forward)
    return [[float(v) for v in part] for part in parts]


def _gap(features: list[float]) -> float:
    return features[3] - features[2]


def best_sum(wanted: list[float]) -> float:
    """The largest error, over (0,0), (1,0), (0,1), (1,1), of the linear rule that fits best.

    Least squares: a x + b y + c against the four wanted values, in the order of the sentences.
    """
    places = [(x, y, 1.0) for y, x in itertools.product((0.0, 1.0), repeat=2)]
    matrix = torch.tensor(places, dtype=torch.float64)
    values = torch.tensor(wanted, dtype=torch.float64)[:, None]
    fitted = matrix @ torch.linalg.lstsq(matrix, values).solution
    return float((fitted - values).abs().max())
