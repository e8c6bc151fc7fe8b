"""How well an encoder fills in: every token of a text hidden once, with masks that are always the same.

*Masked cross-entropy*: each window of `context_length` tokens is read `passes` times; each time another
part of it (about the share that training hides) is masked, all of it by `[MASK]`, and told from the
rest. Together the parts are the whole window, so every token but the special ones is scored once. It is
a mean over guesses that each see both sides: not the probability of a text, and not to be compared with
the loss or the bits per byte of a model that reads from left to right.

*Pseudo-log-likelihood* (Salazar et al. 2020) hides one token at a time: as many passes as tokens.

Shapes: B windows, T tokens, N hidden ones, V vocab_size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.evaluation.losses import LOGITS_AT_ONCE, measure
from budgerigar.evaluation.scoring import TokenScores
from budgerigar.models.base import check_ids
from budgerigar.models.modes import without_dropout
from budgerigar.text.masking import MaskRule, whole_windows
from budgerigar.text.store import TokenStore

SEED = 0  # of the masks: one choice for all models and times


@dataclass(frozen=True)
class MaskedEvaluation:
    """Masked cross-entropy of one model on one text, in nats."""

    nats: float
    """sum of -ln p over all hidden tokens"""
    n_tokens: int
    """tokens scored: all but special ones, each hidden once"""
    nats_per_token: float
    accuracy: float
    """share of hidden tokens that were the likeliest one"""
    standard_error: float | None
    """of nats_per_token, over windows; None with a single window"""
    context_length: int
    """tokens per window"""
    passes: int
    """of each window, with another part hidden in each"""
    whole_words: bool
    """words were hidden whole: harder, and not comparable with tokens hidden one by one"""

    unit: ClassVar[str] = "nats per hidden token"
    explained: ClassVar[str] = (
        "masked cross-entropy: each token is told from both sides, so it is not comparable with the "
        "loss or bits per byte of a model that reads from left to right"
    )

    @property
    def perplexity(self) -> float:
        """exp(nats_per_token), a pseudo-perplexity."""
        return math.exp(self.nats_per_token) if self.nats_per_token < 700 else math.inf

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        fields = dataclasses.asdict(self)
        return {"measure": "masked cross-entropy", **fields, "explained": self.explained}


def evaluate_masked(
    network: Any,
    store: TokenStore,
    rule: MaskRule,
    *,
    context_length: int | None = None,
    batch_size: int = 32,
    seed: int = SEED,
) -> MaskedEvaluation:
    """Score every token of `store` but special ones; see the head of this file.

    The masks depend on `seed` and the number of a window alone, not on `batch_size`. Mode (training or
    not) and random generators are left as they were.
    """
    length = context_length or network.context_length
    n_windows = -(-store.n_tokens // length)
    total = int(rule.maskable[np.flatnonzero(store.counts)] @ store.counts[store.counts > 0])
    if not total:
        raise UserError("there is no token in this text that could be hidden; use another text")
    rows = min(batch_size, max(1, LOGITS_AT_ONCE // (length * network.vocab_size)))
    nats, counts, correct = np.zeros(n_windows), np.zeros(n_windows, dtype=np.int64), 0
    with (
        without_dropout(network),
        torch.no_grad(),
        progress.track("evaluating", total, "tokens") as job,
    ):
        for first in range(0, n_windows, rows):
            for targets, logits, row in _passes(network, store, rule, length, first, rows, seed):
                block = measure(logits, targets)
                nats[first:] += np.bincount(row, weights=block.nats, minlength=n_windows - first)
                counts[first:] += np.bincount(row, minlength=n_windows - first)
                correct += int(block.correct.sum())
                job.advance(len(block.nats))
    n = int(counts.sum())
    return MaskedEvaluation(
        nats=float(nats.sum()),
        n_tokens=n,
        nats_per_token=float(nats.sum()) / n,
        accuracy=correct / n,
        standard_error=ratio_error(nats, counts),
        context_length=length,
        passes=rule.passes,
        whole_words=rule.joins is not None,
    )


def _passes(
    network: Any, store: TokenStore, rule: MaskRule, length: int, first: int, rows: int, seed: int
) -> Any:
    """(hidden tokens (N,), their logits (N,V), the row of each) of some windows, once a pass."""
    batch, sizes = whole_windows(store, length, rows, first)
    tokens = batch.tokens
    groups = torch.from_numpy(rule.groups(tokens.numpy(), seed, first))
    groups[torch.arange(tokens.shape[1])[None] >= torch.from_numpy(sizes)[:, None]] = -1
    width = int(sizes.max())  # a text shorter than a window is not read with its padding
    tokens, groups = tokens[:, :width], groups[:, :width]
    place = network.device
    inputs = {"document_ids": batch.document_ids, "positions": batch.positions}
    inputs = {name: None if x is None else x[:, :width].to(place) for name, x in inputs.items()}
    short = bool((sizes < tokens.shape[1]).any())
    lengths = torch.from_numpy(sizes).to(place) if short else None
    for number in range(rule.passes):
        hidden = groups == number
        if not hidden.any():
            continue
        logits = network.predict(
            tokens.to(place), hidden.to(place), lengths, mask_id=rule.mask_id, **inputs
        )
        yield tokens[hidden].to(place), logits, hidden.nonzero()[:, 0].numpy()


def ratio_error(nats: NDArray[np.float64], counts: NDArray[np.int64]) -> float | None:
    """Standard error of a mean per token, a ratio of sums over units (Cochran 1977, eq. 6.13)."""
    used = counts > 0
    n, total = int(used.sum()), int(counts.sum())
    if n < 2:
        return None
    residuals = nats[used] - nats.sum() / total * counts[used]
    return math.sqrt(n / (n - 1) * float((residuals**2).sum())) / total


def unigram_lines(train: NDArray[np.int64], held_out: NDArray[np.int64]) -> dict[str, float]:
    """Nats per token that need no context: of guessing, and of knowing how often each token occurs.

    train, held_out: how often each token that can be hidden occurs (V',). A masked-word loss at the
    unigram's line is on the plateau that all such models cross: nothing of the context is used yet.
    """
    kinds = max(int((train > 0).sum()), 1)
    share = held_out / max(held_out.sum(), 1)
    return {"uniform": math.log(kinds), "unigram": float((share * frequency_nats(train)).sum())}


def frequency_nats(counts: NDArray[Any]) -> NDArray[np.float64]:
    """-ln p of each token by its frequency alone (V,); what was never seen shares the probability of
    something new (Witten & Bell 1991)."""
    counts = counts.astype(np.float64)
    seen, total = counts > 0, counts.sum()
    kinds = float(seen.sum())
    new = kinds / max(float((~seen).sum()), 1.0)
    found: NDArray[np.float64] = -np.log(np.where(seen, counts, max(new, 1e-12)) / (total + kinds))
    return found


@torch.no_grad()
def pseudo_scores(
    network: Any,
    ids: Sequence[int],
    mask_id: int,
    start_id: int | None = None,
    after: Sequence[int] = (),
    batch_size: int = 32,
) -> TokenScores:
    """-ln p and rank of each of `ids`, each hidden alone and told from all others.

    `start_id` is put before them, `after` behind them, and neither is scored. A text longer than the
    context is read in pieces that do not see each other.
    """
    before = [] if start_id is None else [start_id]
    check_ids([*before, *ids], network.vocab_size)
    room = network.context_length - len(before) - len(after)
    nats, ranks = [], []
    with without_dropout(network):
        for begin in range(0, len(ids), room):
            piece = [*before, *ids[begin : begin + room], *after]
            given = torch.tensor(piece, device=network.device)
            places = torch.arange(len(before), len(given) - len(after), device=network.device)
            for some in places.split(batch_size):
                block = measure(_hide_each(network, given, some, mask_id), given[some], ranks=True)
                nats.append(block.nats)
                ranks.append(block.ranks)
    if not nats:
        return TokenScores(np.zeros(0), np.zeros(0, dtype=np.int64))
    return TokenScores(np.concatenate(nats), np.concatenate([r for r in ranks if r is not None]))


def _hide_each(network: Any, given: Tensor, places: Tensor, mask_id: int) -> Tensor:
    """Logits (N,V) at each of `places` (N,) of tokens (T,), hidden by itself."""
    rows = given.expand(len(places), -1)
    hidden = torch.arange(len(given), device=given.device)[None] == places[:, None]
    found: Tensor = network.predict(rows, hidden, mask_id=mask_id)
    return found
