"""One block at one position: lengths, what is added, units and what they push for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from streams import ALL, TRANSLATORS, model_of, traced
from toy import STORY, Pieces, network, words

from budgerigar.errors import UserError
from budgerigar.inspection import (
    attribute_logit,
    block_at,
    edited_network,
    path_of,
    trace,
    without_residual,
    word_changes,
)
from budgerigar.layers.taps import Taps
from budgerigar.models.modes import without_source
from budgerigar.models.worked import apple


@pytest.mark.parametrize("name", ALL)
def test_stages_are_the_stream_and_what_is_added_leads_from_one_to_the_next(name: str) -> None:
    seen = traced(name)
    at = 3
    found = block_at(seen, 1, at)
    stack = f"{found.of}.1"
    np.testing.assert_allclose(found.stages[0].vector, seen.tap(f"{stack}.residual_before")[at])
    np.testing.assert_allclose(found.stages[-1].vector, seen.tap(f"{stack}.residual_after")[at])
    assert found.stages[0].cosine == pytest.approx(1.0)
    for stage in found.stages:
        assert stage.length == pytest.approx(float(np.linalg.norm(stage.vector)))
    expected = ["self-attention", "feed-forward"]
    if name in TRANSLATORS:
        expected.insert(1, "cross-attention")
    assert [added.name for added in found.added] == expected
    # the stream before, plus what is added, is the stream after (before a post norm)
    vectors = [stage.vector for stage in found.stages]
    if found.parallel:
        whole = vectors[0] + found.added[0].vector + found.added[1].vector
        np.testing.assert_allclose(whole, vectors[1], rtol=1e-4, atol=1e-5)
        return
    steps = 2 if found.place == "post" else 1
    for number, added in enumerate(found.added):
        before, after = vectors[steps * number], vectors[steps * number + 1]
        whole = before + added.vector if found.residual else added.vector
        np.testing.assert_allclose(whole, after, rtol=1e-4, atol=1e-4)
        unit = before / np.linalg.norm(before)
        assert added.along == pytest.approx(float(added.vector @ unit))
        assert added.before == pytest.approx(float(np.linalg.norm(before)))
        assert added.cosine == pytest.approx(added.along / added.length)


@pytest.mark.parametrize("name", ALL)
def test_what_all_units_push_for_is_the_feed_forwards_part_of_the_logit(name: str) -> None:
    seen = traced(name)
    at, token, layer = 4, 2, 1
    found = block_at(seen, layer, at, units=10**6, words=10**6)
    assert len(found.units) == found.n_units == seen.network.config.ff_width
    pushed = sum(dict((*u.up, *u.down)).get(token, 0.0) for u in found.units)
    path = path_of(seen, at)
    stack = seen.network.decoder if seen.network.decoder is not None else seen.network.encoder
    bias = list(stack.blocks())[layer].feed_forward.down.bias
    if bias is not None:
        vector = bias.detach().double().numpy()[None]
        pushed += float(word_changes(path, path.push(layer, "feed_forward", vector))[0, token])
    part = next(p for p in attribute_logit(seen, at, token).parts if p.name == "L1 feed-forward")
    assert pushed == pytest.approx(part.logit, rel=1e-4, abs=1e-4)
    lengths = [unit.length for unit in found.units]
    assert lengths == sorted(lengths, reverse=True)


def test_units_of_a_hand_made_feed_forward() -> None:
    """Without norms, one unit writes 2 times the embedding of token 7: it pushes for token 7."""
    tokenizer = words()
    model = network(tokenizer.vocab_size, activation="relu", final_norm=False, ff_bias=True)
    block = list(model.decoder.blocks())[1]
    with torch.no_grad():
        block.feed_forward.up.weight.zero_()
        block.feed_forward.up.bias.fill_(-1.0)  # silent
        block.feed_forward.up.bias[5] = 2.0
        block.feed_forward.down.weight[:, 5] = model.embedding.tokens.weight[7]
    found = block_at(trace(model, tokenizer, STORY), 1, 3, units=2, words=3)
    row = model.embedding.tokens.weight.detach().double().numpy()
    changes = 2.0 * row @ row[7]
    assert found.silent == found.n_units - 1
    assert found.units[0].number == 5
    assert found.units[0].value == 2.0
    assert found.units[0].length == pytest.approx(2 * float(np.linalg.norm(row[7])))
    order = np.argsort(-changes)
    assert [token for token, _ in found.units[0].up] == list(order[:3])
    assert found.units[0].up[0][1] == pytest.approx(float(changes.max()))
    assert [token for token, _ in found.units[0].down] == list(order[::-1][:3])
    assert found.units[1].value == 0.0
    assert found.units[1].up == found.units[1].down == ()


def test_the_apples_one_unit_speaks_for_tech_and_against_fruit() -> None:
    model = apple()
    ids = model.ids("the dear black apple")[0].tolist()
    tokenizer = Pieces([word.encode() for word in model.words[1:]], kind="word")
    unit = block_at(trace(model.network, tokenizer, ids), 0).units[0]
    assert unit.value == pytest.approx(0.5, abs=1e-4)
    assert unit.up[0] == (model.words.index("tech"), pytest.approx(0.35, abs=1e-4))
    assert unit.down[0] == (model.words.index("fruit"), pytest.approx(-0.5, abs=1e-4))


@pytest.mark.parametrize("name", ALL)
def test_without_the_residual_of_a_layer(name: str) -> None:
    """The same as a model whose one block adds nothing to what it read, by its own switch."""
    model = model_of(name)
    seen = traced(name, model)
    found = without_residual(seen, 1)
    stack = model.decoder if model.decoder is not None else model.encoder
    block = list(stack.blocks())[1]
    had, taps = block.residual, Taps((f"{block.name}.residual_after",))
    if block.parallel:  # its switch is refused by the configuration; by hand instead
        values = seen.values(f"{block.name}.*.output")
        whole = sum(
            values[f"{block.name}.{part}.output"] for part in ("self_attention", "feed_forward")
        )
        np.testing.assert_allclose(found.after, whole, atol=1e-5)
        return
    block.residual = False
    with torch.no_grad():
        logits = model(**seen.inputs, taps=taps)
    block.residual = had
    assert found.logits is not None
    torch.testing.assert_close(found.logits, logits[0], rtol=1e-5, atol=1e-5)
    own = taps.values[f"{block.name}.residual_after"][0].numpy()
    np.testing.assert_allclose(found.after, own, rtol=1e-5, atol=1e-5)
    assert found.divergence is not None
    if had:
        assert found.divergence.max() > 1e-3
        assert found.cosine.min() < 0.999
    else:
        assert found.divergence.max() < 1e-6
    with torch.no_grad():  # the model itself is as before
        assert torch.equal(model(**seen.inputs)[0], seen.logits)


def test_views_and_the_other_stack() -> None:
    model = model_of("translator, post")
    seen = traced("translator, post", model)
    encoder = block_at(seen, 0, -1, of="encoder")
    assert encoder.position == len(seen.source_ids) - 1
    assert encoder.units[0].up == ()  # an encoder's vectors are not multiplied with the words
    assert len(encoder.added) == 2
    assert without_residual(seen, 0, of="encoder").after.shape == (len(seen.source_ids), 16)
    off = traced("translator, post", edited_network(model, "L1.H0", kind="self", of="decoder"))
    assert without_residual(off, 1).after.shape == (len(seen), 16)
    blank = traced("translator, post", without_source(model))
    assert block_at(blank, 1, 2).added[1].length == 0
    assert block_at(blank, 1, 2).added[1].cosine == 0


def test_mistakes() -> None:
    seen = traced("pre")
    with pytest.raises(UserError, match="layers 0 to 1"):
        block_at(seen, 2)
    with pytest.raises(UserError, match="no position 99"):
        block_at(seen, 0, 99)
    with pytest.raises(UserError, match="no 'encoder'"):
        block_at(seen, 0, of="encoder")
    with pytest.raises(UserError, match="the source has positions"):
        block_at(traced("translator, post"), 0, 50, of="encoder")
