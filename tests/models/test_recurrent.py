"""Recurrent language models against torch's own layers, and their gates against each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from budgerigar.layers.taps import Taps
from budgerigar.models.ancestor_configs import RecurrentConfig
from budgerigar.models.recurrent import Recurrent

CELLS = ["elman", "gru", "lstm"]
V, B, T, M, H = 12, 3, 10, 5, 7


def make(cell: Any, **more: Any) -> Recurrent:
    config = RecurrentConfig(V, cell=cell, n_layers=2, d_embedding=M, d_hidden=H, **more)
    return Recurrent(config, seed=2)


def torchs(model: Recurrent) -> Any:
    """torch's layers with the same weights."""
    kind = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[model.config.cell]
    layers = kind(M, H, num_layers=2, batch_first=True).to(model.embedding.tokens.weight.dtype)
    with torch.no_grad():
        for number, block in enumerate(model.decoder.blocks()):
            for ours, theirs in ((block.input, "ih"), (block.hidden, "hh")):
                getattr(layers, f"weight_{theirs}_l{number}").copy_(ours.weight)
                getattr(layers, f"bias_{theirs}_l{number}").copy_(ours.bias)
    return layers


@pytest.mark.parametrize("cell", CELLS)
def test_is_torchs_network_with_all_its_gradients(cell: str) -> None:
    model = make(cell).double()
    layers = torchs(model)
    tokens = torch.randint(0, V, (B, T))
    weight, bias = (
        p.detach().clone().requires_grad_() for p in (model.head.weight, model.head.bias)
    )
    vectors = model.embedding.tokens.weight.detach().clone().requires_grad_()
    expected = layers(vectors[tokens])[0] @ weight.T + bias
    found = model(tokens)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    at = torch.randn_like(found)
    (found * at).sum().backward()
    (expected * at).sum().backward()
    pairs = [(model.head.weight, weight), (model.embedding.tokens.weight, vectors)]
    for number, block in enumerate(model.decoder.blocks()):
        for ours, theirs in ((block.input, "ih"), (block.hidden, "hh")):
            pairs.append((ours.weight, getattr(layers, f"weight_{theirs}_l{number}")))
            pairs.append((ours.bias, getattr(layers, f"bias_{theirs}_l{number}")))
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_stop_where_a_document_begins_and_are_right_on_both_sides(cell: str) -> None:
    """The fast loop with a state that is emptied in the middle, against two separate passes."""
    model = make(cell).double()
    tokens = torch.randint(0, V, (B, T))
    positions = torch.arange(T).repeat(B, 1)
    positions[0, 4:] = torch.arange(T - 4)
    at = torch.randn(B, T, V, dtype=torch.float64)
    (model(tokens, positions=positions) * at).sum().backward()
    found = {n: p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    for rows, begin, end in ((slice(0, 1), 0, 4), (slice(0, 1), 4, T), (slice(1, B), 0, T)):
        (model(tokens[rows, begin:end]) * at[rows, begin:end]).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-9, atol=1e-9)


def test_gates_make_the_states_that_are_shown() -> None:
    tokens = torch.randint(0, V, (B, T))
    taps = Taps(record=["*"])
    make("lstm")(tokens, taps=taps)
    for layer in ("decoder.0", "decoder.1"):
        cell, gates = torch.zeros(B, H), taps.values
        for t in range(T):
            cell = gates[f"{layer}.forget_gate"][:, t] * cell
            cell = cell + gates[f"{layer}.input_gate"][:, t] * gates[f"{layer}.candidate"][:, t]
            hidden = gates[f"{layer}.output_gate"][:, t] * torch.tanh(cell)
            torch.testing.assert_close(cell, gates[f"{layer}.cell"][:, t])
            torch.testing.assert_close(hidden, gates[f"{layer}.hidden"][:, t])
    taps = Taps(record=["*"])
    make("gru")(tokens, taps=taps)
    hidden = torch.zeros(B, H)
    for t in range(T):
        update, new = (taps.values[f"decoder.0.{p}"][:, t] for p in ("update_gate", "candidate"))
        hidden = update * hidden + (1 - update) * new
        torch.testing.assert_close(hidden, taps.values["decoder.0.hidden"][:, t])


def test_a_replaced_gate_changes_what_comes_after() -> None:
    model, tokens = make("lstm"), torch.randint(0, V, (B, T))
    shut = Taps(record=["*"], replace={"decoder.0.forget_gate": torch.zeros_like})
    found = model(tokens, taps=shut)
    assert not torch.allclose(found, model(tokens))
    values = shut.values
    assert not values["decoder.0.forget_gate"].any()
    new = values["decoder.0.input_gate"] * values["decoder.0.candidate"]
    torch.testing.assert_close(values["decoder.0.cell"], new)  # nothing of the past is kept
    assert "decoder.0.forget_gate" in shut.used


def test_dropout_leaves_the_way_through_time_alone() -> None:
    """Zaremba et al. 2014: with everything between the layers dropped, states still evolve."""
    model = make("lstm", dropout=0.999).train()
    with torch.no_grad():
        for block in model.decoder.blocks():
            block.input.bias += 1.0
    taps = Taps(record=["decoder.1.hidden"])
    torch.manual_seed(0)
    model(torch.randint(0, V, (1, T)), taps=taps)
    hidden = taps.values["decoder.1.hidden"][0]
    assert bool(hidden.any())
    assert float((hidden[1:] - hidden[:-1]).abs().max()) > 1e-3
