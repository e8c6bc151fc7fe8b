"""A text as the words that have vectors; how frequent words are thinned out, and what noise is.

Shapes: N words of a text, R words with a vector, V vocab_size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgerigar.text.tokenizer import Tokenizer
from budgerigar.text.words import whole_words


@dataclass(frozen=True)
class WordText:
    """A text as the words that have vectors, in order; all others are left out.

    words (N,) int32 rows; documents (N,) int32, which document each is of: no pair crosses them.
    """

    words: NDArray[np.int32]
    documents: NDArray[np.int32]
    n_tokens: int
    """tokens of the text that these are left of"""

    def __len__(self) -> int:
        return len(self.words)


def word_text(
    tokens: np.ndarray, rows: np.ndarray, tokenizer: Tokenizer, end_id: int | None
) -> WordText:
    """The words of `tokens` (n,); `rows` (V,) is each token's row or -1; `end_id` parts documents."""
    words = rows[tokens]
    kept = (words >= 0) & whole_words(tokens, tokenizer)
    documents = np.zeros(len(tokens), dtype=np.int32)
    if end_id is not None:
        np.cumsum(tokens == end_id, out=documents)
    return WordText(words[kept], documents[kept], len(tokens))


def keep_shares(counts: np.ndarray, subsample: float) -> np.ndarray:
    """Share of each word's occurrences that is learnt from (R,): frequent words are thinned out.

    sqrt(t/f) + t/f for a word that is the share f of the text, as in the authors' program (2013b,
    equation 5, is the first term), at most 1.
    """
    if not subsample:
        return np.ones(len(counts))
    ratio = subsample * counts.sum() / np.maximum(counts, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


def noise_distribution(counts: np.ndarray, power: float) -> np.ndarray:
    """Probability of each word as noise (R,)."""
    weights = counts.astype(np.float64) ** power
    return weights / weights.sum()


def thin_out(text: WordText, keep: np.ndarray, rng: np.random.Generator) -> WordText:
    """`text` without those words that subsampling drops."""
    stays = rng.random(len(text)) < keep[text.words]
    return WordText(text.words[stays], text.documents[stays], text.n_tokens)
