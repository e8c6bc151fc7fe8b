"""The neural probabilistic language model (Bengio et al. 2003): a window of words, each a vector.

As in an n-gram only the last n - 1 tokens count. But they enter as vectors from one table, learnt
along: what was seen of one word helps for its neighbours in that space, where an n-gram must see each
sequence itself.

    x = the vectors of the last n - 1 tokens, side by side
    logits = b + W x + U tanh(d + H x)             (equation 1; W: the direct connections)

Places before the text (or the document) hold a vector of their own, learnt too.

Shapes: B batch, T positions, N = n - 1, M d_embedding, V vocab_size. Batches are right-padded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from budgerigar.layers.elementwise import dropout
from budgerigar.layers.linear import Linear, product
from budgerigar.layers.recurrent import initialise_recurrent
from budgerigar.layers.taps import Taps, tap
from budgerigar.models.ancestor_configs import FeedForwardConfig
from budgerigar.models.base import Network
from budgerigar.models.documents import since_opening
from budgerigar.models.recurrent import last_real, refuse_source


@dataclass
class FeedForwardState:
    """The last n - 1 tokens of each row."""

    lengths: Tensor
    """(B,) int64: tokens read so far"""
    tokens: Tensor
    """(B,N) int64, the newest last; V where the text had not begun"""

    def select(self, rows: Tensor) -> FeedForwardState:
        """A copy of some rows, in any order, repeats allowed."""
        return FeedForwardState(self.lengths[rows], self.tokens[rows])

    @property
    def nbytes(self) -> int:
        """Bytes carried from step to step."""
        return self.tokens.nbytes

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a checkpoint."""
        return {"lengths": self.lengths, "tokens": self.tokens}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """The reverse of `tensors`."""
        device = self.lengths.device
        self.lengths, self.tokens = tensors["lengths"].to(device), tensors["tokens"].to(device)


