"""How well a next-token model predicts a text: every token but the first, each scored once.

*Windowed*, the default: consecutive windows of `context_length` targets, the last one short; the
model's state is reset at each, whatever kind of model it is. *Streaming*: a model that carries
state keeps it through the whole text (a document at a time); a Transformer gets windows that
overlap by half, of which the second half is scored. Streaming flatters every model, windowed
compares them: say which.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.evaluation.losses import Forward, LossBlock, losses
from budgerigar.models.base import NextTokenModel
from budgerigar.text.store import TokenStore

DEFAULT_CONTEXT_LENGTH = 256


@dataclass(frozen=True)
class Evaluation:
    """Losses of one model on one text. Nats are natural-logarithm units, -ln p."""

    nats: float
    """the score: sum over all scored tokens"""
    n_tokens: int
    """tokens scored: all but the first"""
    n_bytes: int
    """UTF-8 bytes of the text"""
    n_characters: int
    """characters (Unicode code points) of the text"""
    nats_per_token: float
    nats_per_character: float
    bits_per_byte: float
    """compares models with different tokenizers"""
    perplexity: float
    """exp(nats per token); compares only models with the same tokenizer"""
    accuracy: float
    """share of tokens that were the most probable one"""
    standard_error: float | None
    """of nats_per_token, over windows; None with a single window"""
    context_length: int
    """targets per window"""
    streaming: bool
    n_unseen: int | None = None
    """scored tokens whose kind never occurs in the training text (asked for with `seen`)"""
    nats_unseen: float | None = None
    """their part of `nats`"""
    bleu: float | None = None
    """of greedy translations, where pairs were evaluated during training"""

    unit: ClassVar[str] = "nats per token"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def evaluate(
    network: NextTokenModel,
    store: TokenStore,
    *,
    context_length: int | None = None,
    batch_size: int = 32,
    streaming: bool = False,
    device: torch.device | str | None = None,
    forward: Forward | None = None,
    seen: NDArray[np.bool_] | None = None,
    watch: Callable[[LossBlock], Any] | None = None,
) -> Evaluation:
    """Score `store` with any next-token model; see the head of this file for the two ways.

    `context_length`: targets per window (default: the model's, or 256 for one without). `forward`:
    called instead of the network's own (compiled, or under autocast) with `tokens`,
    `document_ids`, `positions`. `seen` (V,): tokens that the training text has (its store's
    `counts > 0`); the others are counted apart. `watch`: called with the losses, block by block.
    Mode (training or not) and random generators are left as they were.
    """
    n_targets = store.n_targets
    if n_targets < 1:
        raise UserError(
            f"this text has {store.n_tokens} tokens: the first one is given, so at least 2 are "
            "needed to measure a loss; use a longer text"
        )
    length = _window_length(network, context_length)
    _check_ids(network, store)
    blocks = losses(network, store, length, batch_size, streaming, device, forward)
    tally = _Tally(length, seen)
    with progress.track("evaluating", n_targets, "tokens") as job:
        for block in blocks:
            tally.add(block)
            if watch is not None:
                watch(block)
            job.advance(len(block.nats))
    assert tally.n_tokens == n_targets, f"{tally.n_tokens} of {n_targets} tokens were scored"
    return tally.result(store, streaming)


def _window_length(network: NextTokenModel, asked: int | None) -> int:
    limit = network.context_length
    if asked is None:
        return limit or DEFAULT_CONTEXT_LENGTH
    if asked < 1 or (limit is not None and asked > limit):
        raise UserError(
            f"context_length = {asked}: windows of this model hold 1 to {limit or 'any number of'} "
            "tokens"
        )
    return asked


def _check_ids(network: NextTokenModel, store: TokenStore) -> None:
    used = np.flatnonzero(store.counts)
    largest = int(used[-1]) if len(used) else 0
    if largest >= network.vocab_size:
        raise UserError(
            f"token {largest} does not fit the model's vocabulary of {network.vocab_size}: the "
            "text was encoded with another tokenizer; encode it with the model's own"
        )


class _Tally:
    """Adds losses up in float64, and window by window for the standard error."""

    def __init__(self, window: int, seen: NDArray[np.bool_] | None) -> None:
        self.window, self.seen = window, seen
        self.n_tokens = self.correct = self.unseen = 0
        self.nats = self.nats_unseen = 0.0
        self._window_nats: list[NDArray[np.float64]] = []
        self._rest = np.zeros(0)

    def add(self, block: LossBlock) -> None:
        """The losses of the next targets of the text."""
        self.n_tokens += len(block.nats)
        self.nats += float(block.nats.sum())
        self.correct += int(block.correct.sum())
        if self.seen is not None:
            new = ~self.seen[block.targets]
            self.unseen += int(new.sum())
            self.nats_unseen += float(block.nats[new].sum())
        pending = np.concatenate([self._rest, block.nats])
        whole = len(pending) // self.window * self.window
        self._window_nats.append(pending[:whole].reshape(-1, self.window).sum(axis=1))
        self._rest = pending[whole:]

    def _standard_error(self) -> float | None:
        """Of the mean per token, a ratio of sums over windows (Cochran 1977, eq. 6.13)."""
        sums, counts = np.concatenate(self._window_nats), self.window
        residuals = sums - self.nats / self.n_tokens * counts
        if len(self._rest):
            last = self._rest.sum() - self.nats / self.n_tokens * len(self._rest)
            residuals = np.append(residuals, last)
        n = len(residuals)
        if n < 2:
            return None
        return math.sqrt(n / (n - 1) * float((residuals**2).sum())) / self.n_tokens

    def result(self, store: TokenStore, streaming: bool) -> Evaluation:
        """All measures."""
        mean = self.nats / self.n_tokens
        return Evaluation(
            nats=self.nats,
            n_tokens=self.n_tokens,
            n_bytes=store.n_bytes,
            n_characters=store.n_characters,
            nats_per_token=mean,
            nats_per_character=_ratio(self.nats, store.n_characters),
            bits_per_byte=_ratio(self.nats / math.log(2), store.n_bytes),
            perplexity=math.exp(mean) if mean < 700 else math.inf,
            accuracy=self.correct / self.n_tokens,
            standard_error=self._standard_error(),
            context_length=self.window,
            streaming=streaming,
            n_unseen=None if self.seen is None else self.unseen,
            nats_unseen=None if self.seen is None else self.nats_unseen,
        )


def _ratio(amount: float, units: int) -> float:
    return amount / units if units else math.nan
