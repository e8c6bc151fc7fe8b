"""Ranking heads by a link, and what it is compared with, on hand-made numbers."""

from __future__ import annotations

import numpy as np
import pytest
from toy import STORY, Pieces, network, words

from budgerigar.errors import UserError
from budgerigar.inspection import trace
from budgerigar.inspection.links import link_weight, same_distance, untrained_copy


def test_columns_are_summed_and_rows_averaged() -> None:
    weights = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.2, 0.7, 0], [0.2, 0.3, 0.4, 0.1]])
    assert link_weight(weights, [2, 3], [0, 1]) == pytest.approx((0.3 + 0.5) / 2)


def test_same_distance_is_the_mean_of_the_other_pairs() -> None:
    weights = np.arange(25, dtype=float).reshape(5, 5)
    visible = np.tril(np.ones((5, 5), dtype=bool))
    mean, pairs = same_distance(weights, visible, [4], [2])  # two back: (2,0) and (3,1) besides
    assert (mean, pairs) == ((10 + 16) / 2, 2)
    assert same_distance(weights, visible, [4], [0]) == (None, 0)
    # a word of two tokens, one back: blocks at rows 1-2 (columns 0-1)
    mean, pairs = same_distance(weights, visible, [3, 4], [1, 2])
    assert pairs == 1
    assert mean == pytest.approx(((10 + 11) + (15 + 16)) / 2)


def test_masked_places_do_not_count() -> None:
    weights = np.ones((5, 5))
    visible = np.tril(np.ones((5, 5), dtype=bool))
    visible[3, 1] = False
    assert same_distance(weights, visible, [4], [2])[1] == 1


def test_a_head_that_always_looks_two_back_is_shown_up_by_distance() -> None:
    weights = np.eye(8, k=-2)
    weights[:2, 0] = 1
    visible = np.tril(np.ones((8, 8), dtype=bool))
    assert link_weight(weights, [7], [5]) == 1.0
    assert same_distance(weights, visible, [7], [5])[0] == 1.0


def test_links_of_a_trace() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY, start_id=0)
    links = seen.links("remembered", "budgerigar", key_occurrence=1)
    assert len(links) == 8
    values = [link.weight for link in links]
    assert values == sorted(values, reverse=True)
    row, column = seen.labels.index("remembered"), seen.labels.index("budgerigar")
    for link in links:
        head = seen.attention(link.name)
        assert link.weight == pytest.approx(float(head.weights[row, column]))
        assert link.uniform == pytest.approx(1 / (row + 1))
        others = np.diag(head.weights, column - row)
        expected = (others.sum() - head.weights[row, column]) / (len(others) - 1)
        assert link.distance == pytest.approx(float(expected), rel=1e-5)
        assert link.rank == 1 + (head.weights[row] > head.weights[row, column]).sum()
    text = str(links)
    assert "“remembered” (position 18) looks at “budgerigar” (position 4)" in text
    assert links[0].name in text


def test_untrained_copy_has_the_same_shape_and_other_weights() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    seen = trace(model, tokenizer, STORY)
    fresh = untrained_copy(seen, seed=5)
    assert fresh.names() == seen.names()
    assert fresh.attention("L0.H0").difference < 1e-5
    assert not np.allclose(fresh.attention("L0.H0").weights, seen.attention("L0.H0").weights)
    link = seen.links("It", "young")[0]
    same = untrained_copy(seen).attention(link.name)
    place = seen.labels.index("It"), seen.labels.index("young")
    assert link.untrained == pytest.approx(float(same.weights[place]))
    assert seen.links("It", "young", untrained=False)[0].untrained is None


def test_words_of_several_tokens() -> None:
    tokenizer = Pieces([b"a", b" bud", b"ger", b"igar", b" flew", b" aw", b"ay"])
    seen = trace(network(tokenizer.vocab_size), tokenizer, "a budgerigar flew away")
    link = seen.links("away", "budgerigar")[0]
    weights = seen.attention(link.name).weights
    assert link.weight == pytest.approx(float(weights[5:7, 1:4].sum(axis=1).mean()))


def test_looking_ahead_and_twice_are_errors() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY)
    with pytest.raises(UserError, match="comes later"):
        seen.links("young", "feathers")
    with pytest.raises(UserError, match="position 3"):
        seen.links("remembered", "budgerigar")
