"""Why a cache: without it every new token computes all tokens before it again.

Keys and values of what is already written never change (the mask sees to that), so they are kept.
Measured: the time of a token at growing positions, and the bytes that are carried for it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from budgerigar.experiments.why.frame import Lines, Measured, WhyResult
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.said import Said, said

MB = 1e6


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    positions: tuple[int, ...] = (16, 64, 128, 256, 512)
    repeats: int = 9
    """tokens timed at each position; the quickest counts"""
    d_model: int = 256
    layers: int = 4
    heads: int = 4
    vocab_size: int = 1000


@dataclass(frozen=True)
class Timed:
    """Tokens at one position."""

    milliseconds: float
    """least of the tokens' times: other programs only add"""
    bytes_carried: int


Times = dict[int, Timed]
"""by the number of tokens before the one that was timed"""


def run(seed: int = 1, sizes: Sizes = Sizes()) -> WhyResult:
    """The same tokens with and without the cache; the weights are random, the cost is the same."""
    network = _network(seed, sizes)
    generator = torch.Generator().manual_seed(seed)
    longest = sizes.positions[-1] + sizes.repeats
    tokens = torch.randint(0, sizes.vocab_size, (1, longest), generator=generator)
    cached = {at: with_cache(network, tokens, at, sizes) for at in sizes.positions}
    fresh = {at: without_cache(network, tokens, at, sizes) for at in sizes.positions}
    difference = largest_difference(network, tokens[:, : min(128, longest)])
    last = sizes.positions[-1]
    per_token = bytes_per_token(network)
    held = _faster(cached, fresh, last) > 3 and difference < 1e-4
    return WhyResult(
        part="cache",
        seed=seed,
        problem=said(
            "Writing token by token, the network computes the whole text again for each new one."
        ),
        without=Measured(
            said("no cache, token {at}", at=last), fresh[last].milliseconds, said("ms")
        ),
        with_part=Measured(said("with cache"), cached[last].milliseconds, said("ms")),
        panels=_panels(cached, fresh, sizes),
        shows=_shows(cached, fresh, per_token, difference, sizes),
        held=held,
        verdict=said(
            "It holds: the same numbers, much sooner, for memory that grows with the text."
        )
        if held
        else said(
            "It does not show this time: the cache was less than three times faster, or not exact."
        ),
        next_problem=said(
            "The cache grows with every token, and every token looks at all of it: what of a million "
            "tokens? (budgie compare --probe context)"
        ),
        numbers={
            "with": {str(at): found for at, found in cached.items()},
            "without": {str(at): found for at, found in fresh.items()},
            "bytes per token": per_token,
            "largest difference of logits": difference,
        },
    )


def _faster(cached: Times, fresh: Times, at: int) -> float:
    return fresh[at].milliseconds / cached[at].milliseconds


def _panels(cached: Times, fresh: Times, sizes: Sizes) -> tuple[Lines, Lines]:
    across = said("tokens before it")
    times: dict[str, list[float]] = {
        said("with cache"): [cached[at].milliseconds for at in sizes.positions],
        said("no cache"): [fresh[at].milliseconds for at in sizes.positions],
    }
    carried: dict[str, list[float]] = {
        said("with cache"): [cached[at].bytes_carried / MB for at in sizes.positions],
        said("no cache (the ids)"): [fresh[at].bytes_carried / MB for at in sizes.positions],
    }
    return (
        Lines(said("time of one token"), across, said("ms"), sizes.positions, times, bottom=0.0),
        Lines(
            said("carried from token to token"), across, "MB", sizes.positions, carried, log_y=True
        ),
    )


def _shows(cached: Times, fresh: Times, per_token: int, difference: float, sizes: Sizes) -> Said:
    first, last = sizes.positions[0], sizes.positions[-1]
    return said(
        "A GPT of {layers} layers, {width} wide: from token {first} to {last} a token's time grows "
        "{growth} without the cache and {cached_growth} with it; at {last} the cache is "
        "{faster:.0f} times faster. It is paid with memory: {per_token:,} bytes a token "
        "(2 x {layers} layers x {width} x 4), {held:.1f} MB held at {last}, spare room included. "
        "The answers are the same: logits differ by {difference:.0e} of their size.",
        layers=sizes.layers,
        width=sizes.d_model,
        first=first,
        last=last,
        growth=_growth(fresh, first, last),
        cached_growth=_growth(cached, first, last),
        faster=_faster(cached, fresh, last),
        per_token=per_token,
        held=cached[last].bytes_carried / MB,
        difference=difference,
    )


def _growth(found: Times, first: int, last: int) -> Said:
    one, other = found[first].milliseconds, found[last].milliseconds
    return said(
        "{times:.1f}-fold ({one:.1f} to {other:.1f} ms)", times=other / one, one=one, other=other
    )


def _network(seed: int, sizes: Sizes) -> Transformer:
    config = TransformerConfig(
        vocab_size=sizes.vocab_size,
        context_length=sizes.positions[-1] + sizes.repeats,
        d_model=sizes.d_model,
        n_layers=sizes.layers,
        n_heads=sizes.heads,
    )
    return Transformer(config, seed).eval()


@torch.inference_mode()
def with_cache(network: Transformer, tokens: torch.Tensor, at: int, sizes: Sizes) -> Timed:
    """Time of a token after `at` others, whose keys and values are kept."""
    _, state = network.step(tokens[:, :at], network.start(1))
    found = []
    for n in range(sizes.repeats):
        started = time.perf_counter()
        _, state = network.step(tokens[:, at + n : at + n + 1], state)
        found.append(time.perf_counter() - started)
    return Timed(1000 * min(found), state.nbytes)


@torch.inference_mode()
def without_cache(network: Transformer, tokens: torch.Tensor, at: int, sizes: Sizes) -> Timed:
    """Time of a token after `at` others, all read again: only their ids are carried."""
    found = []
    for n in range(sizes.repeats):
        started = time.perf_counter()
        network.step(tokens[:, : at + n + 1], network.start(1))
        found.append(time.perf_counter() - started)
    return Timed(1000 * min(found), tokens[:, : at + sizes.repeats].nbytes)


def bytes_per_token(network: Transformer) -> int:
    """Keys and values of one token in all layers, in this network's precision."""
    config = network.config
    size = network.embedding.tokens.weight.element_size()
    return 2 * config.decoder_layers * config.kv_heads * config.head_width * size


@torch.inference_mode()
def largest_difference(network: Transformer, tokens: torch.Tensor) -> float:
    """Of the logits step by step and in one pass, against the largest logit."""
    whole = network(tokens)
    state, rows = network.start(1), []
    for at in range(tokens.shape[1]):
        logits, state = network.step(tokens[:, at : at + 1], state)
        rows.append(logits)
    steps = torch.stack(rows, dim=1)
    return float((steps - whole).abs().max() / whole.abs().max())
