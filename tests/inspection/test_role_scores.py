"""The definitions of head roles, on matrices made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from budgerigar.inspection import role_patterns as patterns
from budgerigar.inspection.induction import induction_score
from budgerigar.inspection.role_scores import (
    Eligible,
    RoleCount,
    confidence,
    entropy,
    role_scores,
    sink_share,
    uniform_weights,
)

N = 9
CAUSAL = np.tri(N, dtype=bool)
BOTH = np.ones((N, N), dtype=bool)
IDS = [7, 3, 5, 1, 3, 5, 1, 9, 3]  # 3 5 1 comes back


def _roles(causal: bool) -> dict[str, np.ndarray]:
    found = {
        "previous": patterns.at_offset(N, 1),
        "self": patterns.at_offset(N, 0),
        "first": patterns.at_column((N, N), 0),
        "duplicate": patterns.duplicates(IDS, causal),
        "induction": patterns.after_duplicates(IDS, causal),
        "links": patterns.linked((N, N), [(4, 1), (6, 2), (6, 3)]),
    }
    return found if causal else {**found, "next": patterns.at_offset(N, -1)}


def _perfect(right: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """A head that looks at right columns alone; at the last it sees where nothing is right."""
    wanted = uniform_weights(right & visible)
    blind = wanted.sum(-1) == 0
    wanted[blind] = uniform_weights(visible)[blind]
    return wanted


@pytest.mark.parametrize("visible", [CAUSAL, BOTH], ids=["causal", "both"])
def test_a_perfect_head_scores_one_and_a_uniform_head_its_null(visible: np.ndarray) -> None:
    for name, right in _roles(visible is CAUSAL).items():
        heads = np.stack([_perfect(right, visible), uniform_weights(visible)])
        found = role_scores(heads, right, visible)
        assert found.score[0] == 1.0, name
        assert found.recall[0] == found.precision[0] == 1.0, name
        assert found.score[1] == pytest.approx(found.null, abs=1e-15), name
        assert found.recall[1] == 0.0, name  # a tie is no hit
        assert 0 < found.null < 1, name


def test_null_and_eligible_rows_by_hand() -> None:
    found = role_scores(uniform_weights(CAUSAL)[None], patterns.at_offset(N, 1), CAUSAL)
    assert found.rows == N - 1  # the first row sees nothing but itself
    assert found.null == pytest.approx(np.mean([1 / (i + 1) for i in range(1, N)]))
    own = role_scores(uniform_weights(CAUSAL)[None], patterns.at_offset(N, 0), CAUSAL)
    assert own.rows == N - 1  # there the first row cannot miss


def test_a_head_shifted_by_one_scores_nothing() -> None:
    right = patterns.at_offset(N, 1)
    shifted = _perfect(patterns.at_offset(N, 2), CAUSAL)[None]
    shifted[0, 1] = [
        1,
        *[0] * (N - 1),
    ]  # at row 1 there is nothing two back: it finds the one before
    found = role_scores(shifted, right, CAUSAL)
    assert found.score[0] == pytest.approx(1 / (N - 1))
    # shifted the other way, as a picture with its axes exchanged would be
    future = _perfect(patterns.at_offset(N, -1), BOTH)[None]
    assert role_scores(future, right, BOTH).recall[0] == 0.0


def test_a_head_that_sees_only_what_comes_later() -> None:
    """Rows whose right columns are all hidden are not eligible, and never counted as misses."""
    later = ~np.tri(N, dtype=bool)
    found = role_scores(uniform_weights(later)[None], patterns.at_offset(N, 1), later)
    assert found.rows == 0
    assert np.isnan(found.score).all()
    assert found.offset is None
    ahead = role_scores(_perfect(patterns.at_offset(N, -1), later)[None], patterns.at_offset(N, -1),
                        later)  # fmt: skip
    assert ahead.score[0] == 1.0
    assert ahead.rows == N - 2  # the last but one sees one key only, the last none


def test_no_eligible_rows_give_nan_not_zero() -> None:
    nothing = np.zeros((N, N), dtype=bool)
    found = role_scores(uniform_weights(CAUSAL)[None], nothing, CAUSAL)
    assert found.rows == 0
    assert np.isnan(found.null)
    assert np.isnan(found.precision).all()
    empty = RoleCount(2)
    empty.add(np.zeros((2, 0, 0)), Eligible(np.zeros((0, 0), dtype=bool), np.zeros((0, 0))))
    assert empty.scores().rows == 0


def test_parked_rows_are_misses_but_no_claims() -> None:
    right = patterns.linked((4, 4), [(2, 1), (3, 1)])
    weights = np.zeros((1, 4, 4))
    weights[0, 2] = [0.9, 0.1, 0, 0]  # parks on the first token
    weights[0, 3] = [0.1, 0.6, 0.3, 0]
    first = np.array([True, False, False, False])
    found = role_scores(weights, right, np.tri(4, dtype=bool), first)
    assert found.recall[0] == 0.5
    assert found.precision[0] == 1.0
    assert role_scores(weights, right, np.tri(4, dtype=bool)).precision[0] == 0.5


def test_the_best_fixed_distance() -> None:
    right = patterns.linked((8, 8), [(3, 1), (5, 3), (7, 2)])  # 2, 2 and 5 back
    found = role_scores(uniform_weights(np.tri(8))[None], right, np.tri(8, dtype=bool))
    assert (found.offset_at, found.offset) == (2, pytest.approx(2 / 3))


def test_weight_from_other_rows_is_told() -> None:
    """A head that looks at column 1 from every row links nothing to it."""
    right = patterns.linked((6, 6), [(4, 1)])
    always = np.zeros((1, 6, 6))
    always[0, 1:, 1] = 1.0
    always[0, 0, 0] = 1.0
    found = role_scores(always, right, np.tri(6, dtype=bool))
    assert found.score[0] == 1.0
    assert found.elsewhere[0] == 1.0
    only = uniform_weights(np.eye(6))[None]
    only[0, 4] = [0, 1, 0, 0, 0, 0]
    assert role_scores(only, right, np.tri(6, dtype=bool)).elsewhere[0] == pytest.approx(1 / 4)


def test_induction_is_the_induction_score() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(N), size=N) * CAUSAL
    found = role_scores(weights[None], patterns.after_duplicates(IDS, causal=True), CAUSAL)
    score, rows = induction_score(weights, IDS)
    assert found.score[0] == pytest.approx(score)
    assert found.rows == rows


def test_sums_over_texts_weigh_every_row_alike() -> None:
    count = RoleCount(1)
    for n in (3, 6):
        weights = uniform_weights(np.tri(n))[None]
        count.add(weights, Eligible(patterns.at_offset(n, 1), uniform_weights(np.tri(n))))
    expected = [1 / (i + 1) for n in (3, 6) for i in range(1, n)]
    assert count.scores().score[0] == pytest.approx(np.mean(expected))


def test_entropy_runs_from_zero_to_one() -> None:
    sharp = _perfect(patterns.at_offset(N, 1), CAUSAL)
    half = np.zeros((N, N))
    half[:, 0] = half[:, 1] = 0.5
    found = entropy(
        np.stack([uniform_weights(CAUSAL), sharp, 0.5 * uniform_weights(CAUSAL)]), CAUSAL
    )
    assert found == pytest.approx([1.0, 0.0, 1.0])
    both = entropy(half[None], BOTH)
    assert both[0] == pytest.approx(np.log(2) / np.log(N))
    assert np.isnan(entropy(np.ones((1, 1, 1)), np.ones((1, 1), dtype=bool))[0])


def test_confidence_leaves_the_parking_place_out() -> None:
    weights = np.zeros((1, 3, 3))
    weights[0] = [[1, 0, 0], [0.8, 0.2, 0], [0.1, 0.6, 0.3]]
    first = np.array([True, False, False])
    assert confidence(weights, np.tri(3, dtype=bool))[0] == pytest.approx(0.7)
    assert confidence(weights, np.tri(3, dtype=bool), first)[0] == pytest.approx(0.4)


def test_sink_share() -> None:
    weights = np.zeros((1, 3, 3))
    weights[0] = [[1, 0, 0], [0.8, 0.2, 0], [0.4, 0.6, 0.0]]
    assert sink_share(weights, np.tri(3, dtype=bool))[0] == pytest.approx(0.6)
    uniform = uniform_weights(CAUSAL)[None]
    null = role_scores(uniform, patterns.at_column((N, N), 0), CAUSAL).null
    assert sink_share(uniform, CAUSAL)[0] == pytest.approx(null)


def test_links_for_a_causal_head_go_backwards() -> None:
    assert patterns.backwards([(1, 4), (6, 2)]) == [(4, 1), (6, 2)]
