"""How well a model predicts one text, or one translation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model


@dataclass(frozen=True)
class Score:
    """How well a model predicts a text; all tokens in one pass, each from those before it."""

    tokens: int
    """tokens scored"""
    characters: int
    """characters of the scored tokens"""
    bytes: int
    """UTF-8 bytes of the scored tokens"""
    nats: float
    """sum of -ln p over the scored tokens"""
    per_token: list[tuple[str, float, int]] = field(repr=False)
    """(piece, nats, rank) of each scored token; rank 1 is the model's first guess"""
    unscored: str = ""
    """the text before the first scored token: a model without documents needs one to start from"""
    pseudo: bool = False
    """each token was told from both sides (an encoder's pseudo-log-likelihood): not comparable with a
    score from left to right"""

    @property
    def nats_per_token(self) -> float:
        """Mean -ln p of a token."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def nats_per_character(self) -> float:
        """Nats by characters: compares different tokenizers on one text."""
        return self.nats / self.characters if self.characters else math.nan

    @property
    def bits_per_byte(self) -> float:
        """log2 loss by UTF-8 bytes: compares different tokenizers and languages."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.nan

    @property
    def perplexity(self) -> float:
        """exp of nats per token: between how many equally likely tokens the model wavers."""
        return math.exp(self.nats_per_token)


def score_text(model: Model, text: str) -> Score:
    """What `model`, which reads from left to right, makes of `text`."""
    from budgerigar.evaluation import score_ids

    ids = list(model.tokenizer.encode(text))
    first = 0 if model.start_id is not None else 1
    if len(ids) <= first:
        raise UserError(
            "there is nothing to score: this model needs one token to start from and another "
            "to predict, so give it a longer text"
        )
    nats, ranks = score_ids(model.network, ids, start_id=model.start_id)
    scored = ids[first:]
    raw = b"".join(model.tokenizer.token_bytes(token) for token in scored)
    pieces = model.tokenizer.pieces(scored)
    rows = [(piece, float(n), int(r)) for piece, n, r in zip(pieces, nats, ranks, strict=True)]
    return Score(
        tokens=len(scored),
        characters=len(raw.decode("utf-8", errors="replace")),
        bytes=len(raw),
        nats=float(sum(row[1] for row in rows)),
        per_token=rows,
        unscored="".join(model.tokenizer.pieces(ids[:first])),
    )
