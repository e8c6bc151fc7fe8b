"""The recurrent encoder-decoder, which translated before the Transformer did.

Without attention the encoder's last state is all that the decoder gets (Cho et al. 2014, Sutskever et
al. 2014), so long sentences do not fit; with attention it looks back at every source word (Bahdanau,
Cho & Bengio 2014), and its time steps still wait for each other, which the Transformer's do not.

Shapes: B batch, T target positions, S source positions, H d_hidden, V vocab_size. Batches are
right-padded.
"""

from __future__ import annotations

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.layers.additive_attention import Source
from budgerigar.layers.recurrent import initialise_recurrent
from budgerigar.layers.taps import Taps, tap
from budgerigar.models.base import Network
from budgerigar.models.rnn_config import RnnEncoderDecoderConfig
from budgerigar.models.rnn_parts import Decoder, Encoder, Output, TokenEmbedding
from budgerigar.models.rnn_state import RnnState


class RnnEncoderDecoder(Network):
    """RNN Encoder-Decoder and RNNsearch, as `config` says."""

    def __init__(self, config: RnnEncoderDecoderConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config.validate()
        c = config
        self.encoder, self.decoder = Encoder(c), Decoder(c)
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding, c.dropout)
        self.source_embedding: TokenEmbedding | None = None
        if not c.shared_embeddings:
            size = c.source_vocab_size or c.vocab_size
            self.source_embedding = TokenEmbedding(size, c.d_embedding, c.dropout)
        self.head = Output(c)
        initialise_recurrent(self, c.initialisation, c.d_hidden, seed)

    # -- facts -------------------------------------------------------------------------------------
    @property
    def context_length(self) -> int:
        """Most tokens of a source or a target."""
        return self.config.context_length

    # -- whole sequences ---------------------------------------------------------------------------
    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        taps: Taps | None = None,
    ) -> Tensor:
        """Logits (B,T,V) in float32 of tokens (B,T), given `source` (B,S).

        `source_lengths` (B,): real tokens of each source. What stands after the target's real
        tokens changes nothing before it, so `lengths` (B,) is not needed and changes no logit of a
        real token.
        """
        state = self.start(len(tokens), source, source_lengths, taps)
        return self.step(tokens, state, lengths, all_positions=True, taps=taps)[0]

    def encode(
        self, source: Tensor, source_lengths: Tensor | None = None, taps: Taps | None = None
    ) -> Tensor:
        """The encoder's annotations (B,S,C) of source tokens (B,S)."""
        return self._encode(source, source_lengths, taps)[0]

    def _encode(self, source: Tensor, source_lengths: Tensor | None, taps: Taps | None) -> tuple:
        embedding = self.embedding if self.source_embedding is None else self.source_embedding
        x = tap(taps, "encoder.embedding", embedding(source))
        return self.encoder(x, source_lengths, taps)

    # -- step by step ------------------------------------------------------------------------------
    def start(
        self,
        batch_size: int,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        taps: Taps | None = None,
    ) -> RnnState:
        """The state before the first target token: the encoder runs here."""
        if source is None:
            raise UserError("an encoder-decoder needs a source to read: pass source=")
        annotations, lasts = self._encode(source, source_lengths, taps)
        lengths = torch.zeros(batch_size, dtype=torch.long, device=self.device)
        read = Source(source_lengths)
        attention = next(self.decoder.blocks()).cross_attention
        if attention is not None:
            keys, values = attention.memory(annotations)
            padding = None
            if source_lengths is not None:
                places = torch.arange(source.shape[1], device=self.device)[None]
                padding = places >= source_lengths[:, None]
            read = Source(source_lengths, keys, values, padding)
        elif self.config.context_every_step:
            context = torch.cat([last.hidden for last in lasts[-1]], dim=-1)
            read = Source(source_lengths, context=context)
        return RnnState(lengths, self.decoder.begin(lasts, taps), read)

    def step(
        self,
        tokens: Tensor,
        state: RnnState,
        lengths: Tensor | None = None,
        all_positions: bool = False,
        taps: Taps | None = None,
    ) -> tuple[Tensor, RnnState]:
        """Read tokens (B,T) after what `state` holds; the old state is consumed.

        `lengths` (B,): real tokens of each row, the rest is padding. Returns float32 logits (B,V)
        after the last real token, or (B,T,V) after each.
        """
        batch, width = tokens.shape
        valid = None
        if lengths is not None:
            valid = torch.arange(width, device=tokens.device)[None] < lengths[:, None]
        word = tap(taps, "decoder.embedding", self.embedding(tokens))
        hidden, context, layers = self.decoder(word, state.layers, state.source, valid, taps)
        if not all_positions and width > 1:  # the output layer only where it is asked for
            last = torch.full((batch,), width, device=tokens.device) if lengths is None else lengths
            at = (torch.arange(batch, device=tokens.device), (last - 1).clamp(min=0))
            hidden, word = hidden[at][:, None], word[at][:, None]
            context = None if context is None else context[at][:, None]
        logits = tap(taps, "logits", self.head(hidden, word, context, self.embedding))
        read = state.lengths + (width if lengths is None else lengths)
        after = RnnState(read, layers, state.source)
        return (logits if all_positions else logits[:, -1]), after
