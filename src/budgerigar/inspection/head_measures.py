"""What a head's matrix is like, small: its strongest link, how broad each row is, a thumbnail.

weights (…,T,S): rows are queries and sum to 1 (to 0 where they see nothing, to less where a sink takes
the rest). visible (T,S) boolean: which keys each query may look at. Heads may stand in front (…).
"""

from __future__ import annotations

import numpy as np


def row_entropy(weights: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """(…,T) from 0 to 1: each row's entropy, divided by ln of the keys that it sees.

    0: all on one key; 1: all visible keys alike; 0 also where a row sees one key or none. Rows are
    made to sum to 1 first, as in `role_scores.entropy`, which is the mean of these over the rows that
    see more than one key.
    """
    seen = visible.sum(axis=-1)
    sums = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    most = np.log(np.maximum(seen, 1))
    return np.asarray(-(shares * logs).sum(axis=-1) / np.where(most > 0, most, 1.0))


def telling(visible: np.ndarray, parking: np.ndarray, same: bool) -> np.ndarray:
    """(T,S) boolean: cells that may be a head's strongest link.

    Left out: keys where idle heads park (S,), see `role_probes.parking`; and a token's look at itself
    where queries and keys are the `same` tokens.
    """
    cells = visible & ~parking
    if same:
        np.fill_diagonal(cells, False)
    return cells


def strongest(weights: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query, key and weight (…,) of the largest weight among `cells` (T,S); weight 0: there is none."""
    flat = np.where(cells, weights, 0.0).reshape(*weights.shape[:-2], -1)
    if not flat.shape[-1]:
        nothing = np.zeros(weights.shape[:-2])
        return nothing.astype(int), nothing.astype(int), nothing
    best = flat.argmax(axis=-1)
    rows, columns = np.unravel_index(best, weights.shape[-2:])
    return rows, columns, np.take_along_axis(flat, best[..., None], -1)[..., 0]


def pooled(values: np.ndarray, most: int = 64) -> tuple[np.ndarray, tuple[int, int]]:
    """(…,T,S) -> (…,r,c) of at most `most` x `most`: the largest of each block of cells, and its size.

    The last block of a row or column may be smaller.
    """
    rows, columns = values.shape[-2:]
    high, wide = max(1, -(-rows // most)), max(1, -(-columns // most))
    if high == wide == 1:
        return values, (1, 1)
    lines = np.maximum.reduceat(values, np.arange(0, rows, high), axis=-2)
    return np.maximum.reduceat(lines, np.arange(0, columns, wide), axis=-1), (high, wide)
