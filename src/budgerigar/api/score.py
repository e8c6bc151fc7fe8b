"""How well a model predicts one text, or one translation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


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
