"""Which columns are right for each role, as (Q,K) of bool. See `role_scores` for what becomes of it.

Roles by place (previous, next, self, first, last), by the tokens (duplicate, induction), and by given
links between words. What a row cannot see is right all the same: the mask is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from budgerigar.inspection.induction import followers

Array = np.ndarray


def at_offset(n: int, back: int) -> Array:
    """(n,n): the column `back` before the row (negative: after it; 0: the row's own)."""
    return np.eye(n, k=-back, dtype=bool)


def at_column(shape: tuple[int, int], columns: int | Sequence[int]) -> Array:
    """(Q,K): the same column (or columns) for every row."""
    found = np.zeros(shape, dtype=bool)
    found[:, columns] = True
    return found


def duplicates(ids: Sequence[int], causal: bool) -> Array:
    """(T,T): where the row's token stands too; causal: earlier, else anywhere but at the row."""
    tokens = np.asarray(ids)
    same = tokens[:, None] == tokens[None, :]
    return np.tril(same, -1) if causal else same & ~np.eye(len(tokens), dtype=bool)


def after_duplicates(ids: Sequence[int], causal: bool) -> Array:
    """(T,T): the column after another occurrence of the row's token (Olsson et al. 2022).

    causal: `induction.followers`; else after any other occurrence, but never the row itself.
    """
    if causal:
        return np.asarray(followers(np.asarray(ids)))
    others = duplicates(ids, causal=False)
    found = np.zeros_like(others)
    found[:, 1:] = others[:, :-1]
    np.fill_diagonal(found, False)
    return found


def linked(shape: tuple[int, int], links: Iterable[tuple[int, int]]) -> Array:
    """(Q,K): the columns that gold links (row, column) name."""
    found = np.zeros(shape, dtype=bool)
    for row, column in links:
        found[row, column] = True
    return found


def backwards(links: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same links, each from the later to the earlier: all that a causal head can follow."""
    return [(max(link), min(link)) for link in links]
