"""Word vectors: skip-gram and CBOW with negative sampling (Mikolov et al. 2013a, 2013b).

Every word has two vectors: one as what predicts (`inputs`), one as what is predicted (`outputs`). A
true pair of words should have a large product of the two, a pair with a noise word a small one:

    loss of a pair = -log s(y . x) - K E_noise[log s(-z . x)]         (2013b, equation 4; s: sigmoid)

Skip-gram: x is a word and y a word near it. CBOW: x is the mean of the words around y. What comes of
it are the vectors; the model itself predicts no text. Its words are rows, the most frequent first,
and several tokens may share one (text/words.py).

Shapes: R words with a vector, D d_embedding, V vocab_size; of a block of text: A input words, O output
words, L places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.models.word_vectors_config import WordVectorsConfig

NAMES = ("rows", "counts", "inputs", "outputs")


class WordVectors:
    """The vectors and which token each belongs to. Not a network: nothing flows through it."""

    context_length: None = None
    device = torch.device("cpu")

    def __init__(
        self,
        config: WordVectorsConfig,
        rows: np.ndarray,
        counts: np.ndarray,
        inputs: Tensor,
        outputs: Tensor,
    ) -> None:
        """rows (V,) int32: each token's row, -1 for none. counts (R,): how often each word occurs in
        the training text. inputs, outputs: (R, D) float32."""
        self.config = config.validate()
        self.rows, self.counts = rows, counts
        self.inputs, self.outputs = inputs, outputs

    @classmethod
    def begin(
        cls, config: WordVectorsConfig, rows: np.ndarray, counts: np.ndarray, seed: int = 0
    ) -> Self:
        """Before training: inputs uniform within 0.5 / D, outputs zero, as the authors' program."""
        generator = torch.Generator().manual_seed(seed)
        size = (len(counts), config.d_embedding)
        inputs = (torch.rand(size, generator=generator) - 0.5) / config.d_embedding
        return cls(config, rows, counts, inputs, torch.zeros(size))

    # -- files -------------------------------------------------------------------------------------
    def state_tensors(self) -> dict[str, Any]:
        """All that `from_tensors` needs, for a safetensors file."""
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], config: WordVectorsConfig) -> Self:
        """The model that `state_tensors` came from (numpy arrays or torch tensors)."""
        missing = [name for name in NAMES if name not in tensors]
        if missing:
            raise UserError(
                f"these are no word vectors: {', '.join(missing)} missing; the file is damaged or "
                "belongs to another model"
            )
        rows, counts = (np.asarray(tensors[name]) for name in ("rows", "counts"))
        inputs, outputs = (torch.as_tensor(tensors[name]) for name in ("inputs", "outputs"))
        size = (len(counts), config.d_embedding)
        for name, tensor in (("inputs", inputs), ("outputs", outputs)):
            if tuple(tensor.shape) != size:
                raise UserError(f"{name} has the shape {tuple(tensor.shape)}, not {size}")
        if len(rows) != config.vocab_size or rows.max(initial=-1) >= len(counts):
            raise UserError("rows fits neither the vocabulary nor the vectors: the file is damaged")
        return cls(config, rows, counts, inputs, outputs)

    # -- what it knows -----------------------------------------------------------------------------
    @property
    def vocab_size(self) -> int:
        """V: tokens of the tokenizer."""
        return self.config.vocab_size

    @property
    def n_words(self) -> int:
        """R: words that have a vector."""
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of all its tables."""
        return int(self.inputs.nbytes + self.outputs.nbytes + self.rows.nbytes + self.counts.nbytes)

    def unit_vectors(self) -> Tensor:
        """Input vectors (R, D), each of length 1."""
        return torch.nn.functional.normalize(self.inputs, dim=1, eps=1e-12)

    def nearest(
        self, vector: Tensor, k: int, without: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        """The k rows whose vectors point most nearly as `vector` (D,): (row, cosine), nearest first.

        `without`: rows that are left out. Of equals the more frequent word comes first.
        """
        cosines = self.unit_vectors() @ torch.nn.functional.normalize(vector, dim=0, eps=1e-12)
        cosines[list(without)] = -torch.inf
        best = cosines.sort(descending=True, stable=True)
        many = min(k, self.n_words - len(set(without)))
        return list(zip(best.indices[:many].tolist(), best.values[:many].tolist(), strict=True))

    def neighbours(self, row: int, k: int = 10) -> list[tuple[int, float]]:
        """The k nearest words of a word, itself left out: (row, cosine)."""
        return self.nearest(self.inputs[row], k, [row])

    def analogy(self, a: int, b: int, c: int, k: int = 10) -> list[tuple[int, float]]:
        """What is to c as b is to a: the words nearest to b - a + c (Mikolov et al. 2013c).

        Of unit vectors; the three words themselves are left out, as is customary.
        """
        unit = self.unit_vectors()
        return self.nearest(unit[b] - unit[a] + unit[c], k, [a, b, c])


def learn_block(
    x: Tensor,
    y: Tensor,
    positives: Tensor,
    noise: Tensor,
    rate: float,
    mixing: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of gradient descent on all pairs of a block at once, exactly.

    x (A,D), y (O,D): input and output vectors. What predicts is h = x, or mixing (L,A) @ x (CBOW: the
    mean of the words around each place). positives, noise (A or L, O): how often each of these
    meets each output word as a true pair and, by weight, as noise.

    -> x and y less `rate` times the gradients of the summed loss (`block_loss`); scores h @ y.T.
    """
    h = x if mixing is None else mixing @ x
    scores = h @ y.T
    error = torch.sigmoid(scores).mul_(positives + noise).sub_(positives)  # by each score
    if mixing is None:
        new_x = torch.addmm(x, error, y, alpha=-rate)
    else:
        new_x = torch.addmm(x, mixing.T, error @ y, alpha=-rate)
    return new_x, torch.addmm(y, error.T, h, alpha=-rate), scores


def block_loss(scores: Tensor, positives: Tensor, noise: Tensor) -> Tensor:
    """The loss summed over a block's pairs, in nats."""
    softplus = torch.nn.functional.softplus
    return (positives * softplus(-scores) + noise * softplus(scores)).sum()
