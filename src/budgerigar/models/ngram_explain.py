"""How an n-gram reached one probability: the context that it matched and how it backed off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from budgerigar.models.ngram_counts import look_up, usable_context

if TYPE_CHECKING:
    from budgerigar.models.ngram import NgramModel


@dataclass(frozen=True)
class BackoffStep:
    """One length k of the interpolation: probability = own + weight x the step below."""

    order: int
    """k: the context here is the last k - 1 tokens"""
    context: tuple[int, ...]
    known: bool
    """the context was followed by something in the training text"""
    total: float
    """A(c): the context's count (with smoothing's additions); 0 when unknown"""
    distinct: int
    """different tokens that followed the context"""
    count: int
    """count of context and token; below the longest length of Kneser-Ney, left neighbours"""
    discount: float
    """taken from that count"""
    own: float
    """(count - discount) / total: this length's own part of the probability"""
    weight: float
    """handed to the shorter context; 1 when this one is unknown"""
    probability: float
    """of the token, interpolated down from here"""


@dataclass(frozen=True)
class Explanation:
    """Why a token has its probability after a context."""

    context: tuple[int, ...]
    """the tokens that could matter: at most n - 1, none from before the last document opened"""
    token: int
    probability: float
    matched: int
    """tokens of the longest context that was known"""
    steps: tuple[BackoffStep, ...]
    """from the longest usable context to none at all"""
    uniform: float
    """1 / V, below the last step"""


def explain(model: NgramModel, context: Sequence[int], token: int | None = None) -> Explanation:
    """See `NgramModel.explain`."""
    tokens = np.asarray(context, dtype=np.int64)
    room = int(usable_context(tokens, model.end_id)[-1])
    tokens = tokens[len(tokens) - min(room, model.config.order - 1) :]
    parents = [0]
    for length in range(1, len(tokens) + 1):
        parents.append(_find(model, tokens[len(tokens) - length :]))
    if token is None:
        known = [np.array([parent]) for parent in parents[1:]] or [np.array([-1])]
        token = int(model.distributions(known)[0].argmax())
    steps: list[BackoffStep] = []
    probability = 1 / model.vocab_size
    for level, parent in zip(model.levels, parents, strict=False):
        order = len(steps) + 1
        found, total, distinct, weight = -1, 0.0, 0, 1.0
        if parent >= 0 and level.totals[parent] > 0:
            children = level.counts[level.starts[parent] : level.starts[parent + 1]]
            total, distinct = float(level.totals[parent]), int(np.count_nonzero(children))
            weight = float(level.backoff[parent])
            found = int(
                look_up(level.keys, np.array([parent]), np.array([token]), model.vocab_size)[0]
            )
        count = int(level.counts[found]) if found >= 0 else 0
        discount = float(level.discounts[min(count, 3)])
        own = (count - discount) / total if total else 0.0
        probability = own + weight * probability
        steps.append(
            BackoffStep(
                order=order,
                context=tuple(int(t) for t in tokens[len(tokens) - order + 1 :]),
                known=total > 0,
                total=total,
                distinct=distinct,
                count=count,
                discount=discount,
                own=own,
                weight=weight,
                probability=probability,
            )
        )
    matched = max((step.order - 1 for step in steps if step.known), default=0)
    return Explanation(
        context=tuple(int(t) for t in tokens),
        token=token,
        probability=probability,
        matched=matched,
        steps=tuple(reversed(steps)),
        uniform=1 / model.vocab_size,
    )


def _find(model: NgramModel, tokens: np.ndarray) -> int:
    """Id of the n-gram `tokens` among those of its length; -1: never seen."""
    parent = np.array([0])
    for level, token in zip(model.levels, tokens, strict=False):
        parent = look_up(level.keys, parent, np.array([token]), model.vocab_size)
    return int(parent[0])
