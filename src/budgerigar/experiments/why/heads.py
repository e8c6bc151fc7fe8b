"""Why several heads: one softmax is one weighted average, and two relations at once get mixed.

Made-up sentences of random words; at each place the network has to name the word before and the word
after. One head can look at both, half and half, and then knows the two words but not which is which;
two heads of half the width look at one each. Nothing but attention stands in the network, for a
feed-forward behind it can take a mixture apart: measured too, and said.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from budgerigar.experiments.why.frame import Bars, Grid, Measured, WhyResult
from budgerigar.experiments.why.learning import ADAM, Inputs, Loss, learn
from budgerigar.experiments.why.parts import attention_weights, for_words, without_feed_forward
from budgerigar.models.transformer import Transformer
from budgerigar.said import Said, said

GAP = 10.0  # points of a hundred that count as a difference


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    steps: int = 300
    batch: int = 64
    length: int = 10
    n_words: int = 32
    d_model: int = 64
    tests: int = 500


@dataclass(frozen=True)
class Learnt:
    """One network after its training."""

    loss: float
    before: float
    """% of the words before that it names rightly"""
    after: float
    weights: list[list[float]]
    """how far each head (row) looks, mean over places: 2 before, 1 before, itself, 1 after, 2 after"""

    @property
    def right(self) -> float:
        """% of both together."""
        return (self.before + self.after) / 2


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """One head, two heads, and one head with a feed-forward behind it."""
    one = measure(seed, sizes, n_heads=1)
    two = measure(seed, sizes, n_heads=2)
    helped = measure(seed, sizes, n_heads=1, feed_forward=True)
    held = two.right - one.right > GAP and two.right > 95
    return WhyResult(
        part="heads",
        seed=seed,
        problem=said(
            "A softmax gives one weighted average: where a place needs two words at once, one head "
            "mixes them."
        ),
        without=Measured(
            said("one head, {width} wide", width=sizes.d_model), one.right, said("% right"), 1
        ),
        with_part=Measured(
            said("two heads, {width} wide each", width=sizes.d_model // 2),
            two.right,
            said("% right"),
            1,
        ),
        panels=_panels(one, two, helped),
        shows=_shows(one, two, helped),
        held=held,
        verdict=said("It holds: attention alone needs a head per relation.")
        if held
        else said("It does not show this time: one head did about as well as two."),
        next_problem=said(
            "Each head compares by a sum of as many products as it is wide; the wider it is, the "
            "larger that sum grows."
        ),
        numbers={"one head": one, "two heads": two, "one head and a feed-forward": helped},
    )


def _panels(one: Learnt, two: Learnt, helped: Learnt) -> tuple[Bars, Grid]:
    return (
        Bars(
            said("named rightly, attention alone"),
            "%",
            [
                (said("one head: the word before"), one.before),
                (said("one head: the word after"), one.after),
                (said("two heads: the word before"), two.before),
                (said("two heads: the word after"), two.after),
                (said("one head and a feed-forward"), helped.right),
            ],
            top=100,
        ),
        Grid(
            said("where each head looks (mean weight)"),
            (
                said("one head"),
                *(said("two heads: {head}", head=f"L0.H{n}") for n in range(2)),
            ),
            ("-2", "-1", said("itself"), "+1", "+2"),
            [*one.weights, *two.weights],
            column_axis=said("places from the word that looks"),
        ),
    )


def _shows(one: Learnt, two: Learnt, helped: Learnt) -> Said:
    return said(
        "With the same number of weights, one head names {one_before:.1f}% of the words before "
        "and {one_after:.1f}% of those after (loss {one_loss:.2f} nats); two heads "
        "{two_before:.1f}% and {two_after:.1f}% (loss {two_loss:.3f}). {rescue}",
        one_before=one.before,
        one_after=one.after,
        one_loss=one.loss,
        two_before=two.before,
        two_after=two.after,
        two_loss=two.loss,
        rescue=_rescue(helped.right),
    )


def _rescue(right: float) -> Said:
    """What a feed-forward makes of one head's mixture."""
    if right > 95:
        return said(
            "So does a single head with a feed-forward behind it ({right:.1f}%), which takes the "
            "mixture apart: more heads are the cheaper way, not the only one.",
            right=right,
        )
    return said("A single head with a feed-forward behind it gets {right:.1f}%.", right=right)


def measure(seed: int, sizes: Sizes, n_heads: int, feed_forward: bool = False) -> Learnt:
    """Train one network and test it on sentences of another seed."""
    network = _network(seed, sizes, n_heads, feed_forward)
    generator = torch.Generator().manual_seed(seed)

    def following() -> tuple[Inputs, Tensor]:
        sentences = _sentences(sizes, sizes.batch, generator)
        return {"tokens": sentences}, sentences

    losses = learn(
        network, following, sizes.steps, ADAM, f"{n_heads} heads", loss=_both(sizes.n_words)
    )
    tests = _sentences(sizes, sizes.tests, torch.Generator().manual_seed(seed + 10_000))
    with torch.inference_mode():
        before, after = _halves(network(tests), sizes.n_words)
        right = [
            100 * float((guess.argmax(-1) == answer).float().mean())
            for guess, answer in ((before, tests[:, :-2]), (after, tests[:, 2:]))
        ]
    return Learnt(losses[-1], right[0], right[1], _looks(network, tests[:64]))


def _network(seed: int, sizes: Sizes, n_heads: int, feed_forward: bool) -> Transformer:
    width = sizes.d_model
    config = for_words(
        2 * sizes.n_words,  # the answers: a word before, a word after
        sizes.length,
        width,
        assembly="encoder-only",
        n_layers=1,
        n_heads=n_heads,
        d_ff=4 * width if feed_forward else 1,
        positions="learned",
    )
    network = Transformer(config, seed)
    return network if feed_forward else without_feed_forward(network)


def _sentences(sizes: Sizes, n: int, generator: torch.Generator) -> Tensor:
    return torch.randint(0, sizes.n_words, (n, sizes.length), generator=generator)


def _halves(logits: Tensor, n_words: int) -> tuple[Tensor, Tensor]:
    """Logits for the word before and for the word after, at all places that have both."""
    inner = logits[:, 1:-1]
    return inner[..., :n_words], inner[..., n_words : 2 * n_words]


def _both(n_words: int) -> Loss:
    """The loss: mean of the two questions, in nats."""

    def loss(logits: Tensor, sentences: Tensor) -> Tensor:
        before, after = _halves(logits, n_words)
        first = F.cross_entropy(before.flatten(0, 1), sentences[:, :-2].flatten())
        return (first + F.cross_entropy(after.flatten(0, 1), sentences[:, 2:].flatten())) / 2

    return loss


def _looks(network: Transformer, sentences: Tensor) -> list[list[float]]:
    """Per head: mean weight on the places -2 … +2 from the word that looks."""
    mean = attention_weights(network, sentences)[0].mean(0)  # (H,T,T)
    return [[float(head.diagonal(k).mean()) for k in (-2, -1, 0, 1, 2)] for head in mean]
