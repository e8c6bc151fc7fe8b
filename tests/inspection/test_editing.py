"""Heads switched off: exactly those, in every kind of pass, and the original untouched."""

from __future__ import annotations

import copy

import pytest
import torch
from toy import STORY, network, words

from budgerigar.errors import UserError
from budgerigar.inspection import edited_network, edited_taps, trace
from budgerigar.inspection.editing import plan_edit
from budgerigar.layers.taps import Taps
from budgerigar.models.transformer import Transformer


@pytest.fixture
def model() -> Transformer:
    return network(words().vocab_size, n_kv_heads=2)


TOKENS = torch.tensor([words().encode(STORY)])


def without_columns(model: Transformer, layer: int, heads: list[int]) -> Transformer:
    """The same model whose W_O ignores some heads: another way to switch them off."""
    other = copy.deepcopy(model)
    width = model.config.head_width
    with torch.no_grad():
        output = list(other.decoder.blocks())[layer].self_attention.output.weight
        for head in heads:
            output[:, head * width : (head + 1) * width] = 0
    return other


@pytest.mark.parametrize(("off", "layer", "heads"), [
    (["L1.H2"], 1, [2]), (["L0.H0", "L0.H3"], 0, [0, 3]), ("L1", 1, [0, 1, 2, 3])])  # fmt: skip
def test_zero_is_a_head_without_its_slice_of_the_output(
    model: Transformer, off: list[str], layer: int, heads: list[int]
) -> None:
    with torch.no_grad():
        before = model(TOKENS)
        edited = edited_network(model, off)(TOKENS)
        expected = without_columns(model, layer, heads)(TOKENS)
        torch.testing.assert_close(edited, expected, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(edited, before, atol=1e-3)
        assert torch.equal(model(TOKENS), before)  # the original never changes
        assert torch.equal(model(TOKENS, taps=edited_taps(model, off)), edited)


def test_mean_and_resample_take_from_the_reference(model: Transformer) -> None:
    reference = TOKENS[0, :9].tolist()
    own = trace(model, words(), reference).tap("decoder.1.self_attention.head_output")
    with torch.no_grad():
        seen = {}
        for how in ("mean", "resample"):
            taps = edited_taps(model, "L1.H3", how, reference=reference, record=("*.head_output",))
            model(TOKENS, taps=taps)
            seen[how] = taps.values["decoder.1.self_attention.head_output"][0]
        plain = Taps(record=("*.head_output",))
        model(TOKENS, taps=plain)
    others = plain.values["decoder.1.self_attention.head_output"][0][:3]
    expected = torch.tensor(own[3])
    for position in range(TOKENS.shape[1]):
        torch.testing.assert_close(seen["mean"][3, position], expected.mean(0))
        torch.testing.assert_close(seen["resample"][3, position], expected[position % 9])
    torch.testing.assert_close(seen["mean"][:3], others)


@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
def test_forward_and_steps_agree(model: Transformer, how: str) -> None:
    edited = edited_network(model, ["L0.H1", "L1.H2"], how)  # type: ignore[arg-type]
    with torch.no_grad():
        whole = edited.forward(TOKENS)
        for sizes in ([24], [1] * 24, [7, 1, 16]):
            state, parts, at = edited.start(1), [], 0
            for size in sizes:
                logits, state = edited.step(TOKENS[:, at : at + size], state, all_positions=True)
                parts.append(logits)
                at += size
            torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-4)


def test_ragged_rows_resample_at_their_own_positions(model: Transformer) -> None:
    edited = edited_network(model, "L0.H1", "resample")
    rows = torch.stack([TOKENS[0, :6], TOKENS[0, 3:9]])
    with torch.no_grad():
        _, state = edited.step(rows, edited.start(2), lengths=torch.tensor([2, 5]))
        logits, _ = edited.step(TOKENS[0, 10:12].repeat(2, 1), state)
        for row, length in enumerate((2, 5)):
            line = torch.cat([rows[row, :length], TOKENS[0, 10:12]])[None]
            expected = edited.forward(line)[0, -1]
            torch.testing.assert_close(logits[row], expected, rtol=1e-4, atol=1e-4)


