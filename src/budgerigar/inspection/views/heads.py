"""Heads: all of a layer as thumbnails, one as a matrix, one row of it.

Shapes: T queries (rows), S keys (columns), H heads of a layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection import head_measures as measures
from budgerigar.inspection.heads import Head
from budgerigar.inspection.matrix import MASKED
from budgerigar.inspection.passes import array
from budgerigar.inspection.role_probes import parking
from budgerigar.inspection.role_scores import confidence, entropy, sink_share
from budgerigar.inspection.sites import Site
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.payload import Stored
from budgerigar.inspection.views.sides import (
    head_at,
    is_off,
    key_tokens,
    named,
    row_at,
    which,
)

_REASONS = list(MASKED)
FINE = 256
"""positions under which a weight is stored in 16 bits instead of 8"""


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
     "first": f4 (H) (mean weight on key 0), "confidence": f4 (H) (mean of a row's largest weight where
     no idle head parks; all three over the rows that see more than one key, as in `role_scores`),
     "link": {"query": i4 (H), "key": i4 (H), "weight": f4 (H)} (the strongest link between two
     tokens; not a token's look at itself, nor where idle heads park: special tokens, and the first of
     a causal text; weight 0: none)}
    """
    trace = look.trace
    site = trace.site(of, kind)
    depth = len(site.modules)
    if layer is not None and layer >= depth:
        raise UserError(f"there is no layer {layer}: this attention has layers 0 to {depth - 1}")
    chosen = range(depth) if layer is None else [layer]
    rows, columns = len(site.query_spelling), len(site.key_spelling)
    _, block = measures.pooled(np.zeros((rows, columns), dtype=np.uint8))
    return {
        **which(trace, site),
        "rows": rows,
        "columns": columns,
        "block": list(block),
        "layers": [_layer(look, site, number) for number in chosen],
    }


def _layer(look: Look, site: Site, layer: int) -> dict[str, Any]:
    """One LAYER of the grid."""
    trace = look.trace
    weights = array(trace.steps(site, layer).weights[0])  # (H,T,S)
    mask = trace.mask(site, layer)
    visible = ~mask.hidden
    parked = parking(site, *key_tokens(look, site))
    cells = measures.telling(visible, parked, site.kind == "self")
    queries, keys, strongest = measures.strongest(weights, cells)
    return {
        "layer": layer,
        "thumbnails": Stored(measures.pooled(weights)[0], "u1", 0.0, _top(weights)),
        "mask": _hidden_blocks(mask.codes),
        "entropy": _known(entropy(weights, visible)),
        "first": _known(sink_share(weights, visible)),
        "confidence": _known(confidence(weights, visible, parked)),
        "link": {"query": queries, "key": keys, "weight": strongest},
    }


def _known(values: np.ndarray) -> np.ndarray:
    """0 for what no row could tell: a text of one token."""
    return np.nan_to_num(values)


def _top(weights: np.ndarray) -> float:
    """1, the upper end of weights; a hair more where a softmax in float32 rounded beyond it."""
    return max(1.0, float(weights.max(initial=0.0)))


def _hidden_blocks(codes: np.ndarray) -> np.ndarray:
    """(r,c): the largest reason's code of blocks that are masked as a whole, else 0."""
    visible, _ = measures.pooled((codes == 0).astype(np.uint8))
    return np.where(visible > 0, np.uint8(0), measures.pooled(codes)[0])


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
     "mean_entropy": float|null (over the rows that see more than one key, as in `grid`),
     "value_norms": f4 (S) (length of each value vector), "sink": float|null (a learned logit that
     takes the rest of a row), "difference": float (recomputed to the model's own, relative),
     "off": bool (it is switched off; the weights are those that it would have had)}
    """
    found = head_at(look, layer, head, of, kind)
    weights, hidden = found.weights, found.mask.hidden
    fine = max(weights.shape, default=0) < FINE
    return {
        **named(found),
        **which(found.trace, found.site),
        "rows": weights.shape[0],
        "columns": weights.shape[1],
        "weights": Stored(weights, "u2" if fine else "u1", 0.0, _top(weights)),
        "mask": found.mask.codes if mask else None,
        "kinds": [1 + _REASONS.index(kind) for kind in found.mask.kinds],
        "row_sums": weights.sum(axis=1, dtype=np.float64),
        "entropy": measures.row_entropy(weights, ~hidden),
        "mean_entropy": float(entropy(weights[None], ~hidden)[0]),
        "value_norms": np.linalg.norm(found.values, axis=1),
        "sink": _sink(found),
        "difference": found.difference,
        "off": is_off(look, found),
    }


def _sink(head: Head) -> float | None:
    """The learned logit that takes its share of every row of this head."""
    logits = getattr(head.module, "sink_logit", None)
    return None if logits is None else float(logits.detach()[head.head])


def row(
    look: Look,
    layer: int,
    head: int,
    query: int,
    of: str | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """One row in full precision.

    {"name", "layer", "head", "kv_head", "of", "kind", "title", "query": int, "label": str,
     "weights": f4 (S), "codes": u1 (S), "sum": float, "order": i4 (S) (keys, the strongest first)}
    """
    found = head_at(look, layer, head, of, kind)
    at = row_at(found, query)
    weights = found.weights[at]
    return {
        **named(found),
        "query": at,
        "label": found.query_labels[at],
        "weights": Stored(weights, "f4"),
        "codes": found.mask.codes[at],
        "sum": float(weights.sum(dtype=np.float64)),
        "order": np.argsort(-weights, kind="stable"),
    }
