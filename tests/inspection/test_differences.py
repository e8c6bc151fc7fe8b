"""Difference maps of two sentences and of two models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from toy import STORY, chinese, english, network, single_bytes, translator, words

from budgerigar.errors import UserError
from budgerigar.inspection.differences import aligned, compare_heads
from budgerigar.inspection.traces import trace
from budgerigar.text.tokenizers import train_tokenizer

TIRED = " It had green feathers ."
WIDE = " It had young feathers ."


def test_what_corresponds() -> None:
    assert aligned(["a", "b", "c"], ["a", "x", "c"]) == [(0, 0), (1, 1), (2, 2)]
    assert aligned(["a", "b", "c"], ["a", "c"]) == [(0, 0), (2, 1)]
    assert aligned(["a", "b", "c", "d"], ["a", "x", "c", "d"])[1] == (1, 1)
    assert aligned(["a", "b"], ["x", "y", "z"]) == []


def test_two_sentences_in_one_model() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    pair = [trace(model, tokenizer, text) for text in (TIRED, WIDE)]
    found = compare_heads(*pair)
    assert found.units == "tokens"
    assert ("green", "young") in found.rows
    head = found.head("L1.H2")
    expected = pair[1].attention("L1.H2").weights - pair[0].attention("L1.H2").weights
    assert np.allclose(head.map, np.where(found.hidden, 0, expected))
    assert found.hidden[0, 1]  # what comes later is no zero difference
    assert not found.hidden[1, 0]
    # total variation, by hand
    assert head.moved == pytest.approx(0.5 * np.abs(expected).sum(1).mean(), abs=1e-6)
    assert "green/young" in str(found)
    same = compare_heads(pair[0], pair[0])
    assert all(one.moved < 1e-6 for one in same)


def test_a_word_more_moves_the_rest() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    long, short = (trace(model, tokenizer, t) for t in (" he was young .", " he young ."))
    found = compare_heads(long, short)
    assert found.row_places == ((0, 0), (2, 1), (3, 2))
    weights = long.attention("L0.H0").weights, short.attention("L0.H0").weights
    row = found.rows.index(("young", "young"))
    kept = weights[0][2][[0, 2]]  # without the word that the other lacks
    elsewhere = weights[0][2][1]
    expected = 0.5 * (np.abs(weights[1][1][:2] - kept).sum() + elsewhere)
    single = 0.5 * np.abs(found.head("L0.H0").map[row]).sum() + 0.5 * elsewhere
    assert single == pytest.approx(expected, abs=1e-6)


def test_two_models_of_different_tokens_and_shapes() -> None:
    whole, raw = words(), single_bytes()
    text = STORY[:25]
    one = trace(network(whole.vocab_size), whole, text)
    other = trace(network(raw.vocab_size, n_layers=3, n_heads=2), raw, text)
    found = compare_heads(one, other)
    assert found.units == "words"
    assert [a for a, _ in found.rows] == text.split()
    assert [head.name for head in found] == ["L0.H0", "L0.H1", "L1.H0", "L1.H1"]
    assert "L2.H0" in found.alone
    assert "L0.H3" in found.alone
    assert all(0 <= head.moved <= 1 for head in found)


def test_tokenizers_that_change_the_text() -> None:
    whole, raw = (train_tokenizer([STORY], kind=kind) for kind in ("word", "byte"))
    networks = network(whole.vocab_size), network(raw.vocab_size)
    one = trace(networks[0], whole, "he was so young .")  # as one that writes all in small letters
    other = trace(networks[1], raw, "He was very young .")
    found = compare_heads(one, other)
    assert found.units == "words"
    assert found.rows[:3] == (("he", "He"), ("was", "was"), ("so", "very"))
    for units in (None, "words"):  # what stands in the place of a word is another word
        with pytest.raises(UserError, match="most words are not the same"):
            compare_heads(one, trace(networks[1], raw, "1 2 3 young ."), units=units)
    with pytest.raises(UserError, match="most words are not the same"):
        compare_heads(one, other, units="tokens")


def test_cross_attention_and_what_does_not_fit() -> None:
    model = translator()
    pairs = [
        trace(model, english(), target, source="小梅有一只猫", source_tokenizer=chinese())
        for target in ("Mei has a cat", "Mei is a cat")
    ]
    found = compare_heads(*pairs, kind="cross")
    assert (
        (" has", " is") in found.rows
        or ("has", "is") in found.rows
        or any(a != b for a, b in found.rows)
    )
    assert not found.hidden.any()
    with pytest.raises(UserError, match="several kinds"):
        compare_heads(*pairs)
    with pytest.raises(UserError, match="no head L9"):
        found.head("L9.H0")


@pytest.mark.parametrize("dials", [{"sink_logit": True}, {"sink_logit": True, "n_kv_heads": 2}])
def test_a_sink_takes_its_share_in_both(dials: dict[str, Any]) -> None:
    """A row of a model with a sink sums to less than 1: the same text has moved by nothing."""
    tokenizer = words()
    model = network(tokenizer.vocab_size, **dials)
    with torch.no_grad():
        for parameter, value in ((p, 1.5) for n, p in model.named_parameters() if "sink" in n):
            parameter.fill_(value)
    pair = [trace(model, tokenizer, text) for text in (TIRED, WIDE)]
    assert pair[0].attention("L0.H0").weights.sum(1).min() < 0.9
    assert all(one.moved < 1e-6 for one in compare_heads(pair[0], pair[0]))
    both = [one.attention("L1.H2").weights.astype(np.float64) for one in pair]
    sinks = [1 - weights.sum(1, keepdims=True) for weights in both]
    whole = [np.concatenate(parts, axis=1) for parts in zip(both, sinks, strict=True)]
    expected = 0.5 * np.abs(whole[1] - whole[0]).sum(1).mean()
    assert compare_heads(*pair).head("L1.H2").moved == pytest.approx(expected, abs=1e-6)


def test_no_word_is_no_word_in_both() -> None:
    """A start token is part of no word: what rests on it has not moved between equal texts."""
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    seen = trace(model, tokenizer, TIRED, tokenizer.end_id)
    found = compare_heads(seen, seen, units="words")
    assert found.units == "words"
    assert all(one.moved < 1e-6 for one in found)


def test_what_has_no_counterpart_is_named() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    longer = TIRED.replace("green", "young green")
    pair = [trace(model, tokenizer, text) for text in (TIRED, longer)]
    found = compare_heads(*pair)
    assert found.lone_rows == found.lone_columns == ((), ("young",))
    later = np.triu(np.ones_like(found.hidden), 1)
    np.testing.assert_array_equal(found.hidden, later)  # masked in both
    assert not found.once.any()
