"""Positions: tables against their formulas, sliding and shuffling against what theory says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from streams import filled
from toy import STORY, chinese, english, network, one_text, translator, words

from budgerigar.errors import UserError
from budgerigar.inspection import (
    distance_bias,
    position_table,
    rotary_turns,
    shuffle,
    sinusoid_table,
    slide,
    trace,
    wavelengths,
)
from budgerigar.inspection.pair_traces import trace_pair
from budgerigar.inspection.position_views import most_slide
from budgerigar.inspection.traces import Trace
from budgerigar.layers.config import LayerPattern, RotaryScaling, TransformerConfig


def seen(**dials: Any) -> Trace:
    tokenizer = words()
    model = filled(network(tokenizer.vocab_size, **{"context_length": 200, **dials}))
    start = None if dials.get("assembly") == "encoder-only" else 0
    return trace(model, tokenizer, STORY, start_id=start)


@pytest.mark.parametrize("layout", ["interleaved", "split"])
def test_the_sinusoid_table_is_the_papers_formula(layout: Any) -> None:
    config = TransformerConfig(d_model=12, sinusoid_layout=layout)
    table = sinusoid_table(config, 40)
    for position in (0, 1, 17, 39):
        for i in range(6):
            angle = position / 10_000 ** (2 * i / 12)
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, 6 + i)
            assert table[position, sine] == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, cosine] == pytest.approx(math.cos(angle), abs=1e-5)
    assert wavelengths(config)[0] == pytest.approx(2 * math.pi)
    assert wavelengths(config)[3] == pytest.approx(2 * math.pi * 100)
    with pytest.raises(UserError, match="odd"):
        sinusoid_table(TransformerConfig(d_model=15, n_heads=3), 4)


def test_the_table_that_a_model_adds() -> None:
    learned = network(9, positions="learned", position_offset=2)
    table = position_table(learned, 5)
    np.testing.assert_allclose(table, learned.embedding.positions.weight[2:7].detach().numpy())
    with pytest.raises(UserError, match="learnt 64 positions"):
        position_table(learned, 65)
    wave = network(9, positions="sinusoidal")
    np.testing.assert_allclose(position_table(wave, 3), sinusoid_table(wave.config, 3))
    with pytest.raises(UserError, match="add nothing"):
        position_table(network(9, positions="rotary"), 3)


def test_rotary_pairs_turn_by_position_times_frequency() -> None:
    """And turning a query by them gives the query that the model used."""
    found = seen(positions="rotary", rotary_base=500.0, d_head=8, rotary_fraction=0.5)
    head = found.attention("L1.H2")
    turns = rotary_turns(found.network.config, 1, len(found))
    assert turns.width == 4
    assert turns.d_head == 8
    assert turns.pairs.tolist() == [[0, 2], [1, 3]]
    np.testing.assert_allclose(turns.frequencies, [1.0, 500.0**-0.5])
    np.testing.assert_allclose(turns.wavelengths, 2 * np.pi / turns.frequencies)
    np.testing.assert_allclose(turns.angles[7], 7 * turns.frequencies)
    flat, used = head.queries_unrotated.astype(float), head.queries
    for place in (0, 1, 9):
        for pair, (one, two) in enumerate(turns.pairs):
            turned = complex(flat[place, one], flat[place, two]) * np.exp(
                1j * turns.angles[place, pair]
            )
            assert used[place, one] == pytest.approx(turned.real, abs=1e-5)
            assert used[place, two] == pytest.approx(turned.imag, abs=1e-5)
        np.testing.assert_array_equal(flat[place, 4:].astype(np.float32), used[place, 4:])


def test_rotary_of_a_layer_and_its_scaling() -> None:
    config = TransformerConfig(
        layers=(LayerPattern(rotary_base=100.0), LayerPattern()),
        rotary_scaling=RotaryScaling("linear", factor=4.0),
    )
    slow, fast = rotary_turns(config, 1, 3), rotary_turns(config, 0, 3)
    assert (fast.base, slow.base) == (100.0, 10_000.0)
    np.testing.assert_allclose(slow.frequencies[0], 0.25)
    assert slow.scaling == "linear × 4"
    assert slow.factor == 1.0
    assert rotary_turns(config.replace(rotary_scaling=None)).scaling is None
    with pytest.raises(UserError, match="layers 0 to 3"):
        rotary_turns(config, 4)
    with pytest.raises(UserError, match="nothing in it turns"):
        rotary_turns(TransformerConfig(positions="alibi"))


@pytest.mark.parametrize("shared", [True, False])
def test_biases_by_distance_are_what_the_scores_get(shared: bool) -> None:
    for dials in ({"positions": "alibi"}, {"positions": "relative", "relative_shared": shared}):
        found = seen(**dials)
        if "relative_shared" in dials:
            with torch.no_grad():
                for name, weight in found.network.named_parameters():
                    if "relative_bias" in name:
                        weight.copy_(torch.randn(weight.shape))
            found = trace(found.network, words(), STORY, start_id=0)
        bias = distance_bias(found.network, np.arange(8), layer=1)
        assert bias.shape == (4, 8)
        for number in range(4):
            head = found.attention(f"L1.H{number}")
            own = (head.biased - head.capped)[10, 10 - np.arange(8)]
            np.testing.assert_allclose(own, bias[number], atol=1e-5)
    both = seen(positions="relative", assembly="encoder-only")
    assert distance_bias(both.network, np.arange(-3, 4), of="encoder").shape == (4, 7)
    with pytest.raises(UserError, match="no bias"):
        distance_bias(seen().network, np.arange(3))
    with pytest.raises(UserError, match="no layer 7"):
        distance_bias(both.network, np.arange(3), 7, "encoder")


RELATIVE: dict[str, dict[str, Any]] = {
    "rotary": {"positions": "rotary"},
    "rotary, soft-cap, window": {"attention_softcap": 5.0, "attention_window": 6},
    "yarn": {"rotary_scaling": RotaryScaling("yarn", factor=4.0, original_context_length=16)},
    "T5": {"positions": "relative"},
    "alibi": {"positions": "alibi"},
    "none": {"positions": "none"},
    "rotary encoder": {"positions": "rotary", "assembly": "encoder-only"},
}


@pytest.mark.parametrize("name", RELATIVE)
def test_sliding_changes_no_score_of_a_model_that_knows_distances(name: str) -> None:
    found = seen(**RELATIVE[name])
    for by in (100, 1):
        for head in ("L0.H1", "L1.H3"):
            moved = slide(found, head, by)
            assert moved.relative < 1e-4
            assert moved.largest < 1e-4 * max(1.0, float(np.abs(moved.before).max()))
            np.testing.assert_allclose(moved.weights_after, moved.weights_before, atol=1e-4)
            assert moved.logits is not None
            assert moved.logits < 1e-4
    assert most_slide(found) == 1_000_000
    assert slide(found, "L0.H0", 100_000).relative < 1e-4


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_sliding_changes_the_scores_of_a_model_that_knows_places(positions: str) -> None:
    found = seen(positions=positions)
    moved = slide(found, "L0.H1", 100)
    assert moved.relative > 0.05
    assert moved.logits is not None
    assert moved.logits > 0.01
    assert slide(found, "L0.H1", 0).largest == 0
    # by hand: the first layer of the same tokens behind 100 others, which it does not see
    model = found.network
    block = next(iter(model.decoder.blocks()))
    with torch.no_grad():
        at = torch.arange(len(found))[None] + 100
        x = block.attention_norm(model.embedding(torch.tensor([found.ids]), at))
        query, key, _ = block.self_attention.project(x)
        scores = (query[0, 1].double() @ key[0, 1].double().T) / 2.0
    np.testing.assert_allclose(moved.after, scores.numpy(), rtol=1e-4, atol=1e-5)


def test_a_table_of_positions_ends() -> None:
    found = seen(positions="learned", context_length=30)
    most = most_slide(found)
    assert most == 30 - len(found)
    assert slide(found, "L0.H0", most).by == most
    with pytest.raises(UserError, match="positions 0 to 29"):
        slide(found, "L0.H0", most + 1)
    with pytest.raises(UserError, match="slide by 0"):
        slide(found, "L0.H0", -1)


def pair(**dials: Any) -> Trace:
    made = filled(translator(**dials))
    return trace_pair(
        made, english(), "轩辕有一只虎皮鹦鹉", "Xuanyuan has a cat", source_tokenizer=chinese()
    )


def test_of_a_translator_the_target_is_slid() -> None:
    for kind in ("self", "cross"):
        moved = slide(pair(positions="rotary"), "L1.H0", 100, of="decoder", kind=kind)
        assert moved.relative < 1e-4
        assert slide(pair(positions="sinusoidal"), "L1.H0", 100, "decoder", kind).relative > 1e-3
    with pytest.raises(UserError, match="the source stays"):
        slide(pair(), "L1.H0", 100, of="encoder", kind="self")


def test_an_encoder_without_positions_gives_the_same_vectors_permuted() -> None:
    found = shuffle(seen(positions="none", assembly="encoder-only"))
    assert found.largest < 1e-5
    assert not found.positions
    assert sorted(found.order) == list(range(len(found.order)))
    assert (found.order != np.arange(len(found.order))).any()
    assert found.labels == tuple(np.array(STORY.split())[found.order])
    assert shuffle(pair(positions="none")).largest < 1e-5
    assert shuffle(pair(positions="none")).of == "encoder"
    assert shuffle(pair(positions="none")).labels[-1] == "<end>"


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative", "alibi"])
def test_positions_tell_the_orders_apart_and_without_them_it_is_a_set(positions: str) -> None:
    encoder = seen(positions=positions, assembly="encoder-only")
    if positions == "relative":
        with torch.no_grad():
            encoder.network.encoder.relative_bias.weight.copy_(torch.randn(32, 4))
        encoder = trace(encoder.network, words(), STORY)
    assert shuffle(encoder).largest > 1e-2
    assert shuffle(encoder).positions
    assert shuffle(encoder, without_positions=True).largest < 1e-5


def test_a_decoder_knows_the_order_from_its_mask_even_without_positions() -> None:
    decoder = seen(positions="none")
    found = shuffle(decoder, seed=3)
    assert found.largest > 1e-2
    assert found.order[0] == 0  # the start token stays
    assert found.apart[0] < 1e-6
    assert not found.positions
    assert (shuffle(decoder, seed=3).order == found.order).all()
    assert (shuffle(decoder, seed=4).order != found.order).any()
    with pytest.raises(UserError, match="from its mask"):
        shuffle(decoder, without_positions=True)


def test_models_without_such_positions() -> None:
    tokenizer = words()
    lstm = trace(one_text("lstm", tokenizer.vocab_size), tokenizer, STORY)
    for ask in (lambda: slide(lstm, "L0.H0"), lambda: shuffle(lstm)):
        with pytest.raises(UserError, match="no residual stream"):
            ask()
    with pytest.raises(UserError, match="no head 9"):
        slide(seen(), "L0.H9")
    alone = trace(network(tokenizer.vocab_size), tokenizer, "Xuanyuan")
    assert shuffle(alone).largest == 0
