"""Recurrent language models: Elman's network, the LSTM and the GRU.

What they carry is of one size however long the text: a hidden vector (Elman 1990, Mikolov et al.
2010), an LSTM also a cell that is only added to (Hochreiter & Schmidhuber 1997). In principle that
reaches back for ever; in practice it fades, and no time step can begin before the one before has ended.
Dropout stands between layers, never between time steps (Zaremba et al. 2014).

Shapes: B batch, T positions, H d_hidden, G gates times H, V vocab_size. Batches are right-padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.layers.elementwise import dropout
from budgerigar.layers.linear import Linear, product
from budgerigar.layers.recurrent import (
    NAMES,
    STEPS,
    Carried,
    Recurrence,
    initialise_recurrent,
)
from budgerigar.layers.taps import Taps, tap
from budgerigar.models.ancestor_configs import RecurrentConfig
from budgerigar.models.base import Network
from budgerigar.models.documents import since_opening
from budgerigar.models.rnn_parts import Recorder


@dataclass
class RecurrentState:
    """What a recurrent model carries: a hidden vector (and a cell) per layer."""

    lengths: Tensor
    """(B,) int64: tokens read so far"""
    layers: list[Carried]

    def select(self, rows: Tensor) -> RecurrentState:
        """A copy of some rows, in any order, repeats allowed."""
        return RecurrentState(self.lengths[rows], [layer.select(rows) for layer in self.layers])

    @property
    def nbytes(self) -> int:
        """Bytes carried from step to step."""
        return sum(layer.nbytes for layer in self.layers)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a checkpoint."""
        found = {"lengths": self.lengths}
        for number, layer in enumerate(self.layers):
            parts = layer._asdict().items()
            found |= {f"{number}.{name}": part.clone() for name, part in parts if part is not None}
        return found

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """The reverse of `tensors`, into a state of the same model."""
        device = self.lengths.device
        self.lengths = tensors["lengths"].to(device)
        self.layers = [
            Carried(*(tensors[f"{number}.{name}"].to(device)
                      for name, part in layer._asdict().items() if part is not None))
            for number, layer in enumerate(self.layers)
        ]  # fmt: skip


class RecurrentLayer(Recurrence):
    """One layer of cells whose gates have names."""

    self_attention = cross_attention = None  # what looks back here is the state itself

    def __init__(self, config: RecurrentConfig, layer: int) -> None:
        d_input = config.d_hidden if layer else config.d_embedding
        super().__init__(config.cell, d_input, config.d_hidden)
        self.name = f"decoder.{layer}"
        self.parts = [f"{self.name}.{part}" for part in NAMES[config.cell]]

    def read(
        self,
        x: Tensor,
        carried: Carried,
        valid: Tensor | None,
        opens: Tensor | None,
        taps: Taps | None,
    ) -> tuple[Tensor, Carried]:
        """x (B,T,·) -> hidden states (B,T,H) and the state to go on from.

        valid (B,T): where the state moves on; opens (B,T): where it is zero before. None: everywhere,
        nowhere.
        """
        entered = self.input(x.transpose(0, 1))  # (T,B,G)
        if len(entered) == 1 or (taps is not None and any(map(taps.replaces, self.parts))):
            return self._one_by_one(entered, carried, valid, opens, taps)
        ran = self.run(entered, carried, valid, opens=opens)
        if taps is not None:
            self._look(entered, carried, ran.hidden, ran.cells, opens, taps)
        return ran.hidden, ran.last

    def _one_by_one(
        self,
        entered: Tensor,
        carried: Carried,
        valid: Tensor | None,
        opens: Tensor | None,
        taps: Taps | None,
    ) -> tuple[Tensor, Carried]:
        """Each step by the equations; taps may change every value of each step."""
        states, zero = [], self.zeros(entered.shape[1])
        record = Recorder(taps, dict.fromkeys(self.parts, 1))

        def see(part: str, value: Tensor) -> Tensor:
            return tap(taps, f"{self.name}.{part}", value[:, None])[:, 0]

        for t, given in enumerate(entered):
            before = carried if opens is None else zero.where(opens[:, t, None], carried)
            after = self.step_from(given, before, see)
            carried = after if valid is None else after.where(valid[:, t, None], before)
            states.append(carried.hidden)
            record.step()
        record.join()
        return torch.stack(states, dim=1), carried

    def _look(
        self,
        entered: Tensor,
        carried: Carried,
        hidden: Tensor,
        cells: Tensor | None,
        opens: Tensor | None,
        taps: Taps,
    ) -> None:
        """Tell taps what the fast loop did: its states, and the gates computed again from them."""

        def before(first: Tensor, later: Tensor) -> Tensor:
            states = torch.cat([first[:, None], later[:, :-1]], dim=1)
            return states if opens is None else states.masked_fill(opens[:, :, None], 0.0)

        past = Carried(before(carried.hidden, hidden))
        if cells is not None and carried.cell is not None:
            past = Carried(past.hidden, before(carried.cell, cells))
        own = {"hidden": hidden, "cell": cells}

        def see(part: str, value: Tensor) -> Tensor:
            kept = own.get(part)
            return tap(taps, f"{self.name}.{part}", value if kept is None else kept)

        from_input, from_hidden = entered.transpose(0, 1), self.hidden(past.hidden)
        STEPS[self.kind](from_input.to(hidden.dtype), from_hidden.to(hidden.dtype), past, see)


