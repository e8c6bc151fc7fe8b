"""What a head's weights say about its role: score, hits, entropy, confidence. Definitions only.

A role says, for each row, which columns are right ("the token before", "the pet that *it* stands
for"). A row is *eligible* where some, but not all, of what it sees is right: where nothing is right
there is nothing to find, where everything is right nothing can be missed. Over the eligible rows,
and only these (a mean over all rows cannot reach 1: of a text that repeats r tokens a perfect
induction head would get r / (2 r + 1)):

score      the mean weight on the right columns: exactly 1 for a head that looks nowhere else
null       the same of a head that looks at all it sees alike
hits       rows whose largest weight is on a right column (a tie with a wrong one is none)
claims     rows that hit, or whose largest weight is elsewhere than where idle heads park
recall     hits / eligible rows;  precision   hits / claims
offset     the recall of the best fixed distance: "always look 3 back" (Voita et al. 2019)
elsewhere  the mean weight that other rows give to the same columns: a head that looks at the pet
           from every word does not tell what *it* stands for

Shapes: H heads, Q rows (queries), K columns (keys). Rows of weights sum to 1 or less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

Array = np.ndarray

SINK_EPSILON = 0.3
"""a head rests on the first token of a text from this mean share on (Gu et al. 2024)"""


def uniform_weights(visible: Array) -> Array:
    """(Q,K) bool -> the weights of a head that looks at all it sees alike; 0 in a blind row."""
    seen = np.asarray(visible, dtype=np.float64)
    return np.asarray(seen / np.maximum(seen.sum(-1, keepdims=True), 1.0))


def eligible_rows(right: Array, uniform: Array) -> Array:
    """(Q,) bool: where some, but not all, of what a row sees is right.

    right (Q,K) bool; uniform (Q,K): `uniform_weights`, pooled to words or not.
    """
    some = (uniform * right).sum(-1) > 1e-12
    others = (uniform * ~right).sum(-1) > 1e-12
    return np.asarray(some & others)


@dataclass(frozen=True)
class RoleScores:
    """One role, the H heads of one layer. All nan (offset None) where no row is eligible.

    score, recall, precision, elsewhere (H,); null; rows eligible; offset: recall of the best fixed
    distance, offset_at: which it is (positive: so many back).
    """

    score: Array
    recall: Array
    precision: Array
    elsewhere: Array
    null: float
    rows: int
    offset: float | None
    offset_at: int | None


class Eligible:
    """What is right on one text and for which rows, apart from any head: of many heads, layers and
    models that read the same text it is worked out once.

    rows (n,): the eligible ones; wanted (n,K) bool: what is right there; distances: how many rows find
    something right at each; away (K,) bool: where idle heads park.
    """

    def __init__(
        self, right: Array, uniform: Array, parking: Array | None = None, elsewhere: bool = True
    ) -> None:
        """right (Q,K) bool, uniform (Q,K), parking (K,) bool: where idle heads park (the first token,
        `<end>`), which claims nothing. elsewhere: what other rows give to the same columns matters too.
        """
        self.rows = np.flatnonzero(eligible_rows(right, uniform))
        self.wanted, alike = right[self.rows], uniform[self.rows]
        self.null = float((alike * self.wanted).sum())
        self.away = np.zeros(right.shape[-1], dtype=bool) if parking is None else parking
        row, column = np.nonzero(self.wanted & (alike > 0))
        back = np.unique(np.stack([row, self.rows[row] - column]), axis=1)[1]
        self.distances = Counter(back.tolist())  # each row counts once for a distance
        self.columns: Array | None = None
        if elsewhere and len(self.rows):
            self.columns = self.wanted.astype(np.float64).T  # (K,n)
            # rows that see a row's right columns, none of which is right for them (Q,n)
            clear = right.astype(np.float64) @ self.columns == 0
            self.others = (uniform @ self.columns > 1e-12) & clear


class RoleCount:
    """Sums over texts of one role and the H heads of one layer; see the head of this file."""

    def __init__(self, n_heads: int) -> None:
        self.rows, self.null, self._pairs = 0, 0.0, 0
        self.total, self.away = np.zeros(n_heads), np.zeros(n_heads)
        self.hits = np.zeros(n_heads, dtype=np.int64)
        self.claims = np.zeros(n_heads, dtype=np.int64)
        self.distances: Counter[int] = Counter()

    def add(self, weights: Array, asked: Eligible) -> None:
        """weights (H,Q,K) of the heads on one text, and what is right there."""
        if not len(asked.rows):
            return
        values = np.asarray(weights, dtype=np.float64)
        looked, wanted = values[:, asked.rows], asked.wanted
        self.rows += len(asked.rows)
        self.null += asked.null
        self.distances.update(asked.distances)
        right, wrong = np.where(wanted, looked, -1.0), np.where(wanted, -1.0, looked)
        self.total += np.where(wanted, looked, 0.0).sum((-1, -2))
        hit = right.max(-1) > wrong.max(-1)
        self.hits += hit.sum(-1)
        self.claims += (hit | ~asked.away[looked.argmax(-1)]).sum(-1)
        if asked.columns is not None:
            self._pairs += int(asked.others.sum())
            self.away += np.where(asked.others, values @ asked.columns, 0.0).sum((-1, -2))

    def scores(self) -> RoleScores:
        """The means of what was added."""
        nothing = np.full(len(self.total), np.nan)
        if not self.rows:
            return RoleScores(nothing, nothing, nothing, nothing, float("nan"), 0, None, None)
        claims = np.where(self.claims > 0, self.claims, np.nan)
        # the nearest of equally good distances
        at, times = max(self.distances.items(), key=lambda item: (item[1], -abs(item[0])))
        return RoleScores(
            self.total / self.rows,
            self.hits / self.rows,
            self.hits / claims,
            self.away / self._pairs if self._pairs else nothing,
            self.null / self.rows,
            self.rows,
            times / self.rows,
            at,
        )


def role_scores(
    weights: Array, right: Array, visible: Array, parking: Array | None = None
) -> RoleScores:
    """One text: weights (H,Q,K), right and visible (Q,K) bool -> the role's scores."""
    count = RoleCount(np.asarray(weights).shape[0])
    count.add(weights, Eligible(right, uniform_weights(visible), parking))
    return count.scores()


