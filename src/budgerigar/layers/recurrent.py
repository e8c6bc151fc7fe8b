"""Recurrent cells: Elman's (1990), the LSTM (Hochreiter & Schmidhuber 1997, Gers et al. 2000) and the
GRU (Cho et al. 2014).

`elman_step`, `gru_step` and `lstm_step` are the equations, to read; `Recurrence` runs them over whole
sequences. Weights are packed per gate in torch's order: `torch.nn.RNN`, `GRU` and `LSTM` hold the same.

Shapes: B batch, T positions, I width of the input, H d_hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from budgerigar.layers.linear import Linear
from budgerigar.layers.recurrent_kernels import Attended, AttentionInside, recur

N_GATES = {"elman": 1, "gru": 3, "lstm": 4}

See = Callable[[str, Tensor], Tensor]
"""Told the name and the value of every gate; what it returns is used."""

# What each cell names, in the order in which it computes.
NAMES = {
    "elman": ("hidden",),
    "gru": ("reset_gate", "update_gate", "candidate", "hidden"),
    "lstm": ("input_gate", "forget_gate", "candidate", "output_gate", "cell", "hidden"),
}


def as_it_is(_name: str, value: Tensor) -> Tensor:
    """Nobody looks."""
    return value


class Carried(NamedTuple):
    """What a cell carries from step to step: a hidden vector (B,H), an LSTM also a cell (B,H)."""

    hidden: Tensor
    cell: Tensor | None = None

    def select(self, rows: Tensor) -> Carried:
        """A copy of some rows."""
        return Carried(self.hidden[rows], None if self.cell is None else self.cell[rows])

    def detached(self) -> Carried:
        """The same values, without the gradient's way back."""
        return Carried(self.hidden.detach(), None if self.cell is None else self.cell.detach())

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


def elman_step(
    from_input: Tensor, from_hidden: Tensor, carried: Carried, see: See = as_it_is
) -> Carried:
    """One step of an Elman network. `from_input` = W x + b, `from_hidden` = U h + c, (...,H) each."""
    return Carried(see("hidden", torch.tanh(from_input + from_hidden)))


def gru_step(
    from_input: Tensor, from_hidden: Tensor, carried: Carried, see: See = as_it_is
) -> Carried:
    """One step of a GRU. `from_input` = W x + b and `from_hidden` = U h + c, (...,3H) each.

    Cho et al. 2014, equations 5 to 8, with the reset gate after the product with U, as torch and
    cuDNN have it (the paper resets h before): then all products with h are one.
    """
    input_reset, input_update, input_candidate = from_input.chunk(3, dim=-1)
    hidden_reset, hidden_update, hidden_candidate = from_hidden.chunk(3, dim=-1)
    # how much of the past the candidate sees, and how much of it stays
    reset = see("reset_gate", torch.sigmoid(input_reset + hidden_reset))
    update = see("update_gate", torch.sigmoid(input_update + hidden_update))
    candidate = see("candidate", torch.tanh(input_candidate + reset * hidden_candidate))
    return Carried(see("hidden", (1 - update) * candidate + update * carried.hidden))


def lstm_step(
    from_input: Tensor, from_hidden: Tensor, carried: Carried, see: See = as_it_is
) -> Carried:
    """One step of an LSTM. `from_input` = W x + b and `from_hidden` = U h + c, (...,4H) each."""
    assert carried.cell is not None
    enter, forget, candidate, show = (from_input + from_hidden).chunk(4, dim=-1)
    enter = see("input_gate", torch.sigmoid(enter))
    forget = see("forget_gate", torch.sigmoid(forget))
    candidate = see("candidate", torch.tanh(candidate))
    show = see("output_gate", torch.sigmoid(show))
    # the past, as far as it is not forgotten, and what is new
    cell = see("cell", forget * carried.cell + enter * candidate)
    return Carried(see("hidden", show * torch.tanh(cell)), cell)


STEPS = {"elman": elman_step, "gru": gru_step, "lstm": lstm_step}


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

    def step_from(self, from_input: Tensor, carried: Carried, see: See = as_it_is) -> Carried:
        """One step with the input's gates (B,G) at hand, in the precision of the state."""
        from_hidden, dtype = self.hidden(carried.hidden), carried.hidden.dtype
        return STEPS[self.kind](from_input.to(dtype), from_hidden.to(dtype), carried, see)

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
        opens: Tensor | None = None,
    ) -> Ran:
        """`forward` with the input's gates (T,B,G) at hand, and with an attention if need be.

        opens (B,T) boolean: something new begins with this position, the state before it is zero.
        """
        where = None if valid is None else valid.t()[:, :, None]
        if backwards:
            entered, where = entered.flip(0), None if where is None else where.flip(0)
        matrix, bias = self.hidden.weight, self.hidden.bias
        start = torch.stack([part for part in carried if part is not None])
        resets = None if opens is None else opens.t()[:, :, None]
        assert resets is None or not backwards
        states, attended = recur(self.kind, entered, start, matrix, bias, where, inside, resets)
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