class RecurrentStack(nn.Module):
    """Layers 0, 1, …; each reads what the one below wrote."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.depth = config.n_layers
        for layer in range(self.depth):
            self.add_module(str(layer), RecurrentLayer(config, layer))

    def blocks(self) -> Iterator[RecurrentLayer]:
        """Bottom first."""
        for layer in range(self.depth):
            yield self.get_submodule(str(layer))  # type: ignore[misc]


class RecurrentHead(nn.Module):
    """Top states (B,T,H) -> logits (B,T,V) in float32, by way of a projection if there is one."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        width = config.d_output
        self.projection = None if width is None else Linear(config.d_hidden, width, bias=False)
        shape = (config.vocab_size, config.output_width)
        self.weight = None if config.tied_embeddings else nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor, embedding: nn.Embedding) -> Tensor:
        if self.projection is not None:
            x = self.projection(x)
        logits = product(x, embedding.weight if self.weight is None else self.weight, self.bias)
        return logits if logits.dtype == torch.float64 else logits.float()


class TokenTable(nn.Module):
    """Ids (B,T) -> vectors (B,T,d_embedding)."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, width)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.tokens(tokens)
        return vectors


class Recurrent(Network):
    """A recurrent language model, as `config` says."""

    context_length: None = None  # it never has to forget

    def __init__(self, config: RecurrentConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config.validate()
        self.embedding = TokenTable(config.vocab_size, config.d_embedding)
        self.decoder = RecurrentStack(config)
        self.head = RecurrentHead(config)
        initialise_recurrent(self, config.initialisation, config.d_hidden, seed)

    # -- whole sequences ---------------------------------------------------------------------------
    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        taps: Taps | None = None,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """Logits (B,T,V) in float32 of tokens (B,T).

        A document begins where `positions` (B,T) are 0 (or `document_ids` (B,T) change): there the
        state is zero. With `state` the rows go on from it, and it is moved on, cut off from the
        gradient: truncated back-propagation. `lengths` (B,): real tokens of each row, for the state;
        no logit of a real token depends on them.
        """
        start = self.start(len(tokens)) if state is None else state
        since = since_opening(tokens, document_ids, positions, far=1)
        opens = None if since is None else since == 0
        if opens is not None and state is None:
            opens = opens.clone()
            opens[:, 0] = False  # it is zero there
        hidden, layers = self._read(tokens, start.layers, _valid(tokens, lengths), opens, taps)
        if state is not None:
            state.layers = [layer.detached() for layer in layers]
            state.lengths = state.lengths + (tokens.shape[1] if lengths is None else lengths)
        return tap(taps, "logits", self.head(hidden, self.embedding.tokens))

    def _read(
        self,
        tokens: Tensor,
        layers: list[Carried],
        valid: Tensor | None,
        opens: Tensor | None,
        taps: Taps | None,
    ) -> tuple[Tensor, list[Carried]]:
        """Tokens (B,T) -> top states (B,T,H), ready for the head, and the states to go on from."""
        if opens is not None and not bool(opens.any()):
            opens = None
        x = self._drop(tap(taps, "decoder.embedding", self.embedding(tokens)))
        after = []
        for block, carried in zip(self.decoder.blocks(), layers, strict=True):
            x, moved = block.read(x, carried, valid, opens, taps)
            x = self._drop(x)
            after.append(moved)
        return x, after

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
    ) -> RecurrentState:
        """The state before the first token: zeros."""
        refuse_source(source)
        lengths = torch.zeros(batch_size, dtype=torch.long, device=self.device)
        return RecurrentState(lengths, [block.zeros(batch_size) for block in self.decoder.blocks()])

    def step(
        self,
        tokens: Tensor,
        state: RecurrentState,
        lengths: Tensor | None = None,
        all_positions: bool = False,
        taps: Taps | None = None,
    ) -> tuple[Tensor, RecurrentState]:
        """Read tokens (B,T) after what `state` holds; the old state is consumed.

        `lengths` (B,): real tokens of each row, the rest is padding. Returns float32 logits (B,V)
        after the last real token, or (B,T,V) after each.
        """
        width = tokens.shape[1]
        hidden, layers = self._read(tokens, state.layers, _valid(tokens, lengths), None, taps)
        if not all_positions and width > 1:  # the head only where it is asked for
            hidden = last_real(hidden, lengths)
        logits = tap(taps, "logits", self.head(hidden, self.embedding.tokens))
        after = RecurrentState(state.lengths + (width if lengths is None else lengths), layers)
        return (logits if all_positions else logits[:, -1]), after


def _valid(tokens: Tensor, lengths: Tensor | None) -> Tensor | None:
    """(B,T) boolean: which tokens are real."""
    if lengths is None:
        return None
    return torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]


def last_real(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(B,1,·) of x (B,T,·): what stands at each row's last real position."""
    if lengths is None:
        return x[:, -1:]
    rows = torch.arange(len(x), device=x.device)
    return x[rows, (lengths - 1).clamp(min=0)][:, None]


def refuse_source(source: Tensor | None) -> None:
    """A next-token model without an encoder is given no source."""
    if source is not None:
        raise UserError(
            "this model reads one text and no source beside it; leave the source out, or use an "
            "encoder-decoder"
        )
