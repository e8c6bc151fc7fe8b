"""`WordVectorsConfig`: skip-gram and CBOW with negative sampling. Imports no torch.

The line below each field explains it; the command line's help is made of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from budgerigar.layers.settings import build, plain, type_problems
from budgerigar.models.ancestor_configs import refuse


@dataclass(frozen=True)
class WordVectorsConfig:
    """A vector for each word, learnt from the words around it (Mikolov et al. 2013a, 2013b)."""

    vocab_size: int = 256
    """number of tokens V; taken from the tokenizer when training"""
    method: Literal["skip-gram", "cbow"] = "skip-gram"
    """skip-gram: each word predicts every word around it; cbow: the mean of those predicts it"""
    d_embedding: int = 100
    """width of a vector"""
    window: int = 5
    """most words to each side that count as around; each place draws its own, 1 to this many"""
    negatives: int = 5
    """noise words that each true pair is told apart from"""
    subsample: float = 1e-3
    """words that are more than this share of the text are thinned out; 0: none"""
    noise_power: float = 0.75
    """noise words are drawn by their count to this power"""
    min_count: int = 5
    """words that occur less often get no vector and are left out of the text"""
    lowercase: bool = True
    """The, the and THE are one word (tokenizers of kind word; others keep their pieces apart)"""

    def problems(self) -> list[str]:
        """All that is wrong with this combination, in words."""
        found = type_problems(self)
        return found or list(_problems(self))  # the rules below compare these

    def validate(self) -> WordVectorsConfig:
        """Return self, or raise one `UserError` that lists every problem."""
        refuse(self.problems())
        return self

    def replace(self, **changes: Any) -> WordVectorsConfig:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and TOML."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> WordVectorsConfig:
        """The reverse of `to_dict`. Unknown names and wrong types are listed in one `UserError`."""
        config: WordVectorsConfig = build(cls, values, "model")
        return config


def _problems(c: WordVectorsConfig) -> Iterator[str]:
    for name in ("vocab_size", "d_embedding", "window", "negatives", "min_count"):
        if getattr(c, name) < 1:
            yield f"{name} = {getattr(c, name)} must be at least 1"
    if not 0 <= c.subsample <= 1:
        yield f"subsample = {c.subsample} must be a share of the text, 0 to 1"
    if not 0 <= c.noise_power <= 10:
        yield f"noise_power = {c.noise_power} must be from 0 (all words alike) to 10"
