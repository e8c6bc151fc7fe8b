"""How an n-gram reached one probability: the context that it matched and how it backed off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from budgerigar.models.base import check_ids
from budgerigar.models.ngram_counts import look_up, usable_context

if TYPE_CHECKING:
    from budgerigar.models.ngram import NgramModel
    from budgerigar.models.ngram_smoothing import SmoothedLevel


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
    check_ids([*context, *([] if token is None else [token])], model.vocab_size)
    tokens = np.asarray(context, dtype=np.int64)
    room = int(usable_context(tokens, model.end_id)[-1])
    tokens = tokens[len(tokens) - min(room, model.config.order - 1) :]
    contexts = [0] + [_find(model, tokens[len(tokens) - k :]) for k in range(1, len(tokens) + 1)]
    if token is None:
        known = [np.array([found]) for found in contexts[1:]] or [np.array([-1])]
        token = int(model.distributions(known)[0].argmax())
    steps: list[BackoffStep] = []
    probability = 1 / model.vocab_size
    for order, (level, found) in enumerate(zip(model.levels, contexts, strict=False), start=1):
        known_context = tuple(tokens[len(tokens) - order + 1 :].tolist())
        steps.append(_step(model, level, order, known_context, found, token, probability))
        probability = steps[-1].probability
    return Explanation(
        context=tuple(tokens.tolist()),
        token=token,
        probability=probability,
        matched=max((step.order - 1 for step in steps if step.known), default=0),
        steps=tuple(reversed(steps)),
        uniform=1 / model.vocab_size,
    )


def _step(
    model: NgramModel,
    level: SmoothedLevel,
    order: int,
    context: tuple[int, ...],
    context_id: int,
    token: int,
    below: float,
) -> BackoffStep:
    """One length of the interpolation; `below` is the probability one length shorter."""
    parent, last = np.array([context_id]), np.array([token])
    begin, stop = (int(bound[0]) for bound in level.ranges(parent))
    followers = level.counts[begin:stop] if context_id >= 0 else level.counts[:0]
    distinct = int(np.count_nonzero(followers))
    if not distinct:
        return BackoffStep(order, context, False, 0.0, 0, 0, 0.0, 0.0, 1.0, below)
    total = float(followers.sum(dtype=np.int64))
    if model.config.smoothing == "witten-bell":
        total += distinct
    found = int(look_up(level.keys, parent, last, model.vocab_size)[0])
    count = int(level.counts[found]) if found >= 0 else 0
    discount = float(level.discounts[min(count, 3)])
    weight = float(level.backoff[context_id])
    own = (count - discount) / total
    return BackoffStep(
        order=order,
        context=context,
        known=True,
        total=total,
        distinct=distinct,
        count=count,
        discount=discount,
        own=own,
        weight=weight,
        probability=own + weight * below,
    )


def _find(model: NgramModel, tokens: np.ndarray) -> int:
    """Id of the n-gram `tokens` among those of its length; -1: never seen."""
    parent = np.array([0])
    for level, token in zip(model.levels, tokens, strict=False):
        parent = look_up(level.keys, parent, np.array([token]), model.vocab_size)
    return int(parent[0])
