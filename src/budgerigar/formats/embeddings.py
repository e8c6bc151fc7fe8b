"""Word vectors as the first embedding of another model (as Bengio's model may begin with them).

Shapes: V vocab_size of the other model's tokenizer, D width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.run import load_model
from budgerigar.models.word_vectors_config import WordVectorsConfig
from budgerigar.text.words import as_key, row_words, word_keys


class FirstEmbedding(NamedTuple):
    """matrix (V, D) float32; known bool (V,), which tokens have a vector of the run."""

    matrix: Tensor
    known: Tensor


def first_embedding(run: str | Path, tokenizer: Any, seed: int = 0) -> FirstEmbedding:
    """The vectors of a run of word vectors for the tokens of `tokenizer`.

    A token of the same tokenizer has its word's vector; of another tokenizer it has the vector of
    the word that it spells. All others are drawn from a normal distribution as wide as the vectors.

    Raises:
        UserError: the run holds no word vectors, or not one for any of the tokens.
    """
    loaded = load_model(run)
    model = loaded.network
    if not isinstance(model.config, WordVectorsConfig):
        raise UserError(
            f"{run} is of kind {loaded.config['kind']}, and an embedding begins with word vectors: "
            "budgie train FILE --recipe word-vectors makes them."
        )
    if tokenizer.fingerprint == loaded.tokenizer.fingerprint:
        rows = torch.as_tensor(model.rows).long()
    else:
        rows = _rows_by_word(model, loaded.tokenizer, tokenizer)
    known = rows >= 0
    if not known.any():
        raise UserError(
            f"No token of this model's tokenizer ({tokenizer.kind}) is a word that {run} has a "
            f"vector for. Train both with one kind of tokenizer, here {loaded.tokenizer.kind}."
        )
    found = model.inputs[rows[known]]
    matrix = torch.empty(len(rows), found.shape[1])
    generator = torch.Generator().manual_seed(seed)
    matrix.normal_(0.0, float(found.std()), generator=generator)
    matrix[known] = found
    return FirstEmbedding(matrix, known)


def initial_embedding(run: str | Path, tokenizer: Any, seed: int = 0) -> Tensor:
    """The matrix (V, D) of `first_embedding`."""
    return first_embedding(run, tokenizer, seed).matrix


def begin_embedding(network: Any, tokenizer: Any, run: str | Path) -> str:
    """Put a run's word vectors into the embedding of a fresh network -> what was done, in words.

    Raises:
        UserError: the widths differ, besides what `first_embedding` raises.
    """
    found = first_embedding(run, tokenizer)
    weight = network.embedding.tokens.weight
    if weight.shape != found.matrix.shape:
        raise UserError(
            f"--embedding-from {run}: its vectors are {found.matrix.shape[1]} wide, this model's "
            f"embedding {weight.shape[1]}. Make them equal (--d-embedding; --d-model of a "
            "Transformer)."
        )
    with torch.no_grad():
        weight.copy_(found.matrix)
    share = 100 * float(found.known.float().mean())
    return f"embedding: begins with the vectors of {run}, which has {share:.0f} % of the tokens"


def _rows_by_word(model: Any, own: Any, other: Any) -> Tensor:
    """Row of each token of another tokenizer, by the word that it spells; -1: none."""
    lowercase = model.config.lowercase
    words = row_words(word_keys(own, lowercase), model.rows)
    row_of: dict[str, int] = {}
    for row, word in enumerate(words):
        row_of.setdefault(as_key(word, lowercase), row)
    keys = word_keys(other, lowercase)
    return torch.tensor(
        [-1 if key is None else row_of.get(as_key(key, lowercase), -1) for key in keys]
    )
