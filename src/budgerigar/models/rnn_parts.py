"""The encoder, the decoder and the output layer of the recurrent translators.

Shapes: B batch, T target positions, S source positions, H d_hidden, C width of the context, V
vocab_size. Everything is right-padded.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from budgerigar.layers.additive_attention import AdditiveAttention, Source
from budgerigar.layers.linear import Linear, product
from budgerigar.layers.recurrent import Carried, Recurrence
from budgerigar.layers.recurrent_kernels import AttentionInside
from budgerigar.layers.taps import Taps, tap
from budgerigar.models.rnn_config import RnnEncoderDecoderConfig


class TokenEmbedding(nn.Module):
    """Ids (B,T) -> vectors (B,T,d_embedding)."""

    def __init__(self, vocab_size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.tokens, self.dropout = nn.Embedding(vocab_size, width), dropout

    def forward(self, tokens: Tensor) -> Tensor:
        return drop(self, self.tokens(tokens))


def drop(module: nn.Module, x: Tensor) -> Tensor:
    """Dropout at the module's own rate, in training."""
    rate: float = module.dropout  # type: ignore[assignment]
    return F.dropout(x, rate) if rate and module.training else x


class EncoderLayer(nn.Module):
    """One layer that reads its input from left to right and, if asked, also from right to left."""

    def __init__(self, config: RnnEncoderDecoderConfig, d_input: int, name: str) -> None:
        super().__init__()
        self.name = name
        self.left_to_right = Recurrence(config.cell, d_input, config.d_hidden)
        self.right_to_left = (
            Recurrence(config.cell, d_input, config.d_hidden) if config.bidirectional else None
        )

    def forward(
        self, x: Tensor, valid: Tensor | None, taps: Taps | None
    ) -> tuple[Tensor, list[Carried]]:
        """x (B,S,·) -> (B,S,H or 2H), and the last state of each direction."""
        ways = [(self.left_to_right, False), (self.right_to_left, True)]
        ran = [
            way(x, way.zeros(len(x)), valid, backwards)
            for way, backwards in ways
            if way is not None
        ]
        hidden = torch.cat([r.hidden for r in ran], dim=-1) if len(ran) > 1 else ran[0].hidden
        return tap(taps, f"{self.name}.hidden", hidden), [r.last for r in ran]


class Encoder(nn.Module):
    """Layers 0, 1, …; each reads what the one below wrote."""

    def __init__(self, config: RnnEncoderDecoderConfig) -> None:
        super().__init__()
        self.depth, self.dropout, self.reverse = (
            config.n_encoder_layers,
            config.dropout,
            config.reverse_source,
        )
        width = config.d_embedding
        for layer in range(self.depth):
            self.add_module(str(layer), EncoderLayer(config, width, f"encoder.{layer}"))
            width = config.annotation_width

    def layers(self) -> Iterator[EncoderLayer]:
        """Bottom first."""
        for layer in range(self.depth):
            yield self.get_submodule(str(layer))  # type: ignore[misc]

    def forward(
        self, x: Tensor, lengths: Tensor | None, taps: Taps | None = None
    ) -> tuple[Tensor, list[list[Carried]]]:
        """x (B,S,·) -> annotations (B,S,C) and, per layer, the last state of each direction."""
        places = torch.arange(x.shape[1], device=x.device)[None]
        valid = None if lengths is None else places < lengths[:, None]
        if self.reverse:  # each row its own real tokens; the padding stays where it is
            if lengths is not None:
                places = torch.where(valid, lengths[:, None] - 1 - places, places)  # type: ignore[arg-type]
            else:
                places = places.flip(1)
            x = x.gather(1, places[:, :, None].expand(len(x), -1, x.shape[2]))
        lasts = []
        for number, layer in enumerate(self.layers()):
            x, last = layer(x if number == 0 else drop(self, x), valid, taps)
            lasts.append(last)
        return drop(self, x), lasts


