"""The lines to pass: what guessing, single tokens, pairs and the best n-gram reach on a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from budgerigar import progress
from budgerigar.evaluation.evaluate import DEFAULT_CONTEXT_LENGTH, evaluate
from budgerigar.models.configs import NgramConfig, Smoothing
from budgerigar.models.ngram import NgramModel
from budgerigar.models.ngram_counter import NgramCounter
from budgerigar.models.ngram_smoothing import SmoothedLevel, smooth_level
from budgerigar.text.store import TokenStore

COUNTED_TOKENS = 5_000_000
"""Tokens of the training text that are counted: about 2 seconds and 0.3 GB at order 7."""

CHOSEN_ON = 1_000_000
"""Tokens of the held-out text on which orders are compared."""

ALWAYS_TRIED = 3
"""Orders up to this one are tried even if a shorter one did better: noise may hide a pattern."""

CHOOSING_TOKENS = 20_000_000
"""Tokens of a training text that `choose_ngram` looks at, the tenth held out among them."""


def baselines(
    train_store: TokenStore,
    validation_store: TokenStore,
    orders: Sequence[int] = (3, 4, 5, 6, 7),
    *,
    context_length: int | None = None,
    max_tokens: int = COUNTED_TOKENS,
) -> dict[str, float]:
    """Nats per token of simple rivals on `validation_store`, by name, worst first.

    "uniform" (ln V), "unigram", "bigram" (Witten-Bell), "order-N n-gram" (modified Kneser-Ney of
    the order that does best there, so a demanding rival) and the same "…, streaming"; all but the
    last windowed by `context_length` (default 256). Longer training texts are counted up to
    `max_tokens`, and the names say so.
    """
    vocab_size = len(train_store.counts)
    window = context_length or DEFAULT_CONTEXT_LENGTH
    end_id = train_store.end_id
    counter = NgramCounter(np.asarray(train_store.tokens[:max_tokens]), vocab_size, end_id)
    cut = train_store.n_tokens > max_tokens
    words = f" (first {max_tokens / 1e6:g} M tokens)" if cut else ""
    counter.count_to(max(orders))  # at once: shorter lengths come with the longest
    found = {"uniform": math.log(vocab_size)}
    for order, name in ((1, "unigram"), (2, "bigram")):
        config = NgramConfig(vocab_size, order, "witten-bell")
        model = NgramModel.from_counts(counter.count_to(order), config, end_id)
        found[name + words] = _loss(model, validation_store, window)
    best = best_ngram(counter, validation_store.tokens, orders, window)
    name = f"order-{best.config.order} n-gram"
    found[name + words] = _loss(best, validation_store, window)
    found[f"{name}, streaming{words}"] = _loss(best, validation_store, window, streaming=True)
    return found


def choose_ngram(
    store: TokenStore,
    orders: Sequence[int] = range(1, 9),
    context_length: int = DEFAULT_CONTEXT_LENGTH,
    max_tokens: int = CHOOSING_TOKENS,
) -> NgramConfig:
    """The order and smoothing that do best on the last tenth of a *training* text, counted on the rest:
    what one would choose without having seen the validation text."""
    tokens, vocab_size = np.asarray(store.tokens[:max_tokens]), len(store.counts)
    cut = len(tokens) - len(tokens) // 10
    if store.end_id is not None:  # where a document begins, if one does
        ends = np.flatnonzero(tokens[cut:] == store.end_id)
        cut += int(ends[0]) if len(ends) else 0
    counter = NgramCounter(tokens[:cut], vocab_size, store.end_id)
    found = [
        _best(counter, tokens[cut:], orders, context_length, smoothing)
        for smoothing in get_args(Smoothing)
    ]
    return min(found, key=lambda one: one[1])[0].config


def best_ngram(
    counter: NgramCounter,
    held_out: NDArray,
    orders: Sequence[int] = (3, 4, 5, 6, 7),
    context_length: int = DEFAULT_CONTEXT_LENGTH,
) -> NgramModel:
    """The Kneser-Ney model of the order that does best on `held_out` (n,), its first million tokens.

    All orders share one set of counts; once an order above 3 does no better than a shorter one,
    longer ones are not tried.
    """
    return _best(counter, held_out, orders, context_length, "kneser-ney")[0]


def _best(
    counter: NgramCounter,
    held_out: NDArray,
    orders: Sequence[int],
    context_length: int,
    smoothing: Smoothing,
) -> tuple[NgramModel, float]:
    """(the best model, its nats on `held_out`)."""
    vocab_size, end_id = counter.vocab_size, counter.end_id
    sample = np.asarray(held_out[:CHOSEN_ON], dtype=np.int64)
    usable = (np.arange(len(sample)) - 1) % context_length + 1
    usable[:1] = 0
    below: list[SmoothedLevel] = []
    counter.count_to(max(orders))
    best, least = None, math.inf
    with progress.track("trying n-grams", len(orders), "orders") as job:
        for order in sorted(orders):
            counted = counter.count_to(order)
            for shorter in counted[len(below) : order - 1]:
                last = below[-1] if below else None
                below.append(smooth_level(shorter, last, False, vocab_size, smoothing))
            last = below[order - 2] if order > 1 else None
            top = smooth_level(counted[-1], last, True, vocab_size, smoothing)
            config = NgramConfig(vocab_size, order, smoothing)
            model = NgramModel(config, [*below[: order - 1], top], end_id)
            loss = float(model.score(sample, usable)[0][1:].sum())
            job.advance(order=order)
            if loss < least:
                best, least = model, loss
            elif order > ALWAYS_TRIED:
                break
    assert best is not None, "there is at least one order"
    return best, least


def _loss(
    model: NgramModel, store: TokenStore, context_length: int, streaming: bool = False
) -> float:
    result = evaluate(model, store, context_length=context_length, streaming=streaming)
    return result.nats_per_token
