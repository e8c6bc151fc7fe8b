"""`RnnEncoderDecoderConfig`: every dial of the recurrent translators. Imports no torch.

Cho et al. 2014 and Sutskever et al. 2014 (no attention), Bahdanau, Cho & Bengio 2014 (attention) are
settings of this class. The line below each field explains it; the command line's help is made of them.
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
class RnnEncoderDecoderConfig:
    """One recurrent encoder-decoder. H d_hidden, A d_attention, V vocab_size."""

    vocab_size: int = 256
    """number of (target) tokens V; taken from the tokenizer when training"""
    source_vocab_size: int | None = None
    """with two vocabularies: size of the source's; None: vocab_size"""
    context_length: int = 256
    """most tokens of a source or a target that training and translation use"""
    cell: Literal["gru", "lstm"] = "gru"
    """gru (Cho et al. 2014) or lstm (Hochreiter & Schmidhuber 1997; Gers et al. 2000)"""
    attention: Literal["bahdanau", "none"] = "bahdanau"
    """bahdanau: the decoder looks at every source word (Bahdanau et al. 2014); none: all that it
    knows of the source is the encoder's last state"""
    d_embedding: int = 256
    """width of the token embeddings"""
    d_hidden: int = 512
    """width H of the state of each cell, in each direction"""
    d_attention: int | None = None
    """bahdanau: width A of the alignment model; None: d_hidden"""
    d_output: int | None = None
    """width of the layer between the decoder's state and the vocabulary; None: d_embedding"""
    n_encoder_layers: int = 1
    """recurrent layers of the encoder"""
    n_decoder_layers: int = 1
    """recurrent layers of the decoder; the lowest one attends"""
    bidirectional: bool = True
    """each encoder layer reads the source in both directions, its output is 2 d_hidden wide"""
    reverse_source: bool = False
    """read the source last word first (Sutskever et al. 2014); only with attention = none"""
    context_every_step: bool = False
    """attention = none: the encoder's last state enters every step and the output layer (Cho et al.
    2014), not only the start"""
    maxout: bool = True
    """the layer before the vocabulary takes the larger of each two values (Goodfellow et al. 2013;
    Bahdanau et al. 2014); off: tanh"""
    shared_embeddings: bool = True
    """source and target use one token embedding"""
    tied_embeddings: bool = True
    """the output layer uses the (target) token embedding's matrix"""
    decoder_start: int | None = None
    """id of the token that starts the target"""
    initialisation: Literal["orthogonal", "uniform"] = "orthogonal"
    """orthogonal: recurrent matrices orthogonal per gate, others Xavier, an LSTM's forget gate open
    (bias 1); uniform: within 1 / sqrt(d_hidden), as torch does"""
    dropout: float = 0.0
    """dropout on embeddings, on what each layer hands to the next, and before the vocabulary"""

    # -- derived values ------------------------------------------------------------------------
    @property
    def assembly(self) -> str:
        """As of a Transformer: "encoder-decoder"."""
        return "encoder-decoder"

    @property
    def attends(self) -> bool:
        """Whether there is attention."""
        return self.attention != "none"

    @property
    def directions(self) -> int:
        """1 or 2 directions of reading the source."""
        return 2 if self.bidirectional else 1

    @property
    def annotation_width(self) -> int:
        """Width of the encoder's output at each source position."""
        return self.directions * self.d_hidden

    @property
    def attention_width(self) -> int:
        """A, the width of the alignment model."""
        return self.d_attention if self.d_attention is not None else self.d_hidden

    @property
    def output_width(self) -> int:
        """Width of what is multiplied with the vocabulary's matrix."""
        return self.d_output if self.d_output is not None else self.d_embedding

    @property
    def context_width(self) -> int:
        """Width of what each decoder step gets from the source; 0: nothing."""
        return self.annotation_width if self.attends or self.context_every_step else 0

    @property
    def n_gates(self) -> int:
        """Blocks of H in a cell's matrices: 3 in a GRU, 4 in an LSTM."""
        return 3 if self.cell == "gru" else 4

    @property
    def copies_state(self) -> bool:
        """Decoder layers start from the encoder's states as they are (Sutskever et al. 2014)."""
        same_depth = self.n_encoder_layers == self.n_decoder_layers
        return not (self.bidirectional or self.context_width) and same_depth

    @property
    def start_width(self) -> int:
        """Width of the encoder state from which a decoder layer's start is computed.

        With attention only the right-to-left direction's, which ends at the first source word
        (Bahdanau et al. 2014, A.2.2).
        """
        return self.d_hidden if self.attends else self.annotation_width

    # -- checking and files ----------------------------------------------------------------------
    def problems(self) -> list[str]:
        """All that is wrong with this combination, in words."""
        found = type_problems(self)
        if found:  # the rules below compare these
            return found
        return [*_sizes(self), *_combinations(self)]

    def validate(self) -> RnnEncoderDecoderConfig:
        """Return self, or raise one `UserError` that lists every problem."""
        found = self.problems()
        if found:
            raise UserError("this model cannot be built:\n" + "\n".join(f"  - {p}" for p in found))
        return self

    def replace(self, **changes: Any) -> RnnEncoderDecoderConfig:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and TOML; fields that are None are left out."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RnnEncoderDecoderConfig:
        """The reverse of `to_dict`. Unknown names and wrong types are listed in one `UserError`."""
        config: RnnEncoderDecoderConfig = build(cls, values, "model")
        return config


def _sizes(c: RnnEncoderDecoderConfig) -> Iterator[str]:
    layers = ("n_encoder_layers", "n_decoder_layers")
    for name in ("vocab_size", "context_length", "d_embedding", "d_hidden", *layers):
        if getattr(c, name) < 1:
            yield f"{name} = {getattr(c, name)} must be at least 1"
    for name in layers:
        if getattr(c, name) > MOST_LAYERS:
            yield f"{name} = {getattr(c, name):,} is more than {MOST_LAYERS:,}, the most allowed here"
    for name in ("source_vocab_size", "d_attention", "d_output"):
        value = getattr(c, name)
        if value is not None and value < 1:
            yield f"{name} = {value} must be at least 1 (or left out)"
    if not 0 <= c.dropout < 1:
        yield f"dropout = {c.dropout} must be at least 0 and below 1"


def _combinations(c: RnnEncoderDecoderConfig) -> Iterator[str]:
    if c.shared_embeddings and c.source_vocab_size not in (None, c.vocab_size):
        yield "shared_embeddings with two vocabulary sizes: set shared_embeddings = false"
    if c.tied_embeddings and c.output_width != c.d_embedding:
        yield (
            f"tied_embeddings need d_output = d_embedding, not {c.output_width} and "
            f"{c.d_embedding}: leave d_output out or set tied_embeddings = false"
        )
    if c.decoder_start is not None and not 0 <= c.decoder_start < c.vocab_size:
        yield f"decoder_start = {c.decoder_start} is not an id below vocab_size = {c.vocab_size}"
    if c.attends and c.context_every_step:
        yield "context_every_step does nothing with attention, which has a context at every step"
    if c.attends and c.reverse_source:
        yield "reverse_source does nothing with attention, which finds words wherever they stand"
    if not c.attends and c.d_attention is not None:
        yield "d_attention does nothing with attention = none: leave it out"
