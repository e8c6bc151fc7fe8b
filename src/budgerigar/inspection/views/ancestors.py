"""The Transformer's ancestors: gates of an LSTM, the reach of a gradient, back-off of an n-gram."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from budgerigar.inspection.back_off import BackOff, TokenBackOff
from budgerigar.inspection.back_off import back_off as over
from budgerigar.inspection.gates import CELL_NAMES
from budgerigar.inspection.reach import reach as measure
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.payload import Stored

EQUATIONS = {
    "lstm": (
        "input = sigmoid(W x + U h + b)",
        "forget = sigmoid(W x + U h + b)",
        "candidate = tanh(W x + U h + b)",
        "output = sigmoid(W x + U h + b)",
        "cell = forget * cell before + input * candidate",
        "hidden = output * tanh(cell)",
    ),
    "gru": (
        "reset = sigmoid(W x + U h + b)",
        "update = sigmoid(W x + U h + b)",
        "candidate = tanh(W x + b + reset * (U h + c))",
        "hidden = update * hidden before + (1 - update) * candidate",
    ),
    "elman": ("hidden = tanh(W x + U h + b)",),
}
"""Each cell in the order in which it computes; every line has weights of its own."""


def gates(look: Look, layer: int = 0) -> dict[str, Any]:
    """The gates of one layer over the text. T tokens, H units.

    {"layer", "layers", "cell": "lstm"|"gru"|"elman", "title": "LSTM", "units": H,
     "gates": [names of parts between 0 and 1], "parts": {name: f2 (T,H)}, "order": i4 (H) (units, the
     longest memory first), "opens": i4 (tokens before which the memory is empty: the first of each
     document), "memory": str (the part that is carried on), "memory_lengths": f4 (H) (tokens after
     which 1/e is left), "kept_share": [T floats or null: no memory yet],
     "difference": float, "equations": [str]}
    """
    found = look.trace.gates(layer)
    shares = found.kept_share.tolist()
    return {
        "layer": found.layer,
        "layers": found.n_layers,
        "cell": found.kind,
        "title": CELL_NAMES[found.kind],
        "units": found.n_units,
        "gates": found.gates,
        "parts": {name: Stored(values, "f2") for name, values in found.values.items()},
        "order": found.order,
        "opens": np.flatnonzero(~found.memory_before.any(axis=1)).astype(np.int32),
        "memory": "cell" if found.kind == "lstm" else "hidden",
        "memory_lengths": found.memory_lengths,
        "kept_share": [None if math.isnan(share) else share for share in shares],
        "difference": found.difference,
        "equations": list(EQUATIONS[found.kind]),
    }


def unit(look: Look, layer: int, unit: int) -> dict[str, Any]:
    """One unit over the text in full precision. T tokens.

    {"layer", "unit", "cell", "parts": {name: f4 (T)}, "before": f4 (T) (its memory before each token)}
    """
    found = look.trace.gates(layer)
    parts = {name: Stored(values, "f4") for name, values in found.unit(unit).items()}
    before = Stored(found.memory_before[:, unit], "f4")
    return {"layer": layer, "unit": unit, "cell": found.kind, "parts": parts, "before": before}


def reach(look: Look, distance: int | None = None, positions: int = 32) -> dict[str, Any]:
    """How far back the gradient of a prediction reaches. W distances, 1 first.

    {"distances": i4 (W), "shares": f4 (W) (mean gradient, that of distance 1 being 1), "smooth":
     f4 (W), "low": f4 (W), "high": f4 (W) (quarters of the predictions), "mean": f4 (W) (as it is),
     "positions": int, "sees": int|null (tokens that the model can see at all), "carried": bool,
     "last_above": {"0.1": int, "0.01": int}, "within": {"10": share of the whole gradient, …}}
    """
    found = measure(look.network, look.trace.ids, distance=distance, positions=positions)
    low, high = found.band
    return {
        "distances": found.distances,
        "shares": found.shares,
        "smooth": found.smooth(),
        "low": low,
        "high": high,
        "mean": found.mean,
        "positions": found.n_positions,
        "sees": found.sees,
        "carried": found.carried,
        "last_above": {f"{share:g}": found.last_above(share) for share in (0.1, 0.01)},
        "within": {str(near): found.within(near) for near in (1, 10, 100)},
    }


def back_off(look: Look, top: int = 5) -> dict[str, Any]:
    """What an n-gram knew at each token. T tokens, n order.

    {"order": n, "smoothing": str, "difference": float, "tokens": [null for the first, then TOKEN],
     "shares": f4 (T,n+1) (of each length in the probability; entry 0: any token at all)}

    TOKEN: {"position", "label", "context": [labels], "p", "nats", "matched": int (longest n-gram
     seen, 0: none), "context_matched": int, "steps": [STEP] longest context first, "uniform": float
     (what any token at all adds), "likeliest": [[label, p]]}
    STEP: one length, `models.ngram_explain.BackoffStep`: {"order", "context": [labels], "known": bool,
     "count", "total", "distinct", "discount", "own", "weight", "part": what it adds to p}
    """
    found = over(look.trace, look.tokenizer)
    shares = np.zeros((len(found.tokens), found.order + 1))
    for token in found.predicted:
        shares[token.position] = token.shares
    return {
        "order": found.order,
        "smoothing": found.smoothing,
        "difference": found.difference,
        "tokens": [None if token is None else _token(found, token, top) for token in found.tokens],
        "shares": shares,
    }


def _token(found: BackOff, token: TokenBackOff, top: int) -> dict[str, Any]:
    parts = token.parts
    return {
        "position": token.position,
        "label": token.label,
        "context": list(token.context),
        "p": token.probability,
        "nats": token.nats,
        "matched": token.matched,
        "context_matched": token.context_matched,
        "steps": [
            {
                "order": step.order,
                "context": found.labels_of(step.context),
                "known": step.known,
                "count": step.count,
                "total": step.total,
                "distinct": step.distinct,
                "discount": step.discount,
                "own": step.own,
                "weight": step.weight,
                "part": parts[step.order],
            }
            for step in token.steps
        ],
        "uniform": parts[0],
        "likeliest": [list(pair) for pair in found.likeliest(token, top)],
    }