class StartTable(nn.Module):
    """Ids -> vectors; `start` is the vector of a place before the text (id V)."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, width)
        self.start = nn.Parameter(torch.zeros(width))

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.tokens(tokens)
        return vectors

    def with_start(self, tokens: Tensor) -> Tensor:
        """The same for ids that may be V."""
        before = tokens == self.tokens.num_embeddings
        vectors: Tensor = self.tokens(tokens.masked_fill(before, 0))
        return torch.where(before[..., None], self.start, vectors)


class WindowHead(nn.Module):
    """Hidden layer (B,T,h) and window (B,T,N M) -> logits (B,T,V) in float32."""

    def __init__(self, config: FeedForwardConfig) -> None:
        super().__init__()
        size, hidden, window = config.vocab_size, config.d_hidden, config.window_width
        own = hidden and not config.tied_embeddings
        self.weight = nn.Parameter(torch.zeros(size, hidden)) if own else None
        self.direct = nn.Parameter(torch.zeros(size, window)) if config.direct_connections else None
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, hidden: Tensor | None, window: Tensor, embedding: nn.Embedding) -> Tensor:
        logits: Tensor | None = None
        if hidden is not None:
            weight = embedding.weight if self.weight is None else self.weight
            logits = product(hidden, weight, self.bias)
        if self.direct is not None:
            added = product(window, self.direct, None if logits is not None else self.bias)
            logits = added if logits is None else logits + added
        assert logits is not None
        return logits if logits.dtype == torch.float64 else logits.float()


class FeedForward(Network):
    """Bengio's model, as `config` says."""

    context_length: None = None  # longer texts are no trouble: it forgets by itself

    def __init__(self, config: FeedForwardConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config.validate()
        self.embedding = StartTable(config.vocab_size, config.d_embedding)
        layers = {"0": Linear(config.window_width, config.d_hidden)} if config.d_hidden else {}
        self.decoder = nn.ModuleDict(layers)  # the hidden layer: decoder.0.weight is H, .bias is d
        self.head = WindowHead(config)
        initialise_recurrent(self, "orthogonal", config.d_hidden, seed)

    # -- whole sequences ---------------------------------------------------------------------------
    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        taps: Taps | None = None,
        state: FeedForwardState | None = None,
    ) -> Tensor:
        """Logits (B,T,V) in float32 of tokens (B,T).

        `positions` (B,T) count from where a document begins (or `document_ids` (B,T) change there):
        tokens before it are not seen. With `state` the rows go on from it, and it is moved on.
        `lengths` (B,): real tokens of each row, for the state; no real logit depends on them.
        """
        start = self.start(len(tokens)) if state is None else state
        since = since_opening(tokens, document_ids, positions, far=self.config.order)
        hidden, window = self._read(tokens, start.tokens, since, taps)
        if state is not None:
            self._move(state, tokens, lengths)
            if since is not None:  # a later step must not see across the document's beginning
                last = last_real(since[:, :, None], lengths)[:, :, 0]
                ages = torch.arange(self.config.order - 2, -1, -1, device=self.device)[None]
                state.tokens = state.tokens.masked_fill(ages > last, self.vocab_size)
        return tap(taps, "logits", self.head(hidden, window, self.embedding.tokens))

    def _read(
        self, tokens: Tensor, before: Tensor, since: Tensor | None, taps: Taps | None
    ) -> tuple[Tensor | None, Tensor]:
        """Hidden layer (B,T,h), None without one, and windows (B,T,N M), oldest token first.

        before (B,N): the tokens before these; since (B,T): how many of its document each has before.
        """
        vectors = tap(taps, "decoder.embedding", self.embedding(tokens))
        n, width = self.config.order - 1, tokens.shape[1]
        line = torch.cat([self.embedding.with_start(before[:, 1:]), vectors], dim=1)
        places = [line[:, first : first + width] for first in range(n)]
        if since is not None:
            ages = range(n - 1, -1, -1)
            places = [
                torch.where((since < age)[:, :, None], self.embedding.start, place)
                for age, place in zip(ages, places, strict=True)
            ]
        window = self._drop(torch.cat(places, dim=-1))
        if not len(self.decoder):
            return None, window
        hidden = tap(taps, "decoder.0.hidden", torch.tanh(self.decoder["0"](window)))
        return self._drop(hidden), window

    def _drop(self, x: Tensor) -> Tensor:
        rate = self.config.dropout
        return dropout(x, rate) if rate and self.training else x

    # -- step by step ------------------------------------------------------------------------------
    def start(
        self,
        batch_size: int,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        taps: Taps | None = None,
    ) -> FeedForwardState:
        """The state before the first token."""
        refuse_source(source)
        lengths = torch.zeros(batch_size, dtype=torch.long, device=self.device)
        shape = (batch_size, self.config.order - 1)
        tokens = torch.full(shape, self.vocab_size, dtype=torch.long, device=self.device)
        return FeedForwardState(lengths, tokens)

    def step(
        self,
        tokens: Tensor,
        state: FeedForwardState,
        lengths: Tensor | None = None,
        all_positions: bool = False,
        taps: Taps | None = None,
    ) -> tuple[Tensor, FeedForwardState]:
        """Read tokens (B,T) after what `state` holds; the old state is consumed.

        `lengths` (B,): real tokens of each row, the rest is padding. Returns float32 logits (B,V)
        after the last real token, or (B,T,V) after each.
        """
        hidden, window = self._read(tokens, state.tokens, None, taps)
        if not all_positions and tokens.shape[1] > 1:  # the head only where it is asked for
            hidden = None if hidden is None else last_real(hidden, lengths)
            window = last_real(window, lengths)
        logits = tap(taps, "logits", self.head(hidden, window, self.embedding.tokens))
        self._move(state, tokens, lengths)
        return (logits if all_positions else logits[:, -1]), state

    def _move(self, state: FeedForwardState, tokens: Tensor, lengths: Tensor | None) -> None:
        """Let the newest N real tokens stand in the state."""
        line = torch.cat([state.tokens, tokens], dim=1)
        n, width = state.tokens.shape[1], tokens.shape[1]
        if lengths is None:
            state.tokens = line[:, width:]
        else:
            places = lengths[:, None] + torch.arange(n, device=tokens.device)[None]
            state.tokens = line.gather(1, places)
        state.lengths = state.lengths + (width if lengths is None else lengths)
