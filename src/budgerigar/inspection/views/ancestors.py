"""The Transformer's ancestors: gates of an LSTM, the reach of a gradient, back-off of an n-gram."""

from __future__ import annotations

from typing import Any

from budgerigar.inspection.views.look import Look


def gates(look: Look, layer: int = 0) -> dict[str, Any]:
    """The gates of one layer over the text. T tokens, H units.

    {"layer", "layers", "cell": "lstm"|"gru"|"elman", "title": "LSTM", "units": H,
     "gates": [names of parts between 0 and 1], "parts": {name: f2 (T,H)}, "order": i4 (H) (units, the
     longest memory first), "memory": str (the part that is carried on), "memory_lengths": f4 (H)
     (tokens after which 1/e is left), "kept_share": [T floats or null: no memory yet],
     "difference": float, "equations": [str]}
    """
    raise NotImplementedError


def reach(look: Look, distance: int | None = None, positions: int = 32) -> dict[str, Any]:
    """How far back the gradient of a prediction reaches. W distances, 1 first.

    {"distances": i4 (W), "shares": f4 (W) (mean gradient, that of distance 1 being 1), "smooth":
     f4 (W), "low": f4 (W), "high": f4 (W) (quarters of the predictions), "mean": f4 (W) (as it is),
     "positions": int, "sees": int|null (tokens that the model can see at all), "carried": bool,
     "last_above": {"0.1": int, "0.01": int}, "within": {"10": share of the whole gradient, …}}
    """
    raise NotImplementedError


def back_off(look: Look, top: int = 5) -> dict[str, Any]:
    """What an n-gram knew at each token. T tokens, n order.

    {"order": n, "smoothing": str, "difference": float, "tokens": [null for the first, then TOKEN],
     "shares": f4 (T,n+1) (of each length in the probability; entry 0: any token at all)}

    TOKEN: {"position", "label", "context": [labels], "p", "nats", "matched": int (longest n-gram
     seen), "context_matched": int, "steps": [{"order", "context": [labels], "count": int (of context
     and token), "context_count": int, "own": float, "weight": float, "part": float}] longest first,
     "uniform": float (what any token at all adds), "likeliest": [[label, p]]}
    """
    raise NotImplementedError
