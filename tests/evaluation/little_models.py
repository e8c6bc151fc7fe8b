"""A token store in memory, and models that offer only a part of what real ones do."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram import NgramModel
from budgerigar.text.store import TokenStore

END = 0


def store_of(
    tokens: np.ndarray | list[int],
    end_id: int | None = None,
    vocab_size: int = 6,
    n_bytes: int = 1000,
    n_characters: int = 500,
) -> TokenStore:
    """A token store in memory."""
    array = np.asarray(tokens, dtype=np.uint16)
    counts = np.bincount(array, minlength=vocab_size)
    return TokenStore(array, n_bytes, n_characters, end_id, counts)


def make_store(n: int, documents: bool, vocab_size: int = 6, seed: int = 0) -> TokenStore:
    """Random tokens; with documents, `<end>` opens the first and some others, also empty ones."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, vocab_size, n)
    if documents:
        tokens[rng.random(n) < 0.12] = END
        tokens[0] = END
    return store_of(tokens, END if documents else None, vocab_size)


def make_ngram(vocab_size: int = 6, order: int = 4, end_id: int | None = None) -> NgramModel:
    tokens = np.random.default_rng(9).choice(vocab_size, 800) ** 2 % vocab_size
    return NgramModel.fit(tokens, NgramConfig(vocab_size, order), end_id)


class OnlySteps:
    """A next-token model with `start` and `step` and nothing else."""

    def __init__(self, model: Any, context_length: int | None = None) -> None:
        self.config, self.vocab_size, self.device = model.config, model.vocab_size, model.device
        self.context_length = context_length if context_length else model.context_length
        self._model = model
        self.widths: list[tuple[int, int]] = []

    def start(self, batch_size: int, *rest: Any) -> Any:
        return self._model.start(batch_size)

    def step(
        self,
        tokens: Tensor,
        state: Any,
        lengths: Tensor | None = None,
        all_positions: bool = False,
        taps: Any = None,
    ) -> tuple[Tensor, Any]:
        self.widths.append(tuple(tokens.shape))  # type: ignore[arg-type]
        return self._model.step(tokens, state, lengths, all_positions)


def by_hand(
    model: Any, store: TokenStore, window: int | None, overlap: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Nats and the best token of every target: one target at a time, straight from the definition.

    `window` None: state carried. `overlap`: each target in the first window, advancing by half,
    that holds it.
    """
    nats, best = [], []
    for target in range(1, store.n_tokens):
        begin = 0
        if window is not None:
            stride = max(1, window // 2) if overlap else window
            while begin + window < target:
                begin += stride
        context = store.tokens[begin:target].astype(np.int64)
        if store.end_id is not None and (context == store.end_id).any():
            context = context[np.flatnonzero(context == store.end_id)[-1] :]
        with torch.no_grad():
            logits, _ = model.step(torch.from_numpy(context)[None], model.start(1))
        row = logits[0].double().log_softmax(-1)
        nats.append(-row[int(store.tokens[target])].item())
        best.append(int(row.argmax()))
    return np.array(nats), np.array(best)
