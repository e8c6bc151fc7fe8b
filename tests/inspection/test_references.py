"""Means over other texts stand for heads of translators and encoders: against hand-made weights."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from viewed import (
    PAIR,
    SOURCE,
    STORY,
    TARGET,
    encoder,
    look,
    recurrent_translator,
    tokenizer,
    translator,
    view,
)

from budgerigar.errors import UserError
from budgerigar.inspection import edited_network
from budgerigar.inspection.editing import Reference
from budgerigar.inspection.pair_traces import pair_inputs, trace_pair
from budgerigar.inspection.passes import run, run_together
from budgerigar.inspection.references import of_sources, usual
from budgerigar.inspection.role_probes import Reader
from budgerigar.inspection.views import look_at

KINDS = [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")]
BPE = tokenizer("bpe")
END = BPE.end_id
PAIRS = [("轩辕有", "Xuanyuan has"), (SOURCE, TARGET), ("有一只", "a")]


def passes(model: Any) -> list[dict[str, torch.Tensor]]:
    return [pair_inputs(model, [*BPE.encode(s), END], [END, *BPE.encode(t)]) for s, t in PAIRS]


def alone(model: Any, name: str) -> np.ndarray:
    """(H,R,E): a head output of each pair read by itself, one after the other, end rows too."""
    found = []
    for source, target in PAIRS:
        seen = trace_pair(model, BPE, source, target, source_tokenizer=BPE)
        found.append(seen.tap(name))
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize(
    "make", [translator, lambda: translator(positions="relative"), recurrent_translator]
)
def test_several_texts_in_one_pass_are_as_if_each_were_alone(make: Any) -> None:
    model = make().network
    given = passes(model)
    for inputs, (logits, values) in zip(given, run_together(model, given), strict=True):
        own, recorded = run(model, inputs, ())
        torch.testing.assert_close(logits, own, rtol=1e-4, atol=1e-4)
        assert values.keys() == recorded.keys()
        for name, value in recorded.items():
            torch.testing.assert_close(values[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("of", "kind"), KINDS)
def test_a_translators_mean_is_a_constant_in_place_of_its_columns(of: str, kind: str) -> None:
    """Without the head's columns of W_O, and what they make of the mean put into the bias."""
    model = translator().network
    layer, head, width = 1, 2, model.config.head_width
    name = f"{of}.{layer}.{kind}_attention"
    mean = alone(model, f"{name}.head_output")[head].mean(axis=0)  # over all positions of all pairs
    other = copy.deepcopy(model)
    columns = slice(head * width, (head + 1) * width)
    with torch.no_grad():
        output: Any = other.get_submodule(f"{of}.{layer}.{kind}_attention").output
        output.bias += output.weight[:, columns] @ torch.tensor(mean)
        output.weight[:, columns] = 0
        reference = Reference(passes(model), "three pairs")
        edited = edited_network(model, f"L{layer}.H{head}", "mean", of=of, kind=kind,
                                reference=reference)  # fmt: skip
        source = torch.tensor([[*BPE.encode(SOURCE), END]])
        tokens = torch.tensor([[END, *BPE.encode(TARGET)]])
        expected = other(tokens, source=source)
        assert not torch.allclose(model(tokens, source=source), expected, atol=1e-3)
        torch.testing.assert_close(edited(tokens, source=source), expected, rtol=1e-4, atol=1e-4)
        state, parts = edited.start(1, source=source), []
        for t in range(tokens.shape[1]):
            logits, state = edited.step(tokens[:, t : t + 1], state)
            parts.append(logits)
        torch.testing.assert_close(torch.stack(parts, 1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("of", "kind"), KINDS)
def test_resample_takes_the_same_position_of_one_pair_after_the_other(of: str, kind: str) -> None:
    model = translator().network
    name = f"{of}.0.{kind}_attention.head_output"
    taken = alone(model, name)[1]
    reference = Reference(passes(model), "three pairs")
    edited = edited_network(model, "L0.H1", "resample", of=of, kind=kind, reference=reference)
    assert edited.edit.positions == len(taken)
    seen = trace_pair(edited, BPE, SOURCE, TARGET, source_tokenizer=BPE)
    shown = seen.tap(name)[1]
    for position, output in enumerate(shown):
        np.testing.assert_allclose(output, taken[position % len(taken)], rtol=1e-4, atol=1e-5)


def test_additive_attention_has_a_mean_and_no_same_position() -> None:
    model = recurrent_translator().network
    name = "decoder.0.cross_attention.head_output"
    mean = alone(model, name)[0].mean(axis=0)
    reference = Reference(passes(model), "three pairs")
    edited = edited_network(model, "L0.H0", "mean", reference=reference)
    seen = trace_pair(edited, BPE, SOURCE, TARGET, source_tokenizer=BPE)
    np.testing.assert_allclose(seen.tap(name)[0], np.tile(mean, (len(seen), 1)), rtol=1e-4)
    with pytest.raises(UserError, match="no same position"):
        edited_network(model, "L0.H0", "resample", reference=reference)


def test_what_is_read_where_nobody_says() -> None:
    model = translator().network
    reader = Reader(model, BPE, BPE)
    found = usual(reader)
    assert usual(reader) is found  # as long as the weights stay
    with torch.no_grad():
        next(model.parameters()).mul_(1.0)
    assert usual(reader) is not found
    assert "sources of random tokens and the model's own translations" in found.words
    assert all(int(inputs["source"][0, -1]) == END for inputs in found.passes)  # its <end>
    assert all(int(inputs["tokens"][0, 0]) == END for inputs in found.passes)
    given = of_sources(reader, f"{SOURCE}\n\n轩辕有\n")
    assert given.words == "2 given sources and the model's own translations"
    own = trace_pair(model, BPE, SOURCE, None, source_tokenizer=BPE,
                     options=None)  # fmt: skip
    assert given.passes[0]["source"].tolist() == [own.source_ids]
    with pytest.raises(UserError, match="empty"):
        of_sources(reader, "\n")
    with pytest.raises(UserError, match="reads a source and a translation"):
        edited_network(model, "L0.H0", "mean", of="encoder", kind="self", reference=[1, 2])


def test_the_view_says_over_which_positions() -> None:
    model = translator()
    for of, side in (("encoder", "source"), ("decoder", "translation")):
        asked = {**PAIR, "off": ["L1.H0"], "of": of, "kind": "self", "how": "mean"}
        found = view(look_at(model, asked), "off")
        assert found["reference"]["of"] == side
        assert found["reference"]["positions"] > 0
        assert found["loss"]["after"] != found["loss"]["before"]
    zero = view(look_at(model, {**PAIR, "off": ["L1.H0"], "of": "encoder", "kind": "self"}), "off")
    assert zero["reference"] is None
    own = view(look_at(encoder(), {"text": STORY, "off": ["L1.H0"], "how": "mean"}), "off")
    assert own["reference"]["of"] == "text"
    written = view(look_at(look("decoder").model, {"text": STORY, "off": ["L1.H0"], "how": "mean"}),
                   "off")  # fmt: skip
    assert written["reference"]["texts"] == "a text that the model wrote itself"
