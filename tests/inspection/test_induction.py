"""The induction score on matrices made by hand: what a perfect head gets, and what others get."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from budgerigar.inspection.induction import (
    THRESHOLD,
    followers,
    induction_score,
    induction_scores,
    uniform_score,
)


def causal(target: list[int]) -> np.ndarray:
    """Rows that put all their weight on one column each."""
    weights = np.zeros((len(target), len(target)))
    weights[np.arange(len(target)), target] = 1.0
    return weights


@pytest.mark.parametrize("r", [1, 2, 10, 50])
def test_a_perfect_head_on_a_start_and_two_copies_gets_one(r: int) -> None:
    """The trap: a mean over all rows would be r/(2r+1)."""
    ids = [0, *range(1, r + 1), *range(1, r + 1)]
    perfect = causal([0] * (r + 1) + [i + 1 for i in range(1, r + 1)])
    score, rows = induction_score(perfect, ids)
    if r == 1:  # "a a": nothing lies between the two
        assert np.isnan(score)
        assert rows == 0
        return
    assert score == 1.0
    assert rows == r


def test_the_trap_itself() -> None:
    ids = [0, *range(1, 11), *range(1, 11)]
    perfect = causal([0] * 11 + [i + 1 for i in range(1, 11)])
    wanted = followers(ids)
    assert (perfect * wanted).sum() / perfect.sum() == pytest.approx(10 / 21)
    assert induction_score(perfect, ids)[0] == 1.0


def test_by_hand() -> None:
    """a b c a b d a: rows 3 (after a: b at 1), 4 (after b: c at 2), 6 (after a: b at 1 and b at 4)."""
    ids = [5, 6, 7, 5, 6, 8, 5]
    weights = np.zeros((7, 7))
    weights[3, 1], weights[4, 2], weights[6, 1], weights[6, 4] = 0.5, 0.25, 0.1, 0.3
    weights[0, 0] = weights[5, 2] = 1.0  # not eligible: nothing to copy there
    weights[4, 1] = 0.75  # the earlier b itself: a head for duplicates, not for induction
    assert induction_score(weights, ids) == (pytest.approx((0.5 + 0.25 + 0.4) / 3), 3)


def test_heads_that_are_none() -> None:
    ids = [0, *range(1, 6), *range(1, 6)]
    n = len(ids)
    before = causal([0, *range(n - 1)])
    itself = np.eye(n)
    start = causal([0] * n)
    duplicate = causal([0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5])
    for weights in (itself, start, duplicate):
        assert induction_score(weights, ids) == (0.0, 5)
    assert induction_score(before, ids)[0] == 0.0
    assert induction_score(np.eye(4), [3, 3, 3, 3])[0] == 0.0  # itself is no earlier copy


def test_nothing_comes_back() -> None:
    score, rows = induction_score(np.eye(4), [1, 2, 3, 4])
    assert np.isnan(score)
    assert rows == 0
    assert not score >= THRESHOLD


def test_looking_everywhere_alike() -> None:
    """One column of i + 1 in row i of the second copy."""
    r = 8
    ids = [0, *range(1, r + 1), *range(1, r + 1)]
    expected = np.mean([1 / (i + 1) for i in range(r + 1, 2 * r + 1)])
    assert uniform_score(ids) == pytest.approx(expected)


def test_against_loops() -> None:
    """The definition word by word."""
    generator = np.random.default_rng(3)
    ids = generator.integers(0, 6, 30)
    weights = np.tril(generator.random((4, 2, 30, 30)))
    weights /= weights.sum(-1, keepdims=True)
    scores, n = induction_scores(weights, torch.tensor(ids))
    for layer in range(4):
        for head in range(2):
            found = []
            for i in range(30):
                columns = [j + 1 for j in range(i) if ids[j] == ids[i] and j + 1 < i]
                if columns:
                    found.append(sum(weights[layer, head, i, c] for c in columns))
            assert n == len(found)
            assert scores[layer, head] == pytest.approx(np.mean(found))


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="for 3 tokens"):
        induction_score(np.eye(4), [1, 2, 1])
    with pytest.raises(ValueError, match="one head's"):
        induction_score(np.zeros((2, 3, 3)), [1, 2, 1])
    with pytest.raises(ValueError, match="one row of token ids"):
        followers([[1, 2]])
