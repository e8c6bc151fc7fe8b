"""The one Transformer in its three assemblies: decoder-only, encoder-only, encoder-decoder.

Shapes: B batch, T positions, S source positions, H heads, K key-value heads, D d_model, E d_head,
V vocab_size. Batches are right-padded; `lengths` says how many tokens of each row are real.
"""

from __future__ import annotations

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.layers.block import Stack
from budgerigar.layers.cache import LayerCache, TransformerState
from budgerigar.layers.class_head import ClassHead, mean_of
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.embedding import Embedding, Head
from budgerigar.layers.initialisation import initialise
from budgerigar.layers.linear import Linear
from budgerigar.layers.rolling import roll_state
from budgerigar.layers.taps import Taps, tap
from budgerigar.layers.visibility import View, valid_places, view_of_memory
from budgerigar.models.base import Network


class Transformer(Network):
    """ "Attention Is All You Need" (Vaswani et al. 2017) and its children, as `config` says."""

    def __init__(self, config: TransformerConfig, seed: int | None = 0) -> None:
        """First weights are drawn from `seed`; None leaves them unset, to be filled from a file."""
        super().__init__()
        self.config = config.validate()
        both = config.assembly == "encoder-decoder"
        self.encoder = (
            Stack(config, "encoder", config.encoder_layers) if config.encoder_layers else None
        )
        self.decoder = (
            Stack(config, "decoder", config.decoder_layers, cross=both)
            if config.decoder_layers
            else None
        )
        main = "decoder" if self.decoder is not None else "encoder"
        self.embedding = Embedding(config, main, config.vocab_size)
        self.source_embedding: Embedding | None = None
        if both and not config.shared_embeddings:
            self.source_embedding = Embedding(
                config, "encoder", config.source_vocab_size or config.vocab_size
            )
        self.head = Head(config) if config.token_head else None
        self.pooler = Linear(config.d_model, config.d_model) if config.pooler else None
        self.class_head = ClassHead(config) if config.n_classes else None
        if seed is not None:
            initialise(self, config, seed)

    @classmethod
    def unfilled(cls, config: TransformerConfig) -> Transformer:
        """A network whose weights have shapes but no memory yet: each is assigned from a file."""
        with torch.device("meta"):
            return cls(config, seed=None)

    # -- facts -------------------------------------------------------------------------------------
    @property
    def context_length(self) -> int:
        """Most positions of a sequence."""
        return self.config.context_length

    @property
    def can_roll(self) -> bool:
        """Whether the cache may drop its middle: every layer has a window, positions are relative."""
        depth = range(self.config.decoder_layers)
        windows = all(self.config.window_of(layer) for layer in depth)
        return windows and self.config.positions in ("rotary", "relative", "alibi", "none")

    def _check_length(self, tokens: Tensor) -> None:
        """Refuse (B,T) beyond a table of learned positions; other kinds go on past it."""
        n, most = tokens.shape[1], self.context_length
        if n > most and self.config.positions == "learned":
            raise UserError(
                f"{n} tokens do not fit the context_length = {most} of this model, which has learnt "
                "no position beyond it; give fewer"
            )

    def _check_source(self, source: Tensor | None) -> None:
        if source is not None and (self.encoder is None or self.decoder is None):
            raise UserError(
                f"this model is {self.config.assembly} and reads no source text; leave it out, or "
                "use an encoder-decoder"
            )

    # -- whole sequences ---------------------------------------------------------------------------
    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        token_types: Tensor | None = None,
        only: Tensor | None = None,
        taps: Taps | None = None,
    ) -> Tensor:
        """Logits (B,T,V) in float32 of tokens (B,T); `only` (B,T) bool: at its N places alone, (N,V).

        `document_ids` (B,T): attention stays within equal ids; `positions` (B,T) then restart with
        each document. An encoder-decoder reads `source` (B,S); an encoder-only model looks both ways,
        with `lengths` (B,) hiding the padding, and without a head gives its vectors (B,T,D) instead;
        with a class head the logits (B,C) of its C classes.
        """
        self._check_source(source)
        if positions is None:
            self._check_length(tokens)
            positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        if self.decoder is None:
            x = self.vectors(tokens, lengths, token_types, positions, document_ids, taps)
            if self.class_head is not None:
                return tap(taps, "logits", self.class_head(self._whole(x, lengths)))
            x = x if only is None else x[only]
            return x.float() if self.head is None else self._logits(x, taps)
        memories, memory_view = None, None
        if self.encoder is not None:
            memories, valid = self._remember(source, source_lengths, taps)
            memory_view = view_of_memory(positions, memories, valid)
        view = View(
            positions,
            positions,
            causal=True,
            aligned=document_ids is None,
            query_documents=document_ids,
            key_documents=document_ids,
        )
        x = self.embedding(tokens, positions, token_types, taps)
        x = self.decoder(x, view, positions, memories=memories, memory_view=memory_view, taps=taps)
        return self._logits(x if only is None else x[only], taps)

    def predict(
        self,
        tokens: Tensor,
        mask: Tensor,
        lengths: Tensor | None = None,
        mask_id: int | None = None,
        **inputs: Tensor | None,
    ) -> Tensor:
        """Fill in: logits (N,V) at the N places of tokens (B,T) that `mask` (B,T) bool marks.

        `mask_id` is put there first; without it what stands there is read, so let it be the mask.
        `inputs`: as of `forward`.
        """
        if self.decoder is not None or self.head is None:
            raise UserError(
                "predict(tokens, mask) is for an encoder with an output layer over its vocabulary"
            )
        read = tokens if mask_id is None else tokens.masked_fill(mask, mask_id)
        return self(read, lengths, only=mask, **inputs)

    def vectors(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        token_types: Tensor | None = None,
        positions: Tensor | None = None,
        document_ids: Tensor | None = None,
        taps: Taps | None = None,
    ) -> Tensor:
        """What a model of one stack makes of tokens (B,T): (B,T,D), before any output layer."""
        stack, causal = (self.encoder, False) if self.decoder is None else (self.decoder, True)
        if stack is None or (causal and self.encoder is not None):
            raise UserError(f"vectors of {self.config.assembly}: its encoder's are encode(source)")
        if positions is None:
            self._check_length(tokens)
            positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        x = self.embedding(tokens, positions, token_types, taps)
        view = View(
            positions,
            positions,
            causal=causal,  # which hides the padding, too: it comes last
            aligned=causal and document_ids is None,
            sees_all=not causal and lengths is None and document_ids is None,
            key_valid=None if causal else valid_places(tokens, lengths),
            query_documents=document_ids,
            key_documents=document_ids,
        )
        return stack(x, view, positions, taps=taps)

    def pooled(self, vectors: Tensor) -> Tensor:
        """BERT's vector of a whole text (B,D), from `vectors` (B,T,D) and their first position."""
        if self.pooler is None:
            raise UserError("this model has no pooler: take the mean of its vectors instead")
        return torch.tanh(self.pooler(vectors[:, 0]))

    def _whole(self, vectors: Tensor, lengths: Tensor | None) -> Tensor:
        """One vector (B,D) of each text, as `pooling` says, from `vectors` (B,T,D)."""
        if self.config.pooling == "first":
            return vectors[:, 0] if self.pooler is None else self.pooled(vectors)
        return mean_of(vectors, lengths)

    def read_out(self, vectors: Tensor) -> Tensor:
        """Logits (…,V) in float32 of `vectors` (…,D): what `forward` makes of them, some at a time."""
        return self._logits(vectors, None)

    def _logits(self, x: Tensor, taps: Taps | None) -> Tensor:
        assert self.head is not None
        return tap(taps, "logits", self.head(x, self.embedding))

    # -- the source of an encoder-decoder ----------------------------------------------------------
    def encode(
        self, source: Tensor, source_lengths: Tensor | None = None, taps: Taps | None = None
    ) -> Tensor:
        """The encoder's output (B,S,D) for source tokens (B,S)."""
        assert self.encoder is not None
        self._check_length(source)
        embedding = self.embedding if self.source_embedding is None else self.source_embedding
        positions = torch.arange(source.shape[1], device=source.device)[None]
        view = View(
            positions,
            positions,
            causal=False,
            sees_all=source_lengths is None,
            key_valid=valid_places(source, source_lengths),
        )
        x = tap(taps, "encoder.embedding", embedding(source, positions))
        return self.encoder(x, view, positions, taps=taps)

    def _remember(
        self, source: Tensor | None, source_lengths: Tensor | None, taps: Taps | None
    ) -> tuple[list[tuple[Tensor, Tensor]], Tensor | None]:
        """Cross keys and values of each decoder layer, and which source positions are real (B,S)."""
        if source is None:
            raise UserError("an encoder-decoder needs a source to read: pass source=")
        assert self.decoder is not None
        encoded = self.encode(source, source_lengths, taps)
        memories = [
            block.cross_attention.memory(encoded)
            for block in self.decoder.blocks()
            if block.cross_attention is not None
        ]
        if self.training and self.config.dropout_source:
            seen = torch.rand(len(source), device=source.device) >= self.config.dropout_source
            memories = [(key, value * seen[:, None, None, None]) for key, value in memories]
        return memories, valid_places(source, source_lengths)

    # -- step by step ------------------------------------------------------------------------------
    def start(
        self,
        batch_size: int,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        taps: Taps | None = None,
    ) -> TransformerState:
        """An empty state for `batch_size` rows; an encoder-decoder runs its encoder here."""
        if self.decoder is None:
            raise UserError("an encoder-only model has no next token: use fill instead of generate")
        self._check_source(source)
        lengths = torch.zeros(batch_size, dtype=torch.long, device=self.device)
        state = TransformerState(lengths, [LayerCache() for _ in range(self.decoder.depth)])
        if self.encoder is not None:
            state.cross, state.source_valid = self._remember(source, source_lengths, taps)
            state.source_lengths = source_lengths
        return state

    def step(
        self,
        tokens: Tensor,
        state: TransformerState,
        lengths: Tensor | None = None,
        all_positions: bool = False,
        taps: Taps | None = None,
    ) -> tuple[Tensor, TransformerState]:
        """Read tokens (B,T) after what `state` holds; the old state is consumed.

        `lengths` (B,): real tokens of each row, the rest is padding. Returns float32 logits (B,V) after
        the last real token, or (B,T,V) after each.
        """
        assert self.decoder is not None
        batch, width = tokens.shape
        end = state.longest + width
        if end > self.context_length:
            self._check_room(state, width, lengths)
        view, positions, slots = self._step_view(state, width, end)
        x = self.embedding(tokens, positions, taps=taps)
        x = self.decoder(
            x,
            view,
            positions,
            memories=state.cross or None,
            memory_view=view_of_memory(positions, state.cross, state.source_valid),
            caches=state.layers,
            slots=slots,
            taps=taps,
        )
        if not all_positions and width > 1:  # the head only where it is asked for
            last = torch.full((batch,), width, device=x.device) if lengths is None else lengths
            x = x[torch.arange(batch, device=x.device), (last - 1).clamp(min=0)][:, None]
        logits = self._logits(x, taps)
        _advance(state, width, lengths)
        return (logits if all_positions else logits[:, -1]), state

    def branch(
        self,
        tokens: Tensor,
        state: TransformerState,
        slots: list[int],
        path: Tensor | None,
        wanted: Tensor | None = None,
        taps: Taps | None = None,
    ) -> Tensor:
        """Read W tokens of each row, all at one position: the branches of a tree, as in beam search.

        tokens (B,W); `slots` (C,): the position of every cache slot, the W new ones last; `path`
        (B,W,C) bool: the slots that each branch sees, None for all. Float32 logits (N,V) of the N
        branches that `wanted` (B,W) bool marks, None for all. The state is changed.
        """
        assert self.decoder is not None
        keys = torch.tensor([slots], device=self.device)
        position = keys[:, -1:]
        view = View(position, keys, causal=True, sees_all=path is None, allowed=path)
        x = self.embedding(tokens, position, taps=taps)
        x = self.decoder(
            x,
            view,
            position,
            memories=state.cross or None,
            memory_view=view_of_memory(position, state.cross, state.source_valid),
            caches=state.layers,
            slots=state.longest,
            taps=taps,
        )
        _advance(state, tokens.shape[1], None)
        x = x.flatten(0, 1) if wanted is None else x[wanted]
        return self._logits(x, taps)

    def _check_room(self, state: TransformerState, width: int, lengths: Tensor | None) -> None:
        """Refuse tokens beyond the context; what lies there may be padding alone."""
        reached = state.lengths + (width if lengths is None else lengths)
        if len(reached) and int(reached.max()) > self.context_length:
            longest = int(reached.argmax())
            raise UserError(
                f"the context is full: {int(state.lengths[longest])} + "
                f"{int(reached[longest] - state.lengths[longest])} tokens exceed context_length = "
                f"{self.context_length}"
            )

    def _step_view(
        self, state: TransformerState, width: int, end: int
    ) -> tuple[View, Tensor, Tensor | int]:
        """What the new tokens see, their positions, and the cache slots they take."""
        device = self.device
        keys = torch.arange(end, device=device)[None]
        if state.even:
            queries = torch.arange(state.longest, end, device=device)[None]
            slots: Tensor | int = state.longest
        else:
            queries = state.lengths[:, None] + torch.arange(width, device=device)[None]
            slots = queries
        positions = queries if state.offset is None else queries + state.offset[:, None]
        if self.config.positions == "learned":  # padding may stand beyond the table
            positions = positions.clamp(max=self.context_length - 1)
        view = View(
            queries,
            keys,
            causal=True,
            aligned=state.even and state.longest == 0,
            sees_all=state.even and width == 1,
        )
        return view, positions, slots

    def roll(self, state: TransformerState) -> TransformerState:
        """Make room: keep the first `sink_tokens` and the last window, drop what lies between.

        For windowed models with relative positions (Xiao et al. 2023, StreamingLLM): positions count
        slots of the cache, so the sinks move along with the window.
        """
        if not self.can_roll:
            raise UserError(
                "a rolling cache (on_overflow = sinks) needs a window in every layer and rotary, "
                "relative, alibi or no positions; use rewindow"
            )
        assert self.decoder is not None
        windows = [self.config.window_of(layer) or 0 for layer in range(self.decoder.depth)]
        # a new query and the window - 1 before it; never the whole context, or nothing is freed
        keep = min(max(windows) - 1, (self.context_length - self.config.sink_tokens) // 2)
        return roll_state(state, self.decoder, self.config.sink_tokens, keep)


def _advance(state: TransformerState, width: int, lengths: Tensor | None) -> None:
    """Count the tokens just read."""
    if lengths is None:
        state.lengths = state.lengths + width
        state.longest += width
        return
    state.lengths = state.lengths + lengths
    state.longest = int(state.lengths.max()) if len(lengths) else 0
    state.even = bool((state.lengths == state.longest).all())
