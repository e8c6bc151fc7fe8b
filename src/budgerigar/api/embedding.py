"""`embed`: a vector of a whole text, as the model's authors meant it where they say so.

Shapes: n texts, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgerigar.api.checks import checked_text
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model


@dataclass(frozen=True)
class Embedded:
    """Vectors of texts, and how they were made."""

    texts: tuple[str, ...]
    vectors: NDArray[np.float32]
    """(n,D)"""
    pooling: str
    """`mean`, `cls`, `last` or `max` of the vectors of the last layer"""
    normalised: bool
    """each has length 1"""
    n_tokens: tuple[int, ...]
    """that the model read of each text, with what is put around it"""
    notes: tuple[str, ...] = ()
    """what one should know: texts that were cut, a model that was not made for this"""

    @property
    def cosines(self) -> NDArray[np.float64]:
        """(n,n): the cosine between each two texts, 1 for the same direction."""
        from budgerigar.evaluation.embedding import cosines

        return cosines(self.vectors)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = zip(self.texts, self.n_tokens, self.vectors.tolist(), strict=True)
        return {
            "pooling": self.pooling,
            "normalised": self.normalised,
            "width": self.vectors.shape[1],
            "notes": list(self.notes),
            "texts": [{"text": t, "tokens": n, "vector": vector} for t, n, vector in rows],
        }


def embed(
    model: Model,
    texts: Iterable[str],
    *,
    pooling: str | None = None,
    normalise: bool | None = None,
    batch_tokens: int = 4096,
) -> Embedded:
    """A vector of each text.

    pooling: `mean`, `cls`, `last` or `max`; None: as the model's folder declares, else the mean.
    normalise: to length 1; None: as its folder declares, else not. batch_tokens: changes the speed.

    Raises:
        UserError: the model has no such vectors, or its folder asks for what is not known here.
    """
    from budgerigar.evaluation.embedding import embed_rows, normalised
    from budgerigar.formats.pooling import POOLINGS, declared_pooling

    _check_kind(model)
    if pooling is not None and pooling not in POOLINGS:
        raise UserError(f"pooling {pooling!r} is not known; choose one of {', '.join(POOLINGS)}")
    declared = declared_pooling(model.folder) if pooling is None else None
    way = pooling or (declared.pooling if declared else "mean")
    unit = (declared.normalise if declared else False) if normalise is None else normalise
    given = tuple(texts)
    rows = [_ids(model, text) for text in given]
    most = model.network.context_length
    if declared and declared.most:
        most = min(most, declared.most)
    notes = _notes(model, way, rows, most)
    rows = [_cut(model, row, most) for row in rows]
    vectors = embed_rows(model.network, rows, way, batch_tokens)
    lengths = tuple(map(len, rows))
    return Embedded(given, normalised(vectors) if unit else vectors, way, unit, lengths, notes)


def _check_kind(model: Model) -> None:
    if getattr(model.config, "assembly", None) in ("encoder-only", "decoder-only"):
        return
    if model.role == "vectors":
        raise UserError(
            f"{model.name} has vectors of words, not of texts: `budgie look RUN WORD` shows them"
        )
    raise UserError(
        f"{model.name} gives no vector of a text: encoders do (budgie embed minilm-l6 TEXT), and "
        "decoder-only models, with less sense"
    )


def _ids(model: Model, text: str) -> list[int]:
    """As the model reads a text, with what belongs around it."""
    return list(model.encode(checked_text(text)))


def _cut(model: Model, row: list[int], most: int) -> list[int]:
    """At most `most` ids: the end of the text is left out, what is put after it stays."""
    after = list(getattr(model, "frame", ((), ()))[1])
    if len(row) <= most:
        return row
    return [*row[: most - len(after)], *after]


def _notes(model: Model, way: str, rows: list[list[int]], most: int) -> tuple[str, ...]:
    found = []
    if model.config.assembly == "decoder-only":
        found.append(
            f"{model.name} is a decoder, made to tell the next token: its vectors are the {way} of the "
            "last layer's, in which each token knows only those before it. For likeness of meaning "
            "take an encoder (minilm-l6)."
        )
    long = [number for number, row in enumerate(rows, 1) if len(row) > most]
    if long:
        found.append(
            f"{len(long):,} of {len(rows):,} texts (first: number {long[0]:,}) are longer than the "
            f"{most} tokens that are read; their ends are left out."
        )
    empty = sum(not row for row in rows)
    if empty:
        found.append(f"{empty:,} empty texts have no tokens: their vectors are zeros.")
    return tuple(found)