class DecoderLayer(Recurrence):
    """One recurrent layer; the lowest may have `context` (G,C), a matrix for what the source says."""

    self_attention = None  # for the viewer: what looks back here is the state itself

    def __init__(self, config: RnnEncoderDecoderConfig, layer: int) -> None:
        lowest = layer == 0
        super().__init__(
            config.cell, config.d_embedding if lowest else config.d_hidden, config.d_hidden
        )
        self.name = f"decoder.{layer}"
        width = config.context_width if lowest else 0
        self.context = (
            Linear(width, config.n_gates * config.d_hidden, bias=False) if width else None
        )
        self.cross_attention: AdditiveAttention | None = None
        if lowest and config.attends:
            self.cross_attention = AdditiveAttention(
                f"{self.name}.cross_attention",
                config.d_hidden,
                config.annotation_width,
                config.attention_width,
            )
        self.last_direction_only = config.attends
        self.start_hidden, self.start_cell = None, None
        if not config.copies_state:
            self.start_hidden = Linear(config.start_width, config.d_hidden)
            if config.cell == "lstm":
                self.start_cell = Linear(config.start_width, config.d_hidden)

    def begin(self, lasts: list[Carried], taps: Taps | None) -> Carried:
        """The state before the first target token, from the last states of an encoder layer."""
        used = lasts[-1:] if self.last_direction_only else lasts
        hidden, cell = used[0]
        full = hidden.dtype
        if self.start_hidden is not None:
            hidden = torch.tanh(self.start_hidden(torch.cat([c.hidden for c in used], -1))).to(full)
        if self.start_cell is not None:
            cells = [c.cell for c in used if c.cell is not None]
            cell = self.start_cell(torch.cat(cells, -1)).to(full)
        hidden = tap(taps, f"{self.name}.hidden.start", hidden)
        return Carried(hidden, None if cell is None else tap(taps, f"{self.name}.cell.start", cell))

    def read(
        self,
        x: Tensor,
        carried: Carried,
        source: Source,
        valid: Tensor | None = None,
        taps: Taps | None = None,
    ) -> tuple[Tensor, Tensor | None, Carried]:
        """x (B,T,·) -> states (B,T,H), contexts (B,T,C) if it has any, the state to go on from.

        valid (B,T): where the state moves on; None: everywhere.
        """
        entered = self.input(x.transpose(0, 1))  # (T,B,G)
        contexts = None
        if self.cross_attention is not None:
            source = self.cross_attention.seen(source, taps)
        elif self.context is not None:
            last = source.spread().context
            assert last is not None
            always = tap(taps, f"{self.name}.context", last)
            entered = entered + self.context(always)
            contexts = always[:, None].expand(-1, x.shape[1], -1)
        if x.shape[1] == 1 or self._stepwise(taps):
            hidden, attended, carried = self._one_by_one(entered, carried, source, valid, taps)
        else:
            hidden, attended, carried = self._at_once(entered, carried, source, valid, taps)
        return hidden, contexts if attended is None else attended, carried

    def _stepwise(self, taps: Taps | None) -> bool:
        """Whether a change from outside has to enter the loop over time."""
        if taps is None:
            return False
        own = any(taps.replaces(f"{self.name}.{part}") for part in ("hidden", "cell"))
        return own or (self.cross_attention is not None and self.cross_attention.replaced(taps))

    def _at_once(
        self,
        entered: Tensor,
        carried: Carried,
        source: Source,
        valid: Tensor | None,
        taps: Taps | None,
    ) -> tuple[Tensor, Tensor | None, Carried]:
        """All steps in the fast loop; what taps record is computed again afterwards."""
        attention, inside = self.cross_attention, None
        if attention is not None:
            source = source.spread()
            assert source.keys is not None
            assert source.values is not None
            assert self.context is not None
            inside = AttentionInside(
                attention.query.weight,
                attention.score,
                self.context.weight,
                source.keys,
                source.values,
                source.padding,
            )
        ran = self.run(entered, carried, valid, inside=inside)
        contexts = None if ran.attended is None else ran.attended.contexts
        if taps is not None:
            tap(taps, f"{self.name}.hidden", ran.hidden)
            if ran.cells is not None:
                tap(taps, f"{self.name}.cell", ran.cells)
            if attention is not None and inside is not None and contexts is not None:
                before = torch.cat([carried.hidden[:, None], ran.hidden[:, :-1]], dim=1)
                attention.look(before, source, contexts, taps)
        return ran.hidden, contexts, ran.last

    def _one_by_one(
        self,
        entered: Tensor,
        carried: Carried,
        source: Source,
        valid: Tensor | None,
        taps: Taps | None,
    ) -> tuple[Tensor, Tensor | None, Carried]:
        """Each step by the equations of `recurrent.py`; taps may change every value of each step."""
        attention, states, contexts = self.cross_attention, [], []
        record = Recorder(taps, _along(self.name))
        for t, given in enumerate(entered):
            if attention is not None:
                assert self.context is not None
                context = attention(carried.hidden, source, taps)
                given = given + self.context(context)
                contexts.append(context)
            after = self.step_from(given, carried)
            if valid is not None:
                after = after.where(valid[:, t, None], carried)
            hidden = tap(taps, f"{self.name}.hidden", after.hidden[:, None])[:, 0]
            cell = after.cell
            if cell is not None:
                cell = tap(taps, f"{self.name}.cell", cell[:, None])[:, 0]
            carried = Carried(hidden, cell)
            states.append(hidden)
            record.step()
        record.join()
        hidden = torch.stack(states, dim=1)
        return hidden, torch.stack(contexts, dim=1) if contexts else None, carried


