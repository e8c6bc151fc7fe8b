"""Configurations of all models, by the key "kind". Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.settings import build, plain, type_problems
from budgerigar.models.ancestor_configs import FeedForwardConfig, RecurrentConfig
from budgerigar.models.rnn_config import RnnEncoderDecoderConfig
from budgerigar.models.word_vectors_config import WordVectorsConfig

MOST_ORDER = 64
"""of an n-gram; on a text of any size the best one is below 10"""

Smoothing = Literal["kneser-ney", "witten-bell"]


@dataclass(frozen=True)
class NgramConfig:
    """An interpolated n-gram model: the next token from the last `order` - 1 by counting."""

    vocab_size: int = 256
    """number of tokens V; taken from the tokenizer when training"""
    order: int = 5
    """length n of the longest n-gram: a token is predicted from the n - 1 before it"""
    smoothing: Smoothing = "kneser-ney"
    """kneser-ney (modified, Chen & Goodman 1999) or witten-bell (Witten & Bell 1991)"""

    def validate(self) -> NgramConfig:
        """Return self, or raise one `UserError` that lists every problem."""
        found = type_problems(self)
        if isinstance(self.vocab_size, int) and self.vocab_size < 1:
            found.append(f"vocab_size = {self.vocab_size}: a vocabulary has at least one token")
        if isinstance(self.order, int) and self.order < 1:
            found.append(f"order = {self.order}: the shortest n-gram is a single token (order 1)")
        if isinstance(self.order, int) and self.order > MOST_ORDER:
            found.append(
                f"order = {self.order:,} is more than {MOST_ORDER}, the most allowed here: hardly any "
                "n-gram of such a length occurs twice, and each length takes its own table"
            )
        if found:
            raise UserError("this model cannot be built:\n" + "\n".join(f"  - {p}" for p in found))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and TOML."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NgramConfig:
        """The reverse of `to_dict`. Unknown names and wrong types are listed in one `UserError`."""
        config: NgramConfig = build(cls, values, "model")
        return config


ModelConfig = (
    TransformerConfig
    | RnnEncoderDecoderConfig
    | RecurrentConfig
    | FeedForwardConfig
    | NgramConfig
    | WordVectorsConfig
)

KINDS: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "recurrent": RecurrentConfig,
    "feed-forward": FeedForwardConfig,
    "rnn-encoder-decoder": RnnEncoderDecoderConfig,
    "ngram": NgramConfig,
    "word-vectors": WordVectorsConfig,
}

CARRYING = ("recurrent", "feed-forward")
"""Kinds whose `forward` goes on from a state: they can be trained on streams."""


def kind_of(config: ModelConfig) -> str:
    """The name of a configuration's kind, one of `KINDS`."""
    return next(name for name, cls in KINDS.items() if isinstance(config, cls))


def config_to_dict(config: ModelConfig) -> dict[str, Any]:
    """Plain values, with the key "kind" first; `config_from_dict` reads them back."""
    return {"kind": kind_of(config), **config.to_dict()}


def config_from_dict(values: dict[str, Any]) -> ModelConfig:
    """The configuration that `values` describe; "kind" says which. Not validated."""
    rest = dict(values)
    kind = rest.pop("kind", None)
    if kind not in KINDS:
        raise UserError(
            f"a model of kind {kind!r} is not known here; the kinds are {', '.join(KINDS)}"
        )
    return KINDS[kind].from_dict(rest)
