"""The held-out loss of word vectors, and what it is to be compared with.

The loss that was trained, on a text that was not: nats per true pair. Nothing is drawn anew: windows
count by how likely they are (a word d places away by the share of windows that reach it), noise are
the words in the middle of each of 512 equal shares of its distribution, and the text is thinned
out with a fixed seed. The figure compares models of one vocabulary and one number of `negatives`, and
nothing else: these models predict no text, so there are no bits per byte.

Shapes: N words, M noise words, P pairs (or places), D d_embedding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.models.word_vectors import WordVectors
from budgerigar.text.word_text import WordText, keep_shares, noise_distribution, thin_out

MOST_WORDS = 100_000  # of a text that are looked at
NOISE_WORDS = 512
SEED = 0  # of the thinning-out
_CHUNK = 1 << 14  # pairs at a time

softplus = torch.nn.functional.softplus


@dataclass(frozen=True)
class VectorEvaluation:
    """Held-out loss of word vectors, in nats per true pair with its `negatives` noise words."""

    loss: float
    by_frequency: float
    """of the best that knows how frequent each word is, and nothing of what stands beside it"""
    by_nothing: float
    """(1 + negatives) ln 2: every pair is as likely true as noise"""
    pairs: float
    """true pairs, in expectation"""
    n_words: int
    """words that were looked at, after thinning out"""
    n_tokens: int
    """tokens of the text that they were among"""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@torch.inference_mode()
def evaluate_vectors(model: WordVectors, text: WordText) -> VectorEvaluation:
    """The losses of `model` on `text` (see `word_text`).

    Raises:
        UserError: no two words of it with vectors stand near each other.
    """
    config = model.config
    keep = keep_shares(model.counts, config.subsample)
    first = WordText(text.words[:MOST_WORDS], text.documents[:MOST_WORDS], text.n_tokens)
    thinned = thin_out(first, keep, np.random.default_rng(SEED))
    noise_share = noise_distribution(model.counts, config.noise_power)
    middles = (np.arange(NOISE_WORDS) + 0.5) / NOISE_WORDS
    edges = np.cumsum(noise_share)
    drawn = np.minimum(np.searchsorted(edges, middles * edges[-1]), model.n_words - 1)
    noise = torch.from_numpy(drawn)
    learnt = model.counts * keep
    frequency = np.log(np.maximum(learnt / learnt.sum(), 1e-12) / (config.negatives * noise_share))
    known = torch.from_numpy(frequency)
    by_noise = config.negatives * float(softplus(known[noise]).mean())
    pairs = total = frequent = 0.0
    step = _skip_gram if config.method == "skip-gram" else _cbow
    for scores, against, predicted, weights in step(model, thinned, noise):
        total += float((weights * (softplus(-scores) + config.negatives * against)).sum())
        frequent += float((weights * softplus(-known[predicted])).sum())
        pairs += float(weights.sum())
    if not pairs:
        raise UserError(
            "there is nothing to evaluate word vectors on: no two words that have vectors stand near "
            "each other in this text. Give a longer one of the same language."
        )
    return VectorEvaluation(
        loss=total / pairs,
        by_frequency=frequent / pairs + by_noise,
        by_nothing=(1 + config.negatives) * math.log(2),
        pairs=pairs,
        n_words=len(thinned),
        n_tokens=text.n_tokens,
    )


Parts = Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]


def _against(predicting: Tensor, noise_vectors: Tensor) -> Tensor:
    """Mean loss of vectors (P, D) against noise words (M, D), float64 (P,)."""
    parts = predicting.split(_CHUNK)
    return torch.cat([softplus(part @ noise_vectors.T).mean(1) for part in parts]).double()


def _skip_gram(model: WordVectors, text: WordText, noise: Tensor) -> Parts:
    """(scores, losses against noise, rows predicted, weights), each (P,), in chunks."""
    window = model.config.window
    distinct, words = np.unique(text.words.astype(np.int64), return_inverse=True)
    row, number = torch.from_numpy(distinct), torch.from_numpy(words)
    against = _against(model.inputs[row], model.outputs[noise]) if len(row) else torch.zeros(0)
    documents = torch.from_numpy(text.documents)
    for distance in range(1, min(window, len(words) - 1) + 1):
        near = torch.nonzero(documents[distance:] == documents[:-distance])[:, 0]
        share = (window - distance + 1) / window
        for places in near.split(_CHUNK):
            weights = torch.full((len(places),), share, dtype=torch.float64)
            for centre, other in ((places, places + distance), (places + distance, places)):
                centres, predicted = number[centre], row[number[other]]
                scores = (model.inputs[row[centres]] * model.outputs[predicted]).sum(1).double()
                yield scores, against[centres], predicted, weights


def _cbow(model: WordVectors, text: WordText, noise: Tensor) -> Parts:
    """The same for CBOW, where a pair is a place with the mean of the words around it."""
    window = model.config.window
    words = torch.from_numpy(text.words.astype(np.int64))
    documents = torch.from_numpy(text.documents)
    for begin in range(0, len(words), _CHUNK):
        places = torch.arange(begin, min(begin + _CHUNK, len(words)))
        summed = torch.zeros(len(places), model.config.d_embedding)
        many = torch.zeros(len(places))
        for distance in range(1, window + 1):
            for other in (places - distance, places + distance):
                inside = (other >= 0) & (other < len(words))
                other = other.clamp(0, len(words) - 1)
                same = (inside & (documents[other] == documents[places])).float()
                summed += same[:, None] * model.inputs[words[other]]
                many += same
            mean, predicted = summed / many.clamp(min=1)[:, None], words[places]
            scores = (mean * model.outputs[predicted]).sum(1).double()
            yield scores, _against(mean, model.outputs[noise]), predicted, (many > 0) / window
