"""What words alone tell of a text's class: logistic regression on a bag of words, and the majority.

The bag holds words and pairs of neighbours, in small letters, whether they occur, each weighted by
how rare it is (Sparck Jones 1972) and the whole scaled to length 1. It knows no order beyond a pair:
a network that is not better than this has learnt nothing that needs reading.

Shapes: n texts, F features, C classes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_WORD = re.compile(r"[^\W_]+|[^\w\s]")
_CJK = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff]")
MOST_FEATURES = 200_000
PENALTIES = (1e-3, 1e-4, 3e-5, 1e-5, 1e-6)  # weights of the sum of squares beside the mean loss


def features(text: str) -> list[str]:
    """The words of a text and its pairs of neighbours; Chinese characters are words."""
    words = _WORD.findall(_CJK.sub(r" \g<0> ", text).casefold())
    return [*words, *(f"{one} {other}" for one, other in pairwise(words))]


@dataclass(frozen=True)
class BagOfWords:
    """columns: feature -> its column. rarity: (F,). weights: (F,C), bias: (C,)."""

    columns: dict[str, int]
    rarity: NDArray[np.float32]
    weights: Tensor
    bias: Tensor

    def log_p(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """ln p of each class for each text (n,C)."""
        found = _product(_bags(texts, self.columns, self.rarity), self.weights) + self.bias
        return found.double().log_softmax(-1).numpy()


def fit_bag_of_words(
    texts: Sequence[str],
    labels: NDArray[np.int64],
    n_classes: int,
    penalty: float | None = None,
    steps: int = 100,
) -> BagOfWords:
    """Logistic regression by L-BFGS on the mean -ln p of the right class plus `penalty` x squares.

    penalty None: the one of `PENALTIES` that does best on a tenth of these texts, learnt from the
    others, so that the rival is as good as it can be. The same for the same texts.
    """
    if penalty is None:
        penalty = _best_penalty(texts, labels, n_classes, steps)
    counts = Counter(feature for text in texts for feature in set(features(text)))
    kept = [f for f, n in counts.most_common(MOST_FEATURES) if n > 1 or len(texts) < 1000]
    columns = {feature: i for i, feature in enumerate(kept)}
    rarity = np.array([1 + math.log(len(texts) / counts[f]) for f in kept], dtype=np.float32)
    bags, wanted = _bags(texts, columns, rarity), torch.from_numpy(labels)
    weights = torch.zeros(max(len(kept), 1), n_classes, requires_grad=True)
    bias = torch.zeros(n_classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = _product(bags, weights) + bias
        value = torch.nn.functional.cross_entropy(logits, wanted)
        value = value + penalty * weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return BagOfWords(columns, rarity, weights.detach(), bias.detach())


def _best_penalty(
    texts: Sequence[str], labels: NDArray[np.int64], n_classes: int, steps: int
) -> float:
    order = np.random.default_rng(0).permutation(len(texts))
    held_out, kept = order[: len(order) // 10], order[len(order) // 10 :]
    if len(held_out) < n_classes:
        return PENALTIES[1]
    losses = {}
    for penalty in PENALTIES:
        own = [texts[i] for i in kept]
        bag = fit_bag_of_words(own, labels[kept], n_classes, penalty, steps)
        log_p = bag.log_p([texts[i] for i in held_out])
        losses[penalty] = -float(log_p[np.arange(len(held_out)), labels[held_out]].mean())
    return min(losses, key=lambda penalty: losses[penalty])


@dataclass(frozen=True)
class _Bags:
    """Features of all texts in a row: columns (m,), values (m,), and where each text begins (n,)."""

    columns: Tensor
    values: Tensor
    begins: Tensor


def _bags(texts: Sequence[str], columns: dict[str, int], rarity: NDArray[np.float32]) -> _Bags:
    found: list[list[int]] = []
    for text in texts:
        known = {columns[feature] for feature in features(text) if feature in columns}
        found.append(sorted(known))
    lengths = np.array([len(own) for own in found], dtype=np.int64)
    flat = np.array([column for own in found for column in own], dtype=np.int64)
    values = (rarity[flat] if len(flat) else np.zeros(0)).astype(np.float64)
    text_of = np.repeat(np.arange(len(found)), lengths)
    squares = np.bincount(text_of, weights=values**2, minlength=len(found))
    scaled = (values / np.sqrt(np.maximum(squares, 1e-12))[text_of]).astype(np.float32)
    begins = np.cumsum(lengths) - lengths
    return _Bags(*map(torch.from_numpy, (flat, scaled, begins)))


def _product(bags: _Bags, weights: Tensor) -> Tensor:
    """(n,C): the weighted sum of the weights (F,C) of each text's features."""
    found: Tensor = torch.nn.functional.embedding_bag(
        bags.columns, weights, bags.begins, mode="sum", per_sample_weights=bags.values
    )
    return found


def majority_log_p(labels: NDArray[np.int64], n_classes: int, n: int) -> NDArray[np.float64]:
    """ln p (n,C) of knowing only how often each class occurs among `labels`."""
    counts = np.bincount(labels, minlength=n_classes) + 1.0
    return np.broadcast_to(np.log(counts / counts.sum()), (n, n_classes)).copy()
