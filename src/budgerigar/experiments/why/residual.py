"""Why residual connections and normalization: what is left of a gradient after 2 to 96 layers.

The gradient at the bottom over that at the top of untrained stacks, in all four combinations; and a
task that a deep stack must learn. With y = x + f(x) the derivative is 1 + f'(x) (He et al. 2016):
checked against the Jacobian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from budgerigar.experiments.why.frame import Bars, Lines, Measured, WhyResult, number
from budgerigar.experiments.why.learning import ADAM, Inputs, last_mean, learn
from budgerigar.experiments.why.parts import for_words
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.visibility import View
from budgerigar.models.transformer import Transformer
from budgerigar.models.worked import without_norms
from budgerigar.said import Said, listed, said

NAMES: dict[tuple[bool, bool], str] = {
    (True, True): said("residual and norm"),
    (True, False): said("residual alone"),
    (False, True): said("norm alone"),
    (False, False): said("neither"),
}
Ratios = dict[str, list[float]]
"""gradient at the bottom over that at the top, at each depth, by the name of the combination"""
VANISHED, EXPLODED, SOUND = 1e-6, 1e4, 100.0


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    depths: tuple[int, ...] = (2, 6, 12, 24, 48, 96)
    told: int = 12
    """the depth that the comparison names"""
    d_model: int = 64
    length: int = 16
    batch: int = 4
    trained_depth: int = 12
    steps: int = 100
    n_words: int = 32


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """All combinations and depths, the Jacobian, and a stack that learns."""
    ratios = {
        name: [gradient_ratio(depth, *both, seed, sizes) for depth in sizes.depths]
        for both, name in NAMES.items()
    }
    error = jacobian_error(seed, sizes)
    losses = {name: loss(*both, seed, sizes) for both, name in NAMES.items()}
    at = sizes.depths.index(sizes.told)
    neither, sound = ratios["neither"], ratios["residual and norm"]
    held = error < 1e-10 and _holds(ratios, at)
    return WhyResult(
        part="residual",
        seed=seed,
        problem=said(
            "A gradient is multiplied by every layer that it comes through: after a dozen layers "
            "nothing of it is left."
        ),
        without=Measured(
            said("neither, {layers} layers: gradient left", layers=sizes.told),
            neither[at],
            said("times"),
        ),
        with_part=Measured(
            said("residual and norm, {layers} layers", layers=sizes.told), sound[at], said("times")
        ),
        panels=_panels(ratios, losses, sizes),
        shows=_shows(ratios, losses, error, sizes),
        held=held,
        verdict=said(
            "It holds: without both the gradient vanishes, with the residual alone it explodes, with "
            "both it arrives."
        )
        if held
        else said(
            "It does not hold this time: the four combinations do not fall apart as they should."
        ),
        next_problem=said(
            "Now the network can be deep and learns whatever lowers its loss; for predicting the next "
            "word, the cheapest way is to look at it."
        ),
        numbers={
            "depths": list(sizes.depths),
            "ratios": ratios,
            "losses": losses,
            "jacobian error": error,
        },
    )


def _holds(ratios: Ratios, at: int) -> bool:
    """Each combination does what it should; at: the depth where neither leaves nothing."""
    return (
        ratios["neither"][at] < VANISHED
        and all(1 / SOUND < r < SOUND for r in ratios["residual and norm"])
        and _explosion(ratios) > EXPLODED
    )


def _explosion(ratios: Ratios) -> float:
    """The largest gradient with the residual alone that is a number still."""
    return max((r for r in ratios["residual alone"] if math.isfinite(r)), default=math.nan)


def _shows(ratios: Ratios, losses: dict[str, float], error: float, sizes: Sizes) -> Said:
    return said(
        "Neither: {neither} of the gradient is left after {layers} layers. Normalization alone: "
        "{norm} after {deepest}, so it does not vanish. Residual alone: it explodes, up to "
        "{explosion}. Both: {both} after {deepest}. In learning to fetch the word before "
        "({losses} nats; chance {chance:.2f}) one sees what the ratio does not tell. And "
        "y' = f'(x) + 1: the Jacobian of a block is (1 + F')(1 + A') to within {error}.",
        neither=number(ratios["neither"][sizes.depths.index(sizes.told)]),
        layers=sizes.told,
        norm=number(ratios["norm alone"][-1]),
        deepest=sizes.depths[-1],
        explosion=number(_explosion(ratios)),
        both=number(ratios["residual and norm"][-1]),
        losses=listed(
            said("{name} {loss:.2f}", name=name, loss=value) for name, value in losses.items()
        ),
        chance=math.log(sizes.n_words),
        error=number(error),
    )


def _panels(ratios: Ratios, losses: dict[str, float], sizes: Sizes) -> tuple[Lines, Bars]:
    return (
        Lines(
            said("gradient at the bottom / at the top, untrained"),
            said("layers"),
            said("ratio (1: all of it arrives)"),
            sizes.depths,
            ratios,
            log_x=True,
            log_y=True,
            bottom=1e-24,
        ),
        Bars(
            said(
                "loss of {layers} layers after {steps} steps",
                layers=sizes.trained_depth,
                steps=sizes.steps,
            ),
            said("nats"),
            list(losses.items()),
            line=(said("chance"), math.log(sizes.n_words)),
        ),
    )


def _config(depth: int, residual: bool, sizes: Sizes) -> TransformerConfig:
    return for_words(
        sizes.n_words,
        sizes.length,
        sizes.d_model,
        n_layers=depth,
        n_heads=4,
        residual=residual,
        positions="learned",
        activation="relu",
        # the spread that torch.nn.Linear gives a matrix that reads d_model numbers
        init_std=(3 * sizes.d_model) ** -0.5,
    )


def _view(length: int) -> View:
    places = torch.arange(length)[None]
    return View(places, places, causal=True, aligned=True)


def gradient_ratio(depth: int, residual: bool, norm: bool, seed: int, sizes: Sizes) -> float:
    """|dL/d input| / |dL/d output| of a stack of blocks in float64; L: a random projection."""
    network = Transformer(_config(depth, residual, sizes), seed).double()
    if not norm:
        without_norms(network)
    assert network.decoder is not None
    generator = torch.Generator().manual_seed(seed)
    shape = (sizes.batch, sizes.length, sizes.d_model)
    first = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(shape, generator=generator, dtype=torch.float64)
    x: Tensor = first
    for block in network.decoder.blocks():
        x = block(x, _view(sizes.length))
    (gradient,) = torch.autograd.grad((x * direction).sum(), first)
    return float(gradient.norm() / direction.norm())


def jacobian_error(seed: int, sizes: Sizes) -> float:
    """Largest difference between a block's Jacobian and (1 + F')(1 + A'), in float64.

    A and F are what attention and feed-forward compute, norms included, where nothing is added.
    """
    small = Sizes(d_model=16, length=4, n_words=sizes.n_words)
    network = Transformer(_config(1, True, small), seed).double().requires_grad_(False)
    assert network.decoder is not None
    block = next(network.decoder.blocks())
    attention_norm, feed_forward_norm = block.attention_norm, block.feed_forward_norm
    assert attention_norm is not None
    assert feed_forward_norm is not None
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, small.length, small.d_model, generator=generator, dtype=torch.float64)

    def attend(v: Tensor) -> Tensor:
        return block.self_attention(attention_norm(v), _view(small.length))

    def combine(v: Tensor) -> Tensor:
        return block.feed_forward(feed_forward_norm(v))

    n = x.numel()
    one = torch.eye(n, dtype=torch.float64)
    middle = x + attend(x)
    expected = (one + _jacobian(combine, middle, n)) @ (one + _jacobian(attend, x, n))
    found = _jacobian(lambda v: block(v, _view(small.length)), x, n)
    return float((found - expected).abs().max())


def _jacobian(function: Callable[[Tensor], Tensor], x: Tensor, n: int) -> Tensor:
    found: Tensor = torch.autograd.functional.jacobian(function, x)
    return found.reshape(n, n)


def loss(residual: bool, norm: bool, seed: int, sizes: Sizes) -> float:
    """Nats per word at the end of learning to repeat the word before, at every place."""
    network = Transformer(_config(sizes.trained_depth, residual, sizes), seed)
    if not norm:
        without_norms(network)
    generator = torch.Generator().manual_seed(seed)

    def following() -> tuple[Inputs, Tensor]:
        words = torch.randint(0, sizes.n_words, (16, sizes.length), generator=generator)
        targets = words.roll(1, dims=1)
        targets[:, 0] = -100
        return {"tokens": words}, targets

    return last_mean(learn(network, following, sizes.steps, ADAM, NAMES[residual, norm]))
