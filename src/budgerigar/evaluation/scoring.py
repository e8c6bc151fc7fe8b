"""The loss and the rank of every token of a short text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgerigar.evaluation.evaluate import DEFAULT_CONTEXT_LENGTH
from budgerigar.evaluation.losses import losses
from budgerigar.models.base import NextTokenModel, check_ids
from budgerigar.text.store import TokenStore


class TokenScores(NamedTuple):
    """One entry per scored token."""

    nats: NDArray[np.float64]
    """-ln p"""
    ranks: NDArray[np.int64]
    """1: it was the most probable token"""


def score_ids(
    network: NextTokenModel, ids: Sequence[int], start_id: int | None = None
) -> TokenScores:
    """How surprising each of `ids` was to the model, given those before it.

    `start_id` (`<end>`, for models that learnt documents) comes before the first, which is then
    scored too; without it the first id is only given: entry 0 belongs to `ids[1]`. Texts longer
    than the context are read in windows that overlap by half.
    """
    given = list(ids) if start_id is None else [start_id, *ids]
    check_ids(given, network.vocab_size)
    if len(given) < 2:
        return TokenScores(np.zeros(0), np.zeros(0, dtype=np.int64))
    # windows are padded to their length: a short text needs no wider one
    length = min(network.context_length or DEFAULT_CONTEXT_LENGTH, len(given) - 1)
    tokens = np.asarray(given, dtype=np.int64)
    counts = np.bincount(tokens, minlength=network.vocab_size)
    store = TokenStore(tokens, n_bytes=0, n_characters=0, end_id=start_id, counts=counts)
    blocks = list(losses(network, store, length, streaming=True, ranks=True))
    ranks = [block.ranks for block in blocks if block.ranks is not None]
    return TokenScores(np.concatenate([block.nats for block in blocks]), np.concatenate(ranks))
