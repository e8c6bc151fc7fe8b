"""Accuracy, F1, confusions and intervals by hand; the bag of words at its optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from budgerigar.evaluation.bag_of_words import (
    _bags,
    _product,
    features,
    fit_bag_of_words,
    majority_log_p,
)
from budgerigar.evaluation.classes import macro_f1, score_classes, wilson_interval

RIGHT = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 0])
TOLD = np.array([0, 0, 1, 2, 1, 1, 0, 2, 1, 0])


def log_p(told: np.ndarray) -> np.ndarray:
    p = np.full((len(told), 3), 0.1)
    p[np.arange(len(told)), told] = 0.8
    return np.log(p)


def test_scores_by_hand() -> None:
    found = score_classes(log_p(TOLD), RIGHT, ["a", "b", "c"])
    assert found.accuracy == 0.6
    assert found.confusion == ((3, 1, 1), (1, 2, 0), (0, 1, 1))
    a, b, c = found.per_class
    assert (a.precision, a.recall, a.n_texts) == (3 / 4, 3 / 5, 5)
    assert (b.precision, b.recall) == (2 / 4, 2 / 3)
    assert (c.precision, c.recall, c.f1) == (1 / 2, 1 / 2, 1 / 2)
    assert a.f1 == pytest.approx(2 * 0.75 * 0.6 / 1.35)
    assert found.macro_f1 == pytest.approx((a.f1 + b.f1 + c.f1) / 3)
    assert found.nats_per_text == pytest.approx(-(6 * math.log(0.8) + 4 * math.log(0.1)) / 10)
    assert found.macro_f1_low < found.macro_f1 < found.macro_f1_high
    assert found.confusions(9)[0] in [("a", "b", 1), ("a", "c", 1)]
    page = found.text()
    assert "60.0 %" in page
    assert "told as" in page


def test_a_class_that_never_occurs_does_not_count() -> None:
    confusion = np.array([[2, 0, 0], [0, 3, 0], [0, 0, 0]])
    assert macro_f1(confusion) == 1.0
    assert macro_f1(np.array([[2, 0, 1], [0, 3, 0], [0, 0, 0]])) == pytest.approx((0.8 + 1 + 0) / 3)


def test_wilsons_interval() -> None:
    """The values of the formula for 0 of 10 and 8 of 10, worked out by hand."""
    z2 = 1.959963984540054**2
    low, high = wilson_interval(0, 10)
    assert low == 0.0
    assert high == pytest.approx(z2 / (10 + z2))
    low, high = wilson_interval(8, 10)
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0)


TEXTS = ["a good film", "a bad film", "good , good !", "bad play", "the play", "a film"] * 4
LABELS = np.array([1, 0, 1, 0, 2, 2] * 4)


def test_features_are_words_and_pairs() -> None:
    assert features("The film, the FILM") == [
        "the", "film", ",", "the", "film", "the film", "film ,", ", the", "the film",
    ]  # fmt: skip
    assert features("诗人 sings") == ["诗", "人", "sings", "诗 人", "人 sings"]


def test_the_bag_of_words_stands_at_the_minimum_of_its_loss() -> None:
    """The gradient of loss and penalty, in float64 over dense vectors made here, is nothing."""
    penalty = 1e-2
    bag = fit_bag_of_words(TEXTS, LABELS, 3, penalty=penalty, steps=200)
    dense = np.zeros((len(TEXTS), len(bag.columns)))
    for row, text in enumerate(TEXTS):
        for feature in set(features(text)):
            if feature in bag.columns:
                own = sum(feature in features(other) for other in TEXTS)
                dense[row, bag.columns[feature]] = 1 + math.log(len(TEXTS) / own)
        dense[row] /= np.linalg.norm(dense[row])
    x, w, b = torch.from_numpy(dense), bag.weights.double(), bag.bias.double()
    w, b = w.requires_grad_(), b.requires_grad_()
    loss = torch.nn.functional.cross_entropy(x @ w + b, torch.from_numpy(LABELS))
    (loss + penalty * w.square().sum()).backward()
    assert w.grad is not None
    assert b.grad is not None
    assert float(w.grad.abs().max()) < 1e-4
    assert float(b.grad.abs().max()) < 1e-4
    expected = (x @ w + b).log_softmax(-1).detach().numpy()
    np.testing.assert_allclose(bag.log_p(TEXTS), expected, rtol=1e-4, atol=1e-5)
    again = fit_bag_of_words(TEXTS, LABELS, 3, penalty=penalty, steps=200)
    assert torch.equal(bag.weights, again.weights)


def test_a_text_of_unknown_words_gets_the_bias_alone() -> None:
    bag = fit_bag_of_words(TEXTS, LABELS, 3)
    found = _product(_bags(["xyz", "good film"], bag.columns, bag.rarity), bag.weights)
    assert not found[0].any()
    assert bag.log_p(["a good thing"]).argmax() == 1


def test_the_majority_knows_the_shares() -> None:
    found = majority_log_p(LABELS, 3, 2)
    assert found.shape == (2, 3)
    np.testing.assert_allclose(np.exp(found[0]), [1 / 3] * 3)
