"""Recurrent cells against torch's own, step by step and whole, with gradients and padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from budgerigar.layers.recurrent import Carried, Recurrence, initialise_recurrent
from budgerigar.layers.recurrent_kernels import AttentionInside

KINDS = ["elman", "gru", "lstm"]
B, T, S, D, H, A, C = 3, 6, 5, 5, 7, 4, 6  # D: width of the input
LENGTHS = torch.tensor([6, 2, 4])


def cells(kind: str, seed: int = 0, dtype: torch.dtype = torch.float32) -> Recurrence:
    torch.manual_seed(seed)
    return Recurrence(kind, D, H).to(dtype)


def torchs(kind: str, forth: Recurrence, back: Recurrence | None = None) -> Any:
    """torch's RNN, GRU or LSTM with copied weights."""
    cells = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
    made = cells[kind](D, H, batch_first=True, bidirectional=bool(back))
    with torch.no_grad():
        for one, suffix in ((forth, ""), (back, "_reverse")):
            if one is None:
                continue
            for layer, name in ((one.input, "ih"), (one.hidden, "hh")):
                getattr(made, f"weight_{name}_l0{suffix}").copy_(layer.weight)
                getattr(made, f"bias_{name}_l0{suffix}").copy_(layer.bias)
    return made.to(forth.input.weight.dtype)


def start(kind: str, dtype: torch.dtype = torch.float32, grad: bool = False) -> Carried:
    parts = [
        torch.randn(B, H, dtype=dtype, requires_grad=grad) for _ in range(1 + (kind == "lstm"))
    ]
    return Carried(*parts)


def initial(kind: str, carried: Carried) -> Any:
    """The state as torch's modules take it."""
    parts = [part[None] for part in carried if part is not None]
    return tuple(parts) if kind == "lstm" else parts[0]


def valid() -> Tensor:
    return torch.arange(T)[None] < LENGTHS[:, None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_that_of_torchs_cell(kind: str) -> None:
    ours, carried, x = cells(kind), start(kind), torch.randn(B, D)
    theirs = {"elman": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}[kind](D, H)
    with torch.no_grad():
        theirs.weight_ih.copy_(ours.input.weight)
        theirs.bias_ih.copy_(ours.input.bias)
        theirs.weight_hh.copy_(ours.hidden.weight)
        theirs.bias_hh.copy_(ours.hidden.bias)
    before = tuple(part for part in carried if part is not None)
    after = theirs(x, before if kind == "lstm" else before[0])
    expected = after if kind == "lstm" else (after,)
    found = [part for part in ours.step(x, carried) if part is not None]
    torch.testing.assert_close(tuple(found), tuple(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_is_that_of_torchs_layer_with_all_gradients(kind: str) -> None:
    ours = cells(kind)
    theirs, carried, x = torchs(kind, ours), start(kind, grad=True), torch.randn(B, T, D)
    weight = torch.randn(B, T, H)
    ran = ours(x, carried)
    expected, last = theirs(x, initial(kind, carried))
    torch.testing.assert_close(ran.hidden, expected, atol=1e-6, rtol=0)
    for mine, its in zip(ran.last, last if kind == "lstm" else (last,), strict=False):
        torch.testing.assert_close(mine, its[0], atol=1e-6, rtol=0)
    wanted = [*(part for part in carried if part is not None)]
    ours_by = torch.autograd.grad((ran.hidden * weight).sum(), [*wanted, *ours.parameters()])
    names = ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")
    weights = [getattr(theirs, name) for name in names]
    theirs_by = torch.autograd.grad((expected * weight).sum(), [*wanted, *weights])
    for mine, its in zip(ours_by, theirs_by, strict=True):
        torch.testing.assert_close(mine, its, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_over_padded_rows_are_those_of_packed_sequences(kind: str) -> None:
    forth, back, x = cells(kind, 1), cells(kind, 2), torch.randn(B, T, D)
    theirs = torchs(kind, forth, back)
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    out, last = theirs(packed)
    expected, _ = pad_packed_sequence(out, batch_first=True, total_length=T)
    lasts = last if kind == "lstm" else (last,)
    for way, (one, backwards) in enumerate([(forth, False), (back, True)]):
        noisy = torch.where(valid()[:, :, None], x, torch.full_like(x, 1e4))
        ran = one(noisy, one.zeros(B), valid(), backwards)
        real = valid()[:, :, None]
        torch.testing.assert_close(
            ran.hidden * real, expected[:, :, way * H : (way + 1) * H] * real, atol=1e-6, rtol=0
        )
        for mine, its in zip(ran.last, lasts, strict=False):
            torch.testing.assert_close(mine, its[way], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backwards", [False, True])
def test_gradients_by_finite_differences(kind: str, backwards: bool) -> None:
    ours = cells(kind, dtype=torch.float64)
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    carried = start(kind, torch.float64, grad=True)

    def run(x: Tensor, hidden: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        cell = rest[0] if kind == "lstm" else None
        ran = ours(x, Carried(hidden, cell), valid(), backwards)
        return tuple(part for part in (ran.hidden, *ran.last) if part is not None)

    inputs = (x, *(part for part in carried if part is not None), *ours.parameters())
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_with_an_attention_inside_by_finite_differences(kind: str) -> None:
    ours = cells(kind, dtype=torch.float64)
    gates = ours.input.out_features
    shapes = [(B, T, D), (A, H), (A,), (gates, C), (B, S, A), (B, S, C)]
    inputs = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]
    padding = torch.arange(S)[None] >= torch.tensor([5, 0, 3])[:, None]

    def run(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        inside = AttentionInside(*rest[:5], padding)
        entered = ours.input(x.transpose(0, 1))
        ran = ours.run(entered, ours.zeros(B), valid(), inside=inside)
        assert ran.attended is not None
        assert not ran.attended.contexts[1].any()  # nothing to look at: zeros
        return ran.hidden, ran.attended.contexts

    assert torch.autograd.gradcheck(run, (*inputs, *ours.parameters()), fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_products_stay_close(kind: str) -> None:
    ours, x = cells(kind), torch.randn(B, T, D)
    full = ours(x, ours.zeros(B)).hidden
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = ours(x, ours.zeros(B)).hidden
        low.sum().backward()
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, full, atol=0.03, rtol=0)
    assert ours.hidden.weight.grad is not None
    assert ours.hidden.weight.grad.dtype == torch.float32


def test_recurrent_matrices_start_orthogonal_and_forget_gates_open() -> None:
    ours = cells("lstm")
    initialise_recurrent(ours, "orthogonal", H, seed=3)
    for gate in ours.hidden.weight.split(H):
        torch.testing.assert_close(gate @ gate.T, torch.eye(H), atol=1e-5, rtol=0)
    assert ours.input.bias.tolist() == [0.0] * H + [1.0] * H + [0.0] * 2 * H
