"""How well an encoder-decoder predicts given targets: every target token and `<end>`, each once.

The decoder reads the reference ("teacher forcing"), so this is a loss, not a translation. It is the
true cross-entropy, whatever smoothing the training used.

Shapes: B pairs, T target positions, V vocab_size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.evaluation.evaluate import Evaluation
from budgerigar.evaluation.losses import LOGITS_AT_ONCE, measure
from budgerigar.models.modes import without_dropout
from budgerigar.text.batches import NOT_SCORED
from budgerigar.text.pair_batches import evaluation_pairs
from budgerigar.text.pair_store import PairStore


def evaluate_pairs(network: Any, store: PairStore, *, batch_tokens: int = 4096) -> Evaluation:
    """Score the targets of `store`, each token from its source and the tokens before it.

    `batch_tokens`: most padded tokens of a side at a time (fewer with a large vocabulary); changes the
    speed alone. Pairs beyond the positions that a model has learnt are left out, and that is said. The
    standard error is that over sentences. Mode (training or not) and random generators are left as
    they were.
    """
    store = _that_fit(network, store)
    batch_tokens = min(batch_tokens, max(1, LOGITS_AT_ONCE // network.vocab_size))
    nats, correct = np.zeros(store.n_pairs), 0
    # not inference_mode: tables that a module builds on first use would be useless in training
    with (
        without_dropout(network),
        torch.no_grad(),
        progress.track("evaluating", store.n_tokens, "tokens") as job,
    ):
        start = network.config.decoder_start
        for batch, rows in evaluation_pairs(store, batch_tokens, start):
            place = network.device
            inputs = {name: value.to(place) for name, value in batch.inputs().items()}
            scored = batch.targets != NOT_SCORED
            logits = network(**inputs)[scored.to(place)]
            block = measure(logits, batch.targets[scored].to(place))
            rows_of = rows[scored.nonzero()[:, 0].numpy()]
            nats += np.bincount(rows_of, weights=block.nats, minlength=store.n_pairs)
            correct += int(block.correct.sum())
            job.advance(len(block.nats))
    return _summary(store, nats, correct)


def _that_fit(network: Any, store: PairStore) -> PairStore:
    """The pairs that a model with a table of learned positions can read; others read any length."""
    if not store.n_pairs:
        raise UserError("there is no sentence pair to measure a loss on")
    if getattr(network.config, "positions", None) != "learned":
        return store
    most = network.context_length
    fits = store.within(most, most)
    if fits.all():
        return store
    if not fits.any():
        raise UserError(
            f"every pair is longer than the {most} positions that this model has learnt"
        )
    progress.note(
        f"{int((~fits).sum()):,} of {store.n_pairs:,} pairs are longer than the {most} positions that "
        "this model has learnt, and are not scored"
    )
    return store.subset(np.flatnonzero(fits))


def _summary(store: PairStore, nats: NDArray[np.float64], correct: int) -> Evaluation:
    """All measures from the nats of each pair."""
    total, n = float(nats.sum()), store.n_tokens
    mean = total / n
    lengths = store.target.lengths + 1
    return Evaluation(
        nats=total,
        n_tokens=n,
        n_bytes=store.n_bytes,
        n_characters=store.n_characters,
        nats_per_token=mean,
        nats_per_character=total / store.n_characters,
        bits_per_byte=total / math.log(2) / store.n_bytes,
        perplexity=math.exp(mean) if mean < 700 else math.inf,
        accuracy=correct / n,
        standard_error=_standard_error(nats, lengths),
        context_length=int(lengths.max()),
        streaming=False,
    )


def _standard_error(nats: NDArray[np.float64], lengths: NDArray[np.int64]) -> float | None:
    """Of the mean per token, a ratio of sums over sentences (Cochran 1977, eq. 6.13)."""
    count, tokens = len(nats), int(lengths.sum())
    if count < 2:
        return None
    residuals = nats - nats.sum() / tokens * lengths
    return math.sqrt(count / (count - 1) * float((residuals**2).sum())) / tokens
