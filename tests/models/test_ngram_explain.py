from __future__ import annotations

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram import NgramModel


def model(smoothing: str = "kneser-ney", end_id: int | None = 0) -> NgramModel:
    tokens = np.random.default_rng(0).choice(7, 600, p=[0.1, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1])
    return NgramModel.fit(tokens, NgramConfig(7, 4, smoothing), end_id)  # type: ignore[arg-type]


@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell"])
def test_the_steps_lead_to_the_probability(smoothing: str) -> None:
    ngram = model(smoothing)
    for context in ([1, 2, 3], [1], [], [6, 6, 6, 6, 5], [3, 0, 1], [1, 2, 0]):
        for token in range(7):
            told = ngram.explain(context, token)
            nats = ngram.score(np.array([*context, token]))[0][-1]
            assert told.probability == pytest.approx(np.exp(-nats), rel=1e-9)
            below = told.uniform
            for step in reversed(told.steps):
                assert step.probability == pytest.approx(step.own + step.weight * below, rel=1e-12)
                below = step.probability
            assert told.steps[0].probability == told.probability


def test_what_was_matched() -> None:
    tokens = np.array([1, 2, 3, 1, 2, 4, 1, 2, 3])
    ngram = NgramModel.fit(tokens, NgramConfig(6, 3))
    told = ngram.explain([5, 1, 2], 3)
    assert told.context == (1, 2)
    assert told.matched == 2
    longest = told.steps[0]
    assert (longest.order, longest.context, longest.count) == (3, (1, 2), 2)
    assert (longest.total, longest.distinct, longest.discount) == (3, 2, 1.0)
    assert longest.own == pytest.approx((2 - 1) / 3)
    assert longest.weight == pytest.approx((1.0 + 0.5) / 3)
    unknown = ngram.explain([5, 2], 3)
    assert unknown.matched == 1
    assert not unknown.steps[0].known
    assert unknown.steps[0].weight == 1
    assert unknown.probability == unknown.steps[1].probability


def test_contexts_end_where_the_document_opened() -> None:
    told = model().explain([1, 2, 0, 3], 1)
    assert told.context == (0, 3)
    assert [step.order for step in told.steps] == [3, 2, 1]


def test_without_a_token_the_most_probable_one() -> None:
    told = NgramModel.fit(np.array([1, 2] * 9), NgramConfig(3, 3)).explain([2, 1])
    assert told.token == 2


def test_tokens_that_do_not_exist_are_refused() -> None:
    for context, token in (([0, 7], None), ([0], 7), ([-1], 0)):
        with pytest.raises(UserError, match="does not exist"):
            model().explain(context, token)
