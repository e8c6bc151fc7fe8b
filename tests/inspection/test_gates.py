"""Gates against torch.nn and numpy, memory lengths by hand, units that were built to follow a text."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import (
    CHINESE,
    STORY,
    Pieces,
    network,
    one_text,
    recurrent,
    single_bytes,
    torch_layer,
    words,
)

from budgerigar.errors import UserError
from budgerigar.inspection.gates import LayerGates, has_gates, parse_unit
from budgerigar.inspection.gates_text import gate_map, memory_lines, summary, unit_text
from budgerigar.inspection.gates_units import best_properties, followers, properties
from budgerigar.inspection.labels import spell
from budgerigar.inspection.traces import Trace, trace

CELLS = ("lstm", "gru", "elman")
LINES = 'He said "so it is (we see)", and went.\nThen she came\nand saw the sea\n' * 3


def traced(cell: str, text: str = STORY, start_id: int | None = None, **dials: Any) -> Trace:
    reader = words() if text == STORY else single_bytes()
    made = one_text(cell, reader.vocab_size, **dials)
    return trace(made, reader, text, start_id=start_id, name="toy")


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layer", [0, 1])
def test_states_are_those_of_torch(cell: str, layer: int) -> None:
    seen = traced(cell)
    gates = seen.gates(layer)
    below = "decoder.embedding" if layer == 0 else "decoder.0.hidden"
    x = torch.from_numpy(seen.tap(below)).double()[None]
    twin = torch_layer(cell, list(seen.network.decoder.blocks())[layer])
    with torch.no_grad():
        hidden, last = twin(x)
    np.testing.assert_allclose(gates.values["hidden"], hidden[0], atol=2e-6)
    if cell == "lstm":
        np.testing.assert_allclose(gates.values["cell"][-1], last[1][0, 0], atol=2e-6)
    assert gates.difference < 2e-6


@pytest.mark.parametrize("cell", CELLS)
def test_gates_are_the_papers_equations(cell: str) -> None:
    """In numpy, from zeros on: what one computes is handed to the next."""
    seen = traced(cell)
    gates, block = seen.gates(0), next(iter(seen.network.decoder.blocks()))
    w, b, u, d = (
        p.detach().double().numpy()
        for p in (block.input.weight, block.input.bias, block.hidden.weight, block.hidden.bias)
    )
    h, c = np.zeros(7), np.zeros(7)
    for t, x in enumerate(seen.tap("decoder.embedding").astype(np.float64)):
        into, across = w @ x + b, u @ h + d
        if cell == "lstm":
            i, f, g, o = np.split(into + across, 4)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            g = np.tanh(g)
            c = f * c + i * g
            h = o * np.tanh(c)
            wanted = {
                "input_gate": i,
                "forget_gate": f,
                "output_gate": o,
                "candidate": g,
                "cell": c,
            }
        elif cell == "gru":
            r, z = (1 / (1 + np.exp(-(into + across)[at : at + 7])) for at in (0, 7))
            n = np.tanh(into[14:] + r * across[14:])
            h = (1 - z) * n + z * h
            wanted = {"reset_gate": r, "update_gate": z, "candidate": n}
        else:
            h = np.tanh(into + across)
            wanted = {}
        for name, value in {**wanted, "hidden": h}.items():
            np.testing.assert_allclose(gates.values[name][t], value, atol=5e-6, err_msg=name)


@pytest.mark.parametrize("cell", CELLS)
def test_looking_changes_no_logit(cell: str) -> None:
    seen = traced(cell)
    before = seen.network.forward(torch.tensor([seen.ids]))[0]
    seen.gates(0), seen.gates(1)
    assert torch.equal(seen.logits, before.detach())
    assert torch.equal(seen.network.forward(torch.tensor([seen.ids]))[0], before)


@pytest.mark.parametrize("cell", CELLS)
def test_what_is_kept_and_written_makes_the_memory(cell: str) -> None:
    gates = traced(cell).gates(1)
    kept = 0.0 if gates.kept is None else gates.kept
    whole = kept * gates.memory_before + gates.written
    np.testing.assert_allclose(whole, gates.memory, atol=1e-5)
    np.testing.assert_array_equal(gates.memory_before[0], 0)
    np.testing.assert_array_equal(gates.memory_before[1:], gates.memory[:-1])
    assert np.isnan(gates.kept_share[0])
    if gates.kept is not None:
        stays = np.linalg.norm(gates.kept[1:] * gates.memory[:-1], axis=1)
        share = stays / np.linalg.norm(gates.memory[:-1], axis=1)
        np.testing.assert_allclose(gates.kept_share[1:], share, rtol=1e-5)
        assert (gates.kept_share[1:] < 1).all()


@pytest.mark.parametrize("cell", CELLS)
def test_a_document_begins_with_an_empty_state(cell: str) -> None:
    reader = words()
    ids = [0, *reader.encode("Xuanyuan had"), 0, *reader.encode("Xuanyuan had a")]
    seen = trace(one_text(cell, reader.vocab_size), reader, ids, start_id=0)
    gates, opening = seen.gates(0), 3
    assert ids[opening] == 0
    np.testing.assert_array_equal(gates.memory_before[opening], 0)
    assert gates.difference < 2e-6
    np.testing.assert_allclose(gates.memory[opening], gates.memory[0], atol=1e-6)


def test_one_token_and_an_edited_one_text() -> None:
    from budgerigar.inspection.editing import EditedNetwork, plan_edit

    reader = words()
    made = one_text("lstm", reader.vocab_size)
    assert trace(made, reader, "Xuanyuan").gates(0).difference < 2e-6
    edit = plan_edit(made, (), "zero", replace={"decoder.0.forget_gate": torch.ones_like})
    gates = trace(EditedNetwork(made, edit), reader, STORY).gates(0)
    np.testing.assert_array_equal(gates.values["forget_gate"], 1)  # shown is what was used …
    assert gates.difference > 0.01  # … and that it is not what the weights say


def by_hand(kind: str = "lstm", **values: Any) -> LayerGates:
    """Gates (T,H) of given values; what is not given is 0.5."""
    shape = next(iter(values.values())).shape
    names = {
        "lstm": ("input_gate", "forget_gate", "candidate", "output_gate", "cell", "hidden"),
        "gru": ("reset_gate", "update_gate", "candidate", "hidden"),
        "elman": ("hidden",),
    }[kind]
    full = {name: np.asarray(values.get(name, np.full(shape, 0.5)), np.float32) for name in names}
    memory = full["cell" if kind == "lstm" else "hidden"]
    before = np.concatenate([np.zeros((1, shape[1]), np.float32), memory[:-1]])
    text = values.pop("text", None) or "x" * shape[0]
    reader = single_bytes()
    spelling = spell(reader, reader.encode(text))
    assert len(spelling) == shape[0]
    cell = before if kind == "lstm" else None
    return LayerGates(0, 1, kind, full, before, cell, 0.0, spelling, "by hand")


def test_memory_lengths() -> None:
    forget = np.stack([np.full(10, 0.9), np.full(10, 0.5), np.ones(10), np.zeros(10)], axis=1)
    forget[5, 0] = 0.9
    gates = by_hand(forget_gate=forget)
    lengths = gates.memory_lengths
    np.testing.assert_allclose(lengths[:2], [-1 / math.log(0.9), 1 / math.log(2)], rtol=1e-5)
    assert lengths[2] > 1e8
    assert lengths[3] == 0
    assert gates.order.tolist() == [2, 0, 1, 3]
    assert "longest: U2 ∞, U0 9.5, U1 1.4" in memory_lines(gates)[1]
    # kept for ten tokens and emptied once: about ten tokens, though a product of gates would be 0
    emptied = np.ones((10, 1))
    emptied[4] = 0
    assert by_hand("gru", update_gate=emptied).memory_lengths[0] == pytest.approx(9.49, abs=0.01)
    steady = np.array([[1.0, 1], [1, -1], [1, 1], [1, -1], [1, 1], [1, -1]])
    steady[3:, 0] = -1
    assert by_hand("elman", hidden=steady).order.tolist() == [0, 1]
    fleeting = by_hand("elman", hidden=np.tile(steady[:, 1:], (1, 4)))
    said = memory_lines(fleeting)[1]
    assert "half of the units without any, a tenth with hardly any; longest: U0 0" in said


def test_properties_stand_after_each_token() -> None:
    found = properties(spell(single_bytes(), single_bytes().encode('a (B) "c"\n\nd. e')))
    assert found["characters since the line began"].tolist() == [*range(1, 10), 0, 0, 1, 2, 3, 4]
    assert found["inside brackets"].tolist() == [0, 0, 1, 1, 0, *[0] * 10]
    assert found["inside quotes"].tolist() == [0] * 6 + [1, 1] + [0] * 7
    assert found["capital letter"].tolist() == [0, 0, 0, 1] + [0] * 11
    assert found["letters since the word began"].tolist()[:4] == [1, 0, 0, 1]
    pieces = Pieces([b"a (", b"B) ", b"c"])
    two = properties(spell(pieces, pieces.encode("a (B) ")))
    assert two["inside brackets"].tolist() == [1, 0]


def test_a_unit_that_follows_the_line_is_found() -> None:
    generator = np.random.default_rng(5)
    place = properties(spell(single_bytes(), single_bytes().encode(LINES)))
    line = place["characters since the line began"]
    noise = generator.normal(size=(len(line), 40)) * 0.3
    plain = by_hand("gru", hidden=np.tanh(noise), text=LINES)
    assert not any(one.is_more for one in followers(plain))
    built = noise.copy()
    built[:, 17] -= line / 20
    gates = by_hand("gru", hidden=np.tanh(built), text=LINES)
    found = {one.follows: one for one in followers(gates)}["characters since the line began"]
    assert found.unit == 17
    assert found.is_more
    assert found.correlation < -0.7
    best = best_properties(gates)[17]
    assert best is not None
    assert best[0] == "characters since the line began"
    assert "L0.U17, correlation -0." in summary(gates, depth="none")
    short = by_hand("gru", hidden=np.tanh(built[:20]))
    assert followers(short) == []
    assert best_properties(short)[0] is None


def test_names() -> None:
    gates = traced("lstm").gates(0)
    assert gates.part("Forget") == gates.part("forget-gate") == "forget_gate"
    with pytest.raises(
        UserError, match="this GRU has no 'forget'; it has reset, update, candidate"
    ):
        traced("gru").gates(0).part("forget")
    assert parse_unit("l0.u6", 2, 7) == (0, 6)
    for wrong, why in (("L2.U0", "layers L0 to L1"), ("L0.U7", "U0 to U6"), ("U7", "no unit")):
        with pytest.raises(UserError, match=why):
            parse_unit(wrong, 2, 7)
    with pytest.raises(UserError, match="U0 to U6"):
        gates.unit(7)
    with pytest.raises(UserError, match="layers 0 to 1"):
        traced("lstm").gates(2)


def test_other_models_have_none() -> None:
    transformer = network(words().vocab_size)
    assert not has_gates(transformer)
    assert not has_gates(recurrent())
    with pytest.raises(UserError, match="no recurrent language model"):
        trace(transformer, words(), STORY).gates()


def test_changed_weights_are_noticed() -> None:
    seen = traced("lstm")
    with torch.no_grad():
        next(seen.network.parameters()).mul_(2)
    with pytest.raises(UserError, match="weights changed"):
        seen.gates(0)


# -- pictures --------------------------------------------------------------------------------------
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("text", [STORY, LINES, CHINESE])
def test_terminal(cell: str, text: str) -> None:
    gates = traced(cell, text).gates(1)
    for depth in ("none", "256", "truecolor"):
        page = summary(gates, depth)
        assert "layer L1 of L0 to L1, 7 units" in page
        assert ("\x1b" in page) == (depth != "none" and cell != "elman")
        for part in gates.values:
            drawn = gate_map(gates, part, columns=60, depth=depth)
            rows = [line for line in drawn.split("\n") if line[:1] == " "]
            assert len(rows) % 8 == 0  # labels and seven units, in each panel
        unit = unit_text(gates, 3, columns=60, depth=depth)
        assert "unit L1.U3: memory" in unit
    rows = [line for line in summary(gates, "none").split("\n") if re.match(r" *\d+ ", line)]
    assert len(rows) == min(80, len(gates.labels))


def test_numbers_of_the_table() -> None:
    gates = traced("lstm").gates(0)
    row = next(line for line in summary(gates, "none").split("\n") if line.startswith(" 5 "))
    numbers = [float(number) for number in re.findall(r" (\d+\.\d+)", row)]
    names = ("input_gate", "forget_gate", "output_gate")
    wanted = [float(gates.values[name][5].mean()) for name in names]
    wanted += [float(gates.kept_share[5]), float(np.linalg.norm(gates.values["cell"][5]))]
    np.testing.assert_allclose(numbers[:5], wanted, atol=0.0051)
    change = gates.values["cell"][5] - gates.values["cell"][4]
    most = int(np.abs(change).argmax())
    assert f"U{most} {change[most]:+.2f}" in row


def test_pictures(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gates = traced("lstm").gates(0)
        assert gates.heatmap(tmp_path / "all.png").stat().st_size > 10_000
        assert gates.heatmap(tmp_path / "unit.png", unit=2).stat().st_size > 5_000
        for cell in ("gru", "elman"):
            gates = traced(cell, CHINESE).gates(1)
            assert gates.heatmap(tmp_path / f"{cell}.svg", part="hidden").stat().st_size > 2_000
            assert gates.heatmap(tmp_path / f"{cell}-unit.svg", unit=2).stat().st_size > 2_000


def test_the_heat_map_is_the_data_sorted_by_memory() -> None:
    from budgerigar.inspection.gates_plots import gates_figure

    gates = traced("lstm").gates(0)
    axes = gates_figure(gates, text_only=True).axes
    shown = {a.get_title(loc="left").split(":")[0]: a.images[0] for a in axes if a.images}
    assert list(shown) == ["input", "forget", "candidate", "output", "cell", "hidden"]
    for name, image in shown.items():
        wanted = gates.values[gates.part(name)][:, gates.order].T
        np.testing.assert_array_equal(image.get_array(), wanted)
        low, high = image.get_clim()
        assert (low, high) == (0, 1) if name in ("input", "forget", "output") else low == -high
    means = np.asarray(shown["forget"].get_array()).mean(1)
    assert (np.diff(means) <= 0).all()


def test_characters_stand_upright_and_words_do_not() -> None:
    from budgerigar.inspection.gates_plots import gates_figure

    for text, turned in (("rib\ne", 0), (STORY, 90)):
        shown = [a for a in gates_figure(traced("lstm", text).gates(0)).axes if a.images]
        assert {label.get_rotation() for label in shown[-1].get_xticklabels()} == {turned}
