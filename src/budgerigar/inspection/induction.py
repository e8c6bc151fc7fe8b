"""Induction heads: those that find where the present token stood before and look at what followed it.

Elhage et al. 2021; Olsson et al. 2022, "In-context Learning and Induction Heads". Shapes: T positions;
rows are queries, columns keys. A row is *eligible* where its token stood before and was followed by
something that lies before the row: only there is anything to copy, so only there a head is judged. (A
score over all rows cannot reach 1: on <start> + r random tokens twice a perfect head would get
r/(2r+1), under a half.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

THRESHOLD = 0.4
"""from this score on a head is called an induction head: it gives the tokens that followed its own
token before at least two fifths of its weight, many times what looking everywhere alike would"""


def followers(ids: Any) -> NDArray[np.bool_]:
    """(T,) token ids -> (T,T): true at [i, j+1] where token j equals token i and j + 1 < i.

    A column per token that followed an earlier occurrence of the row's token. Of "a a" the second
    has none: what follows the first is the row itself, and a head that looks at itself copies nothing.
    """
    tokens = np.asarray(ids)
    if tokens.ndim != 1:
        raise ValueError(f"ids of shape {tokens.shape}: one row of token ids is meant, (T,)")
    found = np.zeros((len(tokens), len(tokens)), dtype=bool)
    same = tokens[:, None] == tokens[None, :]
    found[:, 1:] = np.tril(same[:, :-1], -2)  # j < i - 1
    return found


def induction_scores(weights: Any, ids: Any) -> tuple[NDArray[np.float64], int]:
    """Weights (…,T,T) of any number of heads over one text (T,) -> scores (…), eligible rows.

    The score of a head: the mean, over the eligible rows, of its weight on all `followers`; 1.0 for a
    head that looks nowhere else, nan (and 0 rows) where no token comes back.
    """
    values, wanted = np.asarray(weights, dtype=np.float64), followers(ids)
    if values.shape[-2:] != wanted.shape:
        raise ValueError(
            f"weights of shape {values.shape} for {len(wanted)} tokens: the last two must be (T,T)"
        )
    rows = wanted.any(-1)
    n = int(rows.sum())
    on_followers = np.where(wanted, values, 0.0).sum(-1)[..., rows]  # (…,n)
    if n == 0:
        return np.full(values.shape[:-2], np.nan), 0
    return on_followers.mean(-1), n


def induction_score(weights: Any, ids: Any) -> tuple[float, int]:
    """One head's weights (T,T) over a text (T,) -> (score, number of eligible rows).

    See `induction_scores`; `uniform_score` is what looking everywhere alike gets.
    """
    score, n = induction_scores(weights, ids)
    if score.ndim:
        raise ValueError(f"weights of shape {np.shape(weights)}: one head's are meant, (T,T)")
    return float(score), n


def uniform_score(ids: Any) -> float:
    """The score of a causal head that looks at all it sees alike: what the others are to be held to."""
    n = len(np.asarray(ids))
    return induction_score(np.tri(n) / np.arange(1, n + 1)[:, None], ids)[0]
