"""Why scores are divided by sqrt(d_head): without it a wide head's softmax starts saturated.

A score is a sum of d_head products; for queries and keys of unit spread its own spread is
sqrt(d_head) (Vaswani et al. 2017, footnote 4). At 1,024 that is 32: one key gets all the weight, and
the gradient of a softmax that has made up its mind is nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from budgerigar.experiments.why.frame import Lines, Measured, WhyResult, number
from budgerigar.experiments.why.learning import ADAM, Inputs, last_mean, learn
from budgerigar.experiments.why.parts import for_words
from budgerigar.layers.attention import attention_steps
from budgerigar.models.transformer import Transformer
from budgerigar.said import Said, listed, said


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    widths: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    queries: int = 2000
    keys: int = 64
    trained_widths: tuple[int, ...] = (16, 64, 256)
    steps: int = 120
    learning_rate: float = 2e-3
    batch: int = 32
    length: int = 16
    n_words: int = 32
    d_model: int = 64


@dataclass(frozen=True)
class Spread:
    """A softmax over random scores, mean over many queries."""

    spread: float
    """standard deviation of the scores"""
    largest: float
    """largest weight of a row"""
    gradient: float
    """norm of d weights / d scores, a matrix per query"""


Losses = dict[int, tuple[float, float]]
"""by the width of a head: nats without the scale, and with it"""


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """Random queries and keys of each width, then a task learnt with and without the scale."""
    raw = [spread(width, 1.0, seed, sizes) for width in sizes.widths]
    scaled = [spread(width, width**-0.5, seed, sizes) for width in sizes.widths]
    losses = {
        width: (loss(width, False, seed, sizes), loss(width, True, seed, sizes))
        for width in sizes.trained_widths
    }
    told = sizes.trained_widths[len(sizes.trained_widths) // 2]
    without, with_scale = losses[told]
    held = raw[-1].gradient < 0.5 * scaled[-1].gradient and with_scale < 0.5 * without
    return WhyResult(
        part="scale",
        seed=seed,
        problem=said(
            "The wider a head, the larger its scores: the softmax puts everything on one word before "
            "anything is learnt, and passes no gradient."
        ),
        without=Measured(said("scores as they are, {told} wide", told=told), without, said("nats")),
        with_part=Measured(said("divided by sqrt({told})", told=told), with_scale, said("nats")),
        panels=_panels(raw, scaled, losses, sizes),
        shows=_shows(raw, scaled, losses, sizes),
        held=held,
        verdict=said(
            "It holds: without the scale gradient and learning suffer, and more than by half."
        )
        if held
        else said("It does not show this time: the scale made less than a factor of two."),
        next_problem=said(
            "A score compares two words by what they are; where they stand it does not know."
        ),
        numbers={
            "widths": list(sizes.widths),
            "as they are": raw,
            "divided": scaled,
            "losses (without, with)": {str(w): pair for w, pair in losses.items()},
        },
    )


def _shows(raw: list[Spread], scaled: list[Spread], losses: Losses, sizes: Sizes) -> Said:
    return said(
        "Random queries and keys, {keys} keys: at width {narrow} the scores spread by "
        "{narrow_spread:.1f}, at {wide} by {spread:.1f}, and there the largest weight is "
        "{largest:.2f} and the gradient {gradient}; divided by sqrt(d_head) they spread by "
        "{scaled_spread:.1f}, the largest weight is {scaled_largest:.2f}, the gradient "
        "{scaled_gradient}. Learning to fetch a word from another place, one head, loss in nats: "
        "{learnt}.",
        keys=sizes.keys,
        narrow=sizes.widths[0],
        narrow_spread=raw[0].spread,
        wide=sizes.widths[-1],
        spread=raw[-1].spread,
        largest=raw[-1].largest,
        gradient=number(raw[-1].gradient),
        scaled_spread=scaled[-1].spread,
        scaled_largest=scaled[-1].largest,
        scaled_gradient=number(scaled[-1].gradient),
        learnt=_learnt(losses),
    )


def _learnt(losses: Losses) -> str:
    each = (
        said("{width} wide: {without:.2f} without, {scaled:.2f} with", width=w, without=a, scaled=b)
        for w, (a, b) in losses.items()
    )
    return listed(each, apart=True)


def _panels(
    raw: list[Spread], scaled: list[Spread], losses: Losses, sizes: Sizes
) -> tuple[Lines, Lines]:
    gradients: dict[str, list[float]] = {
        said("divided by sqrt(d_head)"): [s.gradient for s in scaled],
        said("as they are"): [s.gradient for s in raw],
    }
    learnt: dict[str, list[float]] = {
        said("divided by sqrt(d_head)"): [with_scale for _, with_scale in losses.values()],
        said("as they are"): [without for without, _ in losses.values()],
    }
    across = said("width of the head")
    untrained = Lines(
        said("gradient of the softmax, untrained"),
        across,
        said("norm of d weights / d scores"),
        sizes.widths,
        gradients,
        log_x=True,
        bottom=0.0,
    )
    title = said("loss after {steps} steps", steps=sizes.steps)
    words = said("nats per word")
    trained = Lines(title, across, words, list(losses), learnt, log_x=True, bottom=0.0)
    return untrained, trained


def spread(width: int, scale: float, seed: int, sizes: Sizes) -> Spread:
    """Scores of random queries (N,E) with keys (N,S,E), times `scale`, and their softmax."""
    generator = torch.Generator().manual_seed(seed * 10_000 + width)
    shape = (sizes.queries, 1, 1, width)
    queries = torch.randn(shape, generator=generator)
    keys = torch.randn(1, 1, sizes.keys, width, generator=generator).expand(
        sizes.queries, 1, sizes.keys, width
    )
    steps = attention_steps(queries, keys, keys[..., :1], scale=scale)
    weights = steps.weights.flatten(0, 2).double()
    return Spread(
        float(steps.scaled.std()), float(weights.max(-1).values.mean()), _gradient(weights)
    )


def _gradient(weights: Tensor) -> float:
    """Mean Frobenius norm of the softmax's Jacobian diag(p) - p p^T over rows p (N,S).

    Its square is sum p^2 - 2 sum p^3 + (sum p^2)^2.
    """
    squares, cubes = (weights**2).sum(-1), (weights**3).sum(-1)
    return float((squares - 2 * cubes + squares**2).clamp(min=0).sqrt().mean())


def loss(width: int, scaled: bool, seed: int, sizes: Sizes) -> float:
    """Nats per word at the end of learning to fetch the word of another, fixed place."""
    config = for_words(  # queries and keys of unit spread, as in the paper's argument
        sizes.n_words,
        sizes.length,
        sizes.d_model,
        assembly="encoder-only",
        n_layers=1,
        n_heads=1,
        d_head=width,
        positions="learned",
        attention_scale="sqrt" if scaled else "none",
    )
    generator = torch.Generator().manual_seed(seed)
    places = torch.randperm(sizes.length, generator=generator)

    def following() -> tuple[Inputs, Tensor]:
        shape = (sizes.batch, sizes.length)
        words = torch.randint(0, sizes.n_words, shape, generator=generator)
        return {"tokens": words}, words[:, places]

    network = Transformer(config, seed)
    settings = dataclasses.replace(ADAM, learning_rate=sizes.learning_rate)
    return last_mean(learn(network, following, sizes.steps, settings, f"a head {width} wide"))
