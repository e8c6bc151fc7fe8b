"""Recurrent cells: GRU (Cho et al. 2014) and LSTM (Hochreiter & Schmidhuber 1997, Gers et al. 2000).

`gru_step` and `lstm_step` are the equations, to read; `Recurrence` runs them over whole sequences.
Weights are packed per gate in torch's order, so `torch.nn.GRU` and `torch.nn.LSTM` hold the same.

Shapes: B batch, T positions, I width of the input, H d_hidden.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from budgerigar.layers.linear import Linear
from budgerigar.layers.recurrent_kernels import Attended, AttentionInside, recur

N_GATES = {"gru": 3, "lstm": 4}


class Carried(NamedTuple):
    """What a cell carries from step to step: a hidden vector (B,H), an LSTM also a cell (B,H)."""

    hidden: Tensor
    cell: Tensor | None = None

    def select(self, rows: Tensor) -> Carried:
        """A copy of some rows."""
        return Carried(self.hidden[rows], None if self.cell is None else self.cell[rows])

    def where(self, chosen: Tensor, other: Carried) -> Carried:
        """This in the rows where `chosen` (B,1) is true, `other` in the rest."""
        hidden = torch.where(chosen, self.hidden, other.hidden)
        if self.cell is None or other.cell is None:
            return Carried(hidden)
        return Carried(hidden, torch.where(chosen, self.cell, other.cell))

    @property
    def nbytes(self) -> int:
        """Bytes carried."""
        return self.hidden.nbytes + (0 if self.cell is None else self.cell.nbytes)


def gru_step(from_input: Tensor, from_hidden: Tensor, carried: Carried) -> Carried:
    """One step of a GRU. `from_input` = W x + b and `from_hidden` = U h + c, (B,3H) each.

    Cho et al. 2014, equations 5 to 8, with the reset gate after the product with U, as torch and
    cuDNN have it (the paper resets h before): then all products with h are one.
    """
    input_reset, input_update, input_candidate = from_input.chunk(3, dim=-1)
    hidden_reset, hidden_update, hidden_candidate = from_hidden.chunk(3, dim=-1)
    reset = torch.sigmoid(input_reset + hidden_reset)  # how much of the past the candidate sees
    update = torch.sigmoid(input_update + hidden_update)  # how much of the past stays
    candidate = torch.tanh(input_candidate + reset * hidden_candidate)
    return Carried((1 - update) * candidate + update * carried.hidden)


def lstm_step(from_input: Tensor, from_hidden: Tensor, carried: Carried) -> Carried:
    """One step of an LSTM. `from_input` = W x + b and `from_hidden` = U h + c, (B,4H) each."""
    assert carried.cell is not None
    enter, forget, candidate, show = (from_input + from_hidden).chunk(4, dim=-1)
    kept = torch.sigmoid(forget) * carried.cell  # the past, as far as it is not forgotten
    cell = kept + torch.sigmoid(enter) * torch.tanh(candidate)  # and what is new
    return Carried(torch.sigmoid(show) * torch.tanh(cell), cell)


STEPS = {"gru": gru_step, "lstm": lstm_step}


class Ran(NamedTuple):
    """A whole sequence: hidden states (B,T,H), the state after each row's last real token, and (to
    look at) the cells (B,T,H) of an LSTM."""

    hidden: Tensor
    last: Carried
    cells: Tensor | None
    attended: Attended | None = None


class Recurrence(nn.Module):
    """One layer of cells in one direction. `input` (G H, I) and `hidden` (G H, H), a bias each."""

    def __init__(self, kind: str, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.kind, self.d_input, self.d_hidden = kind, d_input, d_hidden
        self.input = Linear(d_input, N_GATES[kind] * d_hidden)
        self.hidden = Linear(d_hidden, N_GATES[kind] * d_hidden)

    def zeros(self, batch_size: int) -> Carried:
        """The state before anything was read."""
        zero = self.hidden.weight.new_zeros(batch_size, self.d_hidden)
        return Carried(zero, zero if self.kind == "lstm" else None)

    def step(self, x: Tensor, carried: Carried) -> Carried:
        """Read x (B,I)."""
        return self.step_from(self.input(x), carried)

    def step_from(self, from_input: Tensor, carried: Carried) -> Carried:
        """One step with the input's gates (B,G) at hand, in the precision of the state."""
        from_hidden, dtype = self.hidden(carried.hidden), carried.hidden.dtype
        return STEPS[self.kind](from_input.to(dtype), from_hidden.to(dtype), carried)

    def forward(
        self,
        x: Tensor,
        carried: Carried,
        valid: Tensor | None = None,
        backwards: bool = False,
    ) -> Ran:
        """Read x (B,T,I) from the state `carried`; `backwards`: last position first.

        valid (B,T) boolean: real tokens. At others the state stays as it is, so padding changes
        nothing: read backwards, a row starts at its own last real token.
        """
        return self.run(self.input(x.transpose(0, 1)), carried, valid, backwards)

    def run(
        self,
        entered: Tensor,
        carried: Carried,
        valid: Tensor | None = None,
        backwards: bool = False,
        inside: AttentionInside | None = None,
    ) -> Ran:
        """`forward` with the input's gates (T,B,G) at hand, and with an attention if need be."""
        where = None if valid is None else valid.t()[:, :, None]
        if backwards:
            entered, where = entered.flip(0), None if where is None else where.flip(0)
        matrix, bias = self.hidden.weight, self.hidden.bias
        start = torch.stack([part for part in carried if part is not None])
        states, attended = recur(self.kind, entered, start, matrix, bias, where, inside)
        last = Carried(*states[-1])
        if backwards:
            states = states.flip(0)
        hidden, *cells = (part.transpose(0, 1) for part in states.unbind(1))
        if attended is not None:
            attended = Attended(*(part.transpose(0, 1) for part in attended))
        return Ran(hidden, last, cells[0] if cells else None, attended)


def initialise_recurrent(model: nn.Module, kind: str, d_hidden: int, seed: int) -> None:
    """Fill every parameter from one generator, in the order of their names.

    "orthogonal": recurrent matrices orthogonal gate by gate (as Bahdanau et al. 2014, B.1), others
    Xavier (Glorot & Bengio 2010), biases 0 but an LSTM's forget gate 1 (Jozefowicz et al. 2015);
    "uniform": within 1 / sqrt(d_hidden). Embeddings: normal, deviation 1 / sqrt(width).
    """
    generator = torch.Generator().manual_seed(seed)
    recurrent = {id(m.hidden.weight) for m in model.modules() if isinstance(m, Recurrence)}
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            fresh = torch.empty(parameter.shape)
            if "embedding" in name:
                fresh.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)
            elif kind == "uniform":
                fresh.uniform_(-(d_hidden**-0.5), d_hidden**-0.5, generator=generator)
            elif id(parameter) in recurrent:
                for gate in fresh.split(d_hidden):
                    nn.init.orthogonal_(gate, generator=generator)
            elif parameter.dim() > 1:
                bound = (6 / sum(parameter.shape)) ** 0.5
                fresh.uniform_(-bound, bound, generator=generator)
            elif name.endswith("score"):
                bound = (3 / len(parameter)) ** 0.5
                fresh.uniform_(-bound, bound, generator=generator)
            else:
                fresh.zero_()
            parameter.copy_(fresh)
        if kind == "orthogonal":
            for module in model.modules():
                if isinstance(module, Recurrence) and module.kind == "lstm":
                    module.input.bias[d_hidden : 2 * d_hidden] = 1.0
