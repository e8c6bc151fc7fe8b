"""`FeedForwardConfig` and `RecurrentConfig`: the next-token models between the n-gram and the
Transformer. Imports no torch. The line below each field explains it; the command line's help is made
of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from budgerigar.errors import UserError
from budgerigar.layers.config_problems import MOST_LAYERS
from budgerigar.layers.settings import build, plain, type_problems


@dataclass(frozen=True)
class FeedForwardConfig:
    """The neural probabilistic language model (Bengio et al. 2003). V vocab_size."""

    vocab_size: int = 256
    """number of tokens V; taken from the tokenizer when training"""
    order: int = 9
    """length n as of an n-gram: a token is predicted from the n - 1 before it, and no others"""
    d_embedding: int = 64
    """width m of the token embedding, the same table for all n - 1 places"""
    d_hidden: int = 512
    """width h of the tanh layer over the n - 1 embeddings; 0: none, only direct connections"""
    direct_connections: bool = False
    """connect the n - 1 embeddings also directly to the logits (the paper's matrix W)"""
    tied_embeddings: bool = False
    """the output layer uses the token embedding's matrix; needs d_hidden = d_embedding"""
    dropout: float = 0.0
    """dropout on the n - 1 embeddings and on the hidden layer"""

    @property
    def window_width(self) -> int:
        """Width of the n - 1 embeddings side by side."""
        return (self.order - 1) * self.d_embedding

    def problems(self) -> list[str]:
        """All that is wrong with this combination, in words."""
        found = type_problems(self)
        return found or list(_feed_forward_problems(self))  # the rules below compare these

    def validate(self) -> FeedForwardConfig:
        """Return self, or raise one `UserError` that lists every problem."""
        refuse(self.problems())
        return self

    def replace(self, **changes: Any) -> FeedForwardConfig:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and TOML; fields that are None are left out."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FeedForwardConfig:
        """The reverse of `to_dict`. Unknown names and wrong types are listed in one `UserError`."""
        config: FeedForwardConfig = build(cls, values, "model")
        return config


@dataclass(frozen=True)
class RecurrentConfig:
    """A recurrent language model (Elman 1990, Mikolov et al. 2010; Zaremba et al. 2014). H d_hidden."""

    vocab_size: int = 256
    """number of tokens V; taken from the tokenizer when training"""
    cell: Literal["elman", "gru", "lstm"] = "lstm"
    """elman (Elman 1990), lstm (Hochreiter & Schmidhuber 1997; Gers et al. 2000) or gru (Cho et al.
    2014)"""
    n_layers: int = 1
    """layers of cells; each reads what the one below wrote"""
    d_embedding: int = 128
    """width of the token embedding"""
    d_hidden: int = 512
    """width H of the state of each cell"""
    d_output: int | None = None
    """width of a projection between the top state and the vocabulary; None: no projection"""
    tied_embeddings: bool = False
    """the output layer uses the token embedding's matrix; needs d_output (or, without one, d_hidden)
    = d_embedding"""
    initialisation: Literal["orthogonal", "uniform"] = "orthogonal"
    """orthogonal: recurrent matrices orthogonal per gate, others Xavier, an LSTM's forget gate open
    (bias 1); uniform: within 1 / sqrt(d_hidden), as torch does"""
    dropout: float = 0.0
    """dropout on embeddings, on what each layer hands to the next and before the vocabulary, never
    from a step to the next (Zaremba et al. 2014)"""

    @property
    def n_gates(self) -> int:
        """Blocks of H in a cell's matrices: 1 in Elman's, 3 in a GRU, 4 in an LSTM."""
        return {"elman": 1, "gru": 3, "lstm": 4}[self.cell]

    @property
    def carried_vectors(self) -> int:
        """Vectors of width H that a layer carries from step to step."""
        return 2 if self.cell == "lstm" else 1

    @property
    def output_width(self) -> int:
        """Width of what is multiplied with the vocabulary's matrix."""
        return self.d_output if self.d_output is not None else self.d_hidden

    def problems(self) -> list[str]:
        """All that is wrong with this combination, in words."""
        found = type_problems(self)
        return found or list(_recurrent_problems(self))  # the rules below compare these

    def validate(self) -> RecurrentConfig:
        """Return self, or raise one `UserError` that lists every problem."""
        refuse(self.problems())
        return self

    def replace(self, **changes: Any) -> RecurrentConfig:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and TOML; fields that are None are left out."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RecurrentConfig:
        """The reverse of `to_dict`. Unknown names and wrong types are listed in one `UserError`."""
        config: RecurrentConfig = build(cls, values, "model")
        return config


def refuse(problems: list[str]) -> None:
    """Raise one `UserError` that lists all `problems`, if there are any."""
    if problems:
        raise UserError("this model cannot be built:\n" + "\n".join(f"  - {p}" for p in problems))


def _feed_forward_problems(c: FeedForwardConfig) -> Iterator[str]:
    yield from _too_small(c, ("vocab_size", "d_embedding"))
    if c.order < 2:
        yield f"order = {c.order} must be at least 2: with 1 nothing before a token is seen"
    if c.d_hidden < 0:
        yield f"d_hidden = {c.d_hidden} must be at least 0"
    if c.d_hidden == 0 and not c.direct_connections:
        yield "d_hidden = 0 leaves nothing between input and output: set direct_connections = true"
    if c.tied_embeddings and c.d_hidden != c.d_embedding:
        yield (
            f"tied_embeddings need d_hidden = d_embedding, not {c.d_hidden} and {c.d_embedding}: "
            "make them equal or set tied_embeddings = false"
        )
    yield from _no_share(c.dropout)


def _recurrent_problems(c: RecurrentConfig) -> Iterator[str]:
    yield from _too_small(c, ("vocab_size", "n_layers", "d_embedding", "d_hidden"))
    if c.n_layers > MOST_LAYERS:
        yield f"n_layers = {c.n_layers:,} is more than {MOST_LAYERS:,}, the most allowed here"
    if c.d_output is not None and c.d_output < 1:
        yield f"d_output = {c.d_output} must be at least 1 (or left out)"
    if c.tied_embeddings and c.output_width != c.d_embedding:
        name = "d_hidden" if c.d_output is None else "d_output"
        yield (
            f"tied_embeddings need {name} = d_embedding, not {c.output_width} and {c.d_embedding}: "
            f"set d_output = {c.d_embedding} or tied_embeddings = false"
        )
    yield from _no_share(c.dropout)


def _too_small(
    config: FeedForwardConfig | RecurrentConfig, names: tuple[str, ...]
) -> Iterator[str]:
    for name in names:
        if getattr(config, name) < 1:
            yield f"{name} = {getattr(config, name)} must be at least 1"


def _no_share(dropout: float) -> Iterator[str]:
    if not 0 <= dropout < 1:
        yield f"dropout = {dropout} must be at least 0 and below 1"
