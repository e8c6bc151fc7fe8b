"""One vector of each text, from the vectors of its tokens in the last layer.

An encoder's tokens see the whole text; those of a decoder only what stands before them, so that its
mean leans to the end of a text. Batches only change the speed: rows are padded on the right, and
padding counts for nothing.

Shapes: n texts, B rows, T positions, D d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from budgerigar import progress
from budgerigar.layers.class_head import mean_of
from budgerigar.models.modes import without_dropout
from budgerigar.text.bucketing import by_length, cut
from budgerigar.text.pair_batches import pad_rows


def embed_rows(
    network: Any, rows: Sequence[Sequence[int]], pooling: str = "mean", batch_tokens: int = 4096
) -> NDArray[np.float32]:
    """(n,D): one vector of each row of ids; of a row without any, zeros.

    pooling: the mean of the tokens' vectors, the first one's (`cls`), the last one's, or the largest
    value of each number.
    """
    found = np.zeros((len(rows), network.config.d_model), dtype=np.float32)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    order = by_length(lengths, lengths)
    order = order[lengths[order] > 0]
    with (
        without_dropout(network),
        torch.inference_mode(),
        progress.track("embedding", len(order), "texts") as job,
    ):
        for first, last in cut(lengths[order], batch_tokens):
            chosen = order[first:last]
            tokens = pad_rows([rows[row] for row in chosen]).to(network.device)
            real = torch.from_numpy(lengths[chosen]).to(network.device)
            vectors = network.vectors(tokens, real if int(real.min()) < tokens.shape[1] else None)
            found[chosen] = pool(vectors.float(), real, pooling).cpu().numpy()
            job.advance(len(chosen))
    return found


def pool(vectors: Tensor, lengths: Tensor, pooling: str) -> Tensor:
    """One vector (B,D) of each row of vectors (B,T,D), of which `lengths` (B,) are real."""
    if pooling == "cls":
        return vectors[:, 0]
    if pooling == "last":
        return vectors[torch.arange(len(vectors), device=vectors.device), lengths - 1]
    if pooling == "max":
        real = torch.arange(vectors.shape[1], device=vectors.device)[None] < lengths[:, None]
        return vectors.masked_fill(~real[..., None], -torch.inf).amax(1)
    return mean_of(vectors, lengths)


def normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors (n,D) of length 1, float32; of length 0 they stay so."""
    wide = vectors.astype(np.float64)
    size = np.sqrt((wide**2).sum(1, keepdims=True))
    return (wide / np.where(size > 0, size, 1.0)).astype(np.float32)


def cosines(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n,n): the cosine between each two of the vectors (n,D); NaN where one has length 0."""
    wide = vectors.astype(np.float64)
    size = np.sqrt((wide**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: NDArray[np.float64] = (wide @ wide.T) / (size[:, None] * size[None, :])
    return found
