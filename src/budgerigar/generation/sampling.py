"""From logits to a token: small processors, composed in one stated order.

Order: forbidden ids, repetition penalty, temperature, top-k, top-p, min-p, then the choice. (That
is the order of Hugging Face's `generate`; llama.cpp applies the temperature last, which gives
another distribution for the same numbers.) Temperature 0 is greedy: the largest logit, no division.

A processor takes logits (B, V) and the mask of ids generated so far (B, V) or None, and returns new
logits; what it removes becomes minus infinity. It never changes its input.
Shapes: B batch, V vocab_size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from budgerigar.generation.options import SamplingOptions

LEAST_TEMPERATURE = 1e-30  # smaller ones may be 0 in float32, and 0 / 0 is no number

FEW = 1024  # candidates that usually hold all that top-p keeps

Process = Callable[[Tensor, Tensor | None], Tensor]


# -- processors ------------------------------------------------------------------------------------
def forbid(forbidden: Tensor) -> Process:
    """Ids marked in `forbidden` (V,) bool are never chosen."""
    return lambda logits, _: logits.masked_fill(forbidden, -math.inf)


def penalise_repetition(penalty: float) -> Process:
    """Positive logits of seen ids are divided by `penalty`, negative ones multiplied (CTRL)."""

    def process(logits: Tensor, seen: Tensor | None) -> Tensor:
        if seen is None:
            return logits
        return torch.where(
            seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits
        )

    return process


def temper(temperature: float) -> Process:
    """Divide by the temperature; the largest becomes 0 first, so a tiny one cannot overflow."""
    temperature = max(temperature, LEAST_TEMPERATURE)
    return lambda logits, _: (logits - logits.amax(-1, keepdim=True)) / temperature


def keep_top_k(k: int) -> Process:
    """Keep the k largest logits. Ties with the k-th stay: the order of ids decides nothing."""

    def process(logits: Tensor, _: Tensor | None) -> Tensor:
        if k >= logits.shape[-1]:
            return logits
        smallest = logits.topk(k, dim=-1).values[:, -1:]
        return logits.masked_fill(logits < smallest, -math.inf)

    return process


def keep_top_p(p: float, at_most: int | None = None) -> Process:
    """Keep the likeliest tokens up to the first that brings their probability to `p`.

    `at_most`: how many logits can be above minus infinity, when that is known (after top-k).
    Otherwise the best `FEW` are tried first: ordering them is far quicker than sorting a vocabulary.
    """

    def process(logits: Tensor, _: Tensor | None) -> Tensor:
        n = logits.shape[-1]
        total = logits.logsumexp(-1, keepdim=True)
        first = min(n, at_most or FEW)
        ordered = logits.topk(first, dim=-1).values
        mass = (ordered - total).exp().cumsum(-1)
        if at_most is None and first < n and bool((mass[:, -1] < p).any()):
            ordered = logits.sort(dim=-1, descending=True).values
            mass = (ordered - total).exp().cumsum(-1)
        before = mass - (ordered - total).exp()  # (B, n): mass of the likelier ones
        kept = (before < p).sum(-1, keepdim=True).clamp(min=1)
        smallest = ordered.gather(-1, kept - 1)
        return logits.masked_fill(logits < smallest, -math.inf)

    return process


def keep_min_p(share: float) -> Process:
    """Keep tokens with at least `share` of the likeliest one's probability."""
    if share == 0:
        return lambda logits, _: logits

    def process(logits: Tensor, _: Tensor | None) -> Tensor:
        smallest = logits.amax(-1, keepdim=True) + math.log(share)
        return logits.masked_fill(logits < smallest, -math.inf)

    return process


def processors(options: SamplingOptions, forbidden: Tensor | None) -> list[tuple[str, Process]]:
    """The processors that `options` ask for, by name, in the order in which they apply."""
    chain: list[tuple[str, Process]] = []
    if forbidden is not None and bool(forbidden.any()):
        chain.append(("forbidden", forbid(forbidden)))
    if options.repetition_penalty != 1:
        chain.append(("repetition_penalty", penalise_repetition(options.repetition_penalty)))
    if options.temperature == 0:
        return chain  # greedy: no filter can remove the likeliest
    if options.temperature != 1:
        chain.append(("temperature", temper(options.temperature)))
    if options.top_k is not None:
        chain.append(("top_k", keep_top_k(options.top_k)))
    if options.top_p is not None and options.top_p < 1:
        chain.append(("top_p", keep_top_p(options.top_p, at_most=options.top_k)))
    if options.min_p:
        chain.append(("min_p", keep_min_p(options.min_p)))
    return chain


def process_logits(
    logits: Tensor, chain: Sequence[tuple[str, Process]], seen: Tensor | None = None
) -> Tensor:
    """Logits (B, V) after the whole chain."""
    for _, process in chain:
        logits = process(logits, seen)
    return logits


# -- the choice ------------------------------------------------------------------------------------
class Draws:
    """Uniform numbers of one request, from (seed, sample number) and nothing else.

    Number n belongs to the n-th new token, whatever row the request sits in, whoever shares its
    batch, and however often the context overflowed.
    """

    def __init__(self, seed: int, sample: int = 0) -> None:
        self._generator = np.random.Generator(
            np.random.Philox(np.random.SeedSequence([seed, sample]))
        )
        self._block: list[float] = []

    def next(self) -> float:
        """The next number in [0, 1)."""
        if not self._block:
            self._block = self._generator.random(64)[::-1].tolist()
        return self._block.pop()


def choose_greedily(logits: Tensor) -> Tensor:
    """Ids (B,) of the largest logits; of equals the first."""
    return logits.argmax(-1)


def choose_at_random(logits: Tensor, uniforms: Sequence[float]) -> Tensor:
    """Ids (B,) drawn with probability softmax(logits), by one uniform number in [0, 1) per row.

    The cumulative distribution is inverted: the first id whose running sum exceeds the number. A
    row's choice depends on that row alone. Sums are float64, so that many small ones are not lost.
    """
    sums = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
    total = sums[:, -1:]
    wanted = torch.tensor(uniforms, dtype=torch.float64).to(logits.device).unsqueeze(1) * total
    # Rounding may reach the total itself; no id lies beyond it.
    wanted = torch.minimum(wanted, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(sums, wanted, right=True).squeeze(1)