def test_replacing_a_value_and_looking_at_the_same_time(model: Transformer) -> None:
    edited = edited_network(model, replace={"decoder.0.residual_after": torch.zeros_like})
    taps = Taps(record=("decoder.*.residual_*",))
    with torch.no_grad():
        logits = edited.forward(TOKENS, taps=taps)
    assert (taps.values["decoder.0.residual_after"] == 0).all()
    assert (taps.values["decoder.1.residual_before"] == 0).all()
    assert torch.allclose(logits[0, 0], logits[0, 5], atol=1e-5)


def test_a_trace_of_an_edited_view(model: Transformer) -> None:
    tokenizer = words()
    seen = trace(edited_network(model, "L1.H2"), tokenizer, STORY)
    assert (seen.tap("decoder.1.self_attention.head_output")[2] == 0).all()
    assert seen.attention("L0.H0").difference < 1e-5
    assert seen.links("It", "young")[0].untrained is not None


def test_generation_runs_on_an_edited_view(model: Transformer) -> None:
    from budgerigar.generation.generate import generate_ids
    from budgerigar.generation.options import SamplingOptions

    options = SamplingOptions(max_new_tokens=8, temperature=0.0)
    prompt = TOKENS[0, :5].tolist()

    def continuation(network: object) -> list[int]:
        return [event.token for event in generate_ids(network, [prompt], options)]

    edited = edited_network(model, "L1")
    expected = continuation(without_columns(model, 1, [0, 1, 2, 3]))
    assert continuation(edited) == expected


def test_user_mistakes(model: Transformer) -> None:
    for off, message in [("L5.H0", "no layer 5"), ("L0.H7", "no head 7"), ("H1", "no head;")]:
        with pytest.raises(UserError, match=message):
            edited_network(model, off)
    with pytest.raises(UserError, match="zero, mean, resample"):
        edited_network(model, "L0.H0", "off")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="must be a function"):
        edited_network(model, replace={"logits": 3})  # type: ignore[dict-item]
    wrong = edited_network(model, replace={"decoder.9.residual_after": torch.zeros_like})
    with pytest.raises(UserError, match=r"nothing in this model is named 'decoder.9"):
        wrong.forward(TOKENS)
    with pytest.raises(UserError, match="kind='cross'"):
        edited_network(model, "L0.H0", kind="cross")


def test_copies_of_a_view(model: Transformer) -> None:
    edited = edited_network(model, "L0.H1")
    with torch.no_grad():
        for copied in (copy.copy(edited), copy.deepcopy(edited)):
            assert torch.equal(copied(TOKENS), edited(TOKENS))


def test_documents_of_a_reference_do_not_see_each_other(model: Transformer) -> None:
    first, second = [0, *TOKENS[0, :5].tolist()], [0, *TOKENS[0, 7:10].tolist()]

    def outputs(ids: list[int]) -> torch.Tensor:
        edit = plan_edit(model, "L1.H2", "mean", reference=ids, start_id=0)
        return edit.reference["decoder.1.self_attention.head_output"]

    torch.testing.assert_close(outputs(first + second)[:, len(first) :], outputs(second))


def test_the_models_own_text_is_documents() -> None:
    model = network(words().vocab_size, head_bias=True)
    with torch.no_grad():
        model.head.bias[0] = 6.0  # type: ignore[index]
    edit = plan_edit(model, "L1.H2", "mean", start_id=0)
    outputs = edit.reference["decoder.1.self_attention.head_output"]
    assert outputs.shape == (4, 64, 4)
    # a start sees itself alone, so whatever stands before it its output is the same
    starts = (outputs - outputs[:, :1]).abs().amax(dim=(0, 2)) < 1e-6
    assert starts.sum() > 3
    assert starts[0]
