"""How well an encoder-decoder writes the spans that are missing from a text, always the same spans.

Each row of at most `context_length` tokens is read once for every pass with other spans taken out of
it; together they are the whole row, so every token is hidden once. What is written is scored in full:
the hidden tokens, the sentinels before them and `<end>`; the loss of the hidden tokens alone stands
beside it. The reference is read as it is written ("teacher forcing").

Shapes: B rows, T target positions, V vocab_size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.evaluation.losses import LOGITS_AT_ONCE, measure
from budgerigar.evaluation.masked import SEED, frequency_nats, ratio_error
from budgerigar.models.modes import without_dropout
from budgerigar.text.batches import NOT_SCORED
from budgerigar.text.pair_batches import PairBatch
from budgerigar.text.span_corruption import SpanRule, evaluation_spans, text_rows
from budgerigar.text.store import TokenStore


@dataclass(frozen=True)
class SpanEvaluation:
    """Losses of one model on the spans of one text, in nats."""

    nats: float
    """sum of -ln p over all that is to be written"""
    n_tokens: int
    """tokens to be written: hidden ones, sentinels, `<end>`"""
    nats_per_token: float
    nats_hidden: float
    """the part of the hidden tokens in `nats`"""
    n_hidden: int
    """hidden tokens: all of the text, each once"""
    nats_per_hidden_token: float
    accuracy: float
    """share of hidden tokens that were the likeliest one"""
    standard_error: float | None
    """of nats_per_token, over rows; None with a single row"""
    context_length: int
    """most tokens of a row"""
    passes: int
    """of each row, with other spans hidden in each"""

    unit: ClassVar[str] = "nats per token of the spans"
    explained: ClassVar[str] = (
        "span corruption: spans are written from what stands on both sides of them, so this is not "
        "comparable with the loss or bits per byte of a model that reads from left to right"
    )

    @property
    def perplexity(self) -> float:
        """exp(nats_per_token)."""
        return math.exp(self.nats_per_token) if self.nats_per_token < 700 else math.inf

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        fields = dataclasses.asdict(self)
        return {"measure": "span corruption", **fields, "explained": self.explained}


def evaluate_spans(
    network: Any,
    store: TokenStore,
    rule: SpanRule,
    *,
    context_length: int | None = None,
    batch_tokens: int = 4096,
    seed: int = SEED,
) -> SpanEvaluation:
    """Score every token of `store`; see the head of this file. `batch_tokens` changes the speed alone.

    Mode (training or not) and random generators are left as they were.
    """
    length = context_length or network.context_length
    rows = text_rows(store, length)
    if not len(rows):
        raise UserError("there is no document of two tokens, one to hide and one to see")
    nats, counts = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
    hidden_nats, hidden, correct = 0.0, 0, 0
    special = np.isin(np.arange(network.vocab_size), [*rule.sentinels, rule.end_id])
    with (
        without_dropout(network),
        torch.no_grad(),
        progress.track("evaluating", int(rows.lengths.sum()), "tokens") as job,
    ):
        for batch, numbers in _batches(network, store, rule, length, batch_tokens, seed):
            place = network.device
            scored = batch.targets != NOT_SCORED
            inputs = {name: value.to(place) for name, value in batch.inputs().items()}
            block = measure(
                network(**inputs, only=scored.to(place)), batch.targets[scored].to(place)
            )
            row = numbers[scored.nonzero()[:, 0].numpy()]
            nats += np.bincount(row, weights=block.nats, minlength=len(rows))
            counts += np.bincount(row, minlength=len(rows))
            text = ~special[block.targets]
            hidden += int(text.sum())
            hidden_nats += float(block.nats[text].sum())
            correct += int(block.correct[text].sum())
            job.advance(int(text.sum()))
    total, n = float(nats.sum()), int(counts.sum())
    return SpanEvaluation(
        nats=total,
        n_tokens=n,
        nats_per_token=total / n,
        nats_hidden=hidden_nats,
        n_hidden=hidden,
        nats_per_hidden_token=hidden_nats / hidden,
        accuracy=correct / hidden,
        standard_error=ratio_error(nats, counts),
        context_length=length,
        passes=rule.passes,
    )


def _batches(
    network: Any, store: TokenStore, rule: SpanRule, length: int, batch_tokens: int, seed: int
) -> Iterator[tuple[PairBatch, NDArray[np.int64]]]:
    tokens = min(batch_tokens, max(1, LOGITS_AT_ONCE // network.vocab_size))
    return evaluation_spans(store, rule, length, tokens, seed)


def span_lines(
    train: TokenStore, held_out: TokenStore, rule: SpanRule, length: int
) -> dict[str, float]:
    """Nats per token of the spans that need no context: of guessing, and of knowing how often each
    token is to be written (sentinels and `<end>` too)."""
    rows = text_rows(train, length)
    sizes, times = np.unique(rows.lengths, return_counts=True)
    counts = np.zeros(len(train.counts))
    counts[rule.end_id] = len(rows)
    hidden = 0.0
    for size, rows_of in zip(sizes.tolist(), times.tolist(), strict=True):
        spans = rule.spans_of_passes(size)
        hidden += rows_of * size / len(spans)
        for number in range(int(spans.max()) + 1):  # the last sentinel ends the last span
            counts[rule.sentinels[number]] += rows_of * float((spans >= number).mean())
    text = train.counts.astype(np.float64)
    text[[rule.end_id, *rule.sentinels]] = 0
    counts += text * hidden / max(text.sum(), 1)
    nats = frequency_nats(counts)
    total, n = 0.0, 0
    for batch, _ in evaluation_spans(held_out, rule, length, 1 << 16, SEED):
        targets = batch.targets[batch.targets != NOT_SCORED].numpy()
        total += float(nats[targets].sum())
        n += len(targets)
    return {"uniform": math.log(int((counts > 0).sum())), "unigram": total / max(n, 1)}