# -- what needs no right columns -------------------------------------------------------------------


def entropy(weights: Array, visible: Array) -> Array:
    """(H,Q,K) -> (H,) mean over rows of H(row) / log(keys that the row sees), in [0, 1].

    So that short and long rows compare (a causal row sees more the later it is). Rows are made to
    sum to 1 first (a sink outside the text may take the rest); rows that see one key have nothing to
    share out and do not count. nan without any other.
    """
    seen = np.asarray(visible).sum(-1)
    rows = np.flatnonzero(seen > 1)
    values = np.asarray(weights, dtype=np.float64)[:, rows]
    sums = values.sum(-1, keepdims=True)
    values = np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
    logs = np.log(values, out=np.zeros_like(values), where=values > 0)
    shares = -(values * logs).sum(-1) / np.log(seen[rows])
    return _mean_where(shares, sums[..., 0] > 0)


def confidence(weights: Array, visible: Array, parking: Array | None = None) -> Array:
    """(H,Q,K) -> (H,) mean over rows of the largest weight, `parking` columns (K,) bool left out.

    Voita et al. 2019, section 4.1 (they leave out the end of sentence). Rows that see one key, or
    nothing but parking, do not count.
    """
    seen = np.asarray(visible)
    if parking is not None:
        seen = seen & ~parking
    rows = np.flatnonzero((seen.sum(-1) > 0) & (np.asarray(visible).sum(-1) > 1))
    values = np.where(seen[rows], np.asarray(weights, dtype=np.float64)[:, rows], 0.0).max(-1)
    return _mean_where(values, np.ones_like(values, dtype=bool))


def sink_share(weights: Array, visible: Array, column: int = 0) -> Array:
    """(H,Q,K) -> (H,) mean weight on `column` over the rows that see it and something else.

    Gu et al. 2024, "When Attention Sink Emerges in Language Models". They count the row of the first
    token too, which cannot look elsewhere; here it does not count.
    """
    seen = np.asarray(visible)
    rows = np.flatnonzero(seen[:, column] & (seen.sum(-1) > 1))
    values = np.asarray(weights, dtype=np.float64)[:, rows, column]
    return _mean_where(values, np.ones_like(values, dtype=bool))


def _mean_where(values: Array, wanted: Array) -> Array:
    """(H,n) -> (H,) mean of the wanted; nan where there are none."""
    counts = wanted.sum(-1)
    sums = np.where(wanted, values, 0.0).sum(-1)
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))