def _along(name: str) -> dict[str, int]:
    """What taps record of a decoder layer -> the dimension of the target positions."""
    along = {f"{name}.hidden": 1, f"{name}.cell": 1, f"{name}.cross_attention.output": 1}
    inner = ("query", "scores", "weights", "head_output")
    return along | {f"{name}.cross_attention.{part}": 2 for part in inner}


class Recorder:
    """Puts together what taps record step by step in a layer: values of T = 1 become one of T."""

    def __init__(self, taps: Taps | None, along: dict[str, int]) -> None:
        self.taps, self.parts = taps, {}
        self.along = along  # name -> dimension of the positions

    parts: dict[str, list[Tensor]]

    def step(self) -> None:
        """Take what this step left."""
        if self.taps is not None:
            for name in self.along.keys() & self.taps.values.keys():
                self.parts.setdefault(name, []).append(self.taps.values.pop(name))

    def join(self) -> None:
        """Leave it joined."""
        if self.taps is not None:
            for name, values in self.parts.items():
                self.taps.values[name] = torch.cat(values, dim=self.along[name])


class Decoder(nn.Module):
    """Layers 0, 1, …, the lowest with the attention; each reads what the one below wrote."""

    def __init__(self, config: RnnEncoderDecoderConfig) -> None:
        super().__init__()
        self.depth, self.dropout = config.n_decoder_layers, config.dropout
        for layer in range(self.depth):
            self.add_module(str(layer), DecoderLayer(config, layer))

    def blocks(self) -> Iterator[DecoderLayer]:
        """Bottom first."""
        for layer in range(self.depth):
            yield self.get_submodule(str(layer))  # type: ignore[misc]

    def begin(self, lasts: list[list[Carried]], taps: Taps | None = None) -> list[Carried]:
        """States before the first target token; top starts from top, the next from the next."""
        more = len(lasts) - self.depth
        return [
            block.begin(lasts[max(0, layer + more)], taps)
            for layer, block in enumerate(self.blocks())
        ]

    def forward(
        self,
        x: Tensor,
        states: list[Carried],
        source: Source,
        valid: Tensor | None = None,
        taps: Taps | None = None,
    ) -> tuple[Tensor, Tensor | None, list[Carried]]:
        """x (B,T,·) -> top states (B,T,H), contexts (B,T,C) or None, the states to go on from."""
        context, after = None, []
        for layer, block in enumerate(self.blocks()):
            x = x if layer == 0 else drop(self, x)
            x, given, carried = block.read(x, states[layer], source, valid, taps)
            context = given if layer == 0 else context
            after.append(carried)
        return x, context, after


class Output(nn.Module):
    """From state, word read and context to logits (Bahdanau et al. 2014, A.2.2; Pascanu et al. 2014).

    t = max of the two halves of U s_i + V e(y_(i-1)) + C c_i (maxout), or tanh of it; logits = W t.
    As in the paper's equation 4 the state is s_i, which has read y_(i-1) and c_i already (its
    appendix writes s_(i-1)).
    """

    def __init__(self, config: RnnEncoderDecoderConfig) -> None:
        super().__init__()
        self.maxout, self.dropout = config.maxout, config.dropout
        inputs = config.d_hidden + config.d_embedding + config.context_width
        self.transform = Linear(inputs, config.output_width * (2 if config.maxout else 1))
        shape = (config.vocab_size, config.output_width)
        self.weight = None if config.tied_embeddings else nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(
        self, hidden: Tensor, word: Tensor, context: Tensor | None, embedding: TokenEmbedding
    ) -> Tensor:
        """(B,T,H), (B,T,d_embedding), (B,T,C) -> (B,T,V) in float32."""
        parts = [hidden, word.to(hidden.dtype), *([] if context is None else [context])]
        x = self.transform(torch.cat(parts, dim=-1))
        x = torch.maximum(*x.chunk(2, dim=-1)) if self.maxout else torch.tanh(x)
        weight = embedding.tokens.weight if self.weight is None else self.weight
        logits = product(drop(self, x), weight, self.bias)
        return logits if logits.dtype == torch.float64 else logits.float()
