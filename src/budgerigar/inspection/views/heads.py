"""Heads: all of a layer as thumbnails, one as a matrix, one row of it.

Shapes: T queries (rows), S keys (columns), H heads of a layer.
"""

from __future__ import annotations

from typing import Any

from budgerigar.inspection.views.look import Look


def grid(
    look: Look, layer: int | None = None, of: str | None = None, kind: str | None = None
) -> dict[str, Any]:
    """Every head of one layer small (null: of all layers). Ask layer by layer to see it fill.

    {"of", "kind", "title", "query_axis", "key_axis", "queries", "keys" (names of spellings),
     "rows": T, "columns": S, "block": [n, m] (each cell of a thumbnail is the largest weight of n x m
     cells), "layers": [LAYER]}

    LAYER, r x c at most 64 x 64:
    {"layer": int, "thumbnails": u1 (H,r,c) weights, "mask": u1 (r,c) (code of cells that are masked
     as a whole, else 0), "entropy": f4 (H) (mean over rows of H / log of the visible keys, 0..1),
     "first": f4 (H) (mean weight on key 0, over the rows that see more than it),
     "confidence": f4 (H) (mean over the same rows of the largest weight),
     "link": {"query": i4 (H), "key": i4 (H), "weight": f4 (H)} (the strongest link between two
     tokens that is not a token's look at itself, at a start token or at <end>; weight 0: none)}
    """
    raise NotImplementedError


def head(
    look: Look,
    layer: int,
    head: int,
    of: str | None = None,
    kind: str | None = None,
    mask: bool = True,
) -> dict[str, Any]:
    """One head as a picture; `row` has the exact numbers.

    {"name": "L2.H3", "layer", "head", "kv_head", "of", "kind", "title", "query_axis", "key_axis",
     "queries", "keys" (names of spellings), "rows": T, "columns": S,
     "weights": u1 (T,S), or u2 where T and S are under 256, "mask": u1 (T,S) (0 visible, else the
     place in `read`'s "reasons"; null when mask=false), "kinds": [codes that occur],
     "row_sums": f4 (T), "entropy": f4 (T) (H / log of the visible keys; 0 where only one is),
     "value_norms": f4 (S) (length of each value vector), "sink": float|null (a learned logit that
     takes the rest of a row), "difference": float (recomputed to the model's own, relative),
     "off": bool (it is switched off; the weights are those that it would have had)}
    """
    raise NotImplementedError


def row(
    look: Look,
    layer: int,
    head: int,
    query: int,
    of: str | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """One row in full precision.

    {"name", "layer", "head", "of", "kind", "query": int, "label": str, "weights": f4 (S),
     "codes": u1 (S), "sum": float, "order": i4 (S) (keys, the strongest first)}
    """
    raise NotImplementedError
