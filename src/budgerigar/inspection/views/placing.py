"""Positions: what this model adds or turns, its sentence slid, its sentence shuffled.

Shapes: T positions of the text, S keys, N positions of a table, H heads, W width, P rotary pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.inspection.position_views import (
    distance_bias,
    most_slide,
    position_table,
    rotary_turns,
    shuffle,
    sinusoid_table,
    slide,
    wavelengths,
)
from budgerigar.inspection.stream import stream_of
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.payload import Stored
from budgerigar.inspection.views.sides import which

SAME = 1e-4
"""relative changes below this are rounding"""
_STEP = 100  # positions that a sentence is slid by where nothing is said
_ROWS = 64  # positions of a table where nothing is said


def positions(
    look: Look,
    show: str = "kind",
    layer: int = 0,
    head: int = 0,
    of: str | None = None,
    kind: str | None = None,
    query: int | None = None,
    by: int | None = None,
    seed: int = 0,
    blind: bool = False,
    rows: int | None = None,
) -> dict[str, Any]:
    """How the model knows where a token stands. show: "kind" (needs no text), "slide" or "shuffle".

    "kind": rows (null: 64, or as many as there are) positions of a table.
    {"show": "kind", "positions": "sinusoidal"|"learned"|"rotary"|"relative"|"alibi"|"none",
     "knows": "places"|"distances"|"order"|"nothing" (order: a decoder's mask alone; nothing: a set),
     "table": TABLE|null (what is added to the embedding: learned, sinusoidal),
     "sinusoids": TABLE|null (of this model's width, also where it uses others; null: odd width),
     "turns": TURNS|null (of `layer`; rotary), "bias": BIAS|null (of `layer`; alibi, relative)}
    TABLE: {"values": f4 (N,W), "wavelengths": f4 (W/2)|null (positions per turn of each sinusoid),
     "layout": "interleaved" (sine, cosine, sine …)|"split" (all sines first)|null, "used": bool}
    TURNS: {"layer", "base", "width": numbers of a head that turn, "d_head", "fraction": width / d_head,
     "factor", "scaling": str|null, "pairs": u1|u2 (P,2) (which two numbers), "frequencies": f4 (P)
     (radians per position), "wavelengths": f4 (P), "angles": f4 (N,P) (radians)}
    BIAS: {"layer", "of", "distances": i4 (N') (positive: keys before the query), "values": f4 (H,N'),
     "slopes": f4 (H)|null (alibi)}

    "slide": layer, head, of, kind; by (null: 100, or what a learned table leaves); query (null: last).
    {"show": "slide", "name": "L2.H3", "of", "kind", "title", "queries", "keys", … (see `head`), "by",
     "most": int (the farthest possible), "start": int (position of token 0 before), "query": int,
     "before": f4 (S), "after": f4 (S) (what enters the softmax in that row; masked keys too),
     "weights_before": f4 (S), "weights_after": f4 (S), "codes": u1 (S) (masked keys),
     "largest": float, "relative": float (largest change of any visible score of this head; the same
     over the largest score), "logits": float|null (largest change of any logit over the largest),
     "same": bool (relative below 1e-4), "sinks": int (the first k tokens that a window keeps in sight
     are none when slid; 0: no such thing)}

    "shuffle": seed; blind: an encoder-only model, both orders with every token at position 0.
    {"show": "shuffle", "of": stack that read them, "spelling": "read"|"source", "order": i4 (T) (place
     i holds the token that stood at order[i]), "labels": [T], "apart": f4 (T) (largest change of each
     token's vector over the largest number of all), "largest": float, "same": bool (below 1e-4),
     "positions": bool (the model was told where tokens stand), "causal": bool (its mask tells),
     "can_be_blind": bool}
    """
    if show == "slide":
        return _slide(look, f"L{layer}.H{head}", of, kind, query, by)
    if show == "shuffle":
        return _shuffle(look, seed, blind)
    return _kind(look, layer, of, rows)


def _kind(look: Look, layer: int, of: str | None, rows: int | None) -> dict[str, Any]:
    config, network = look.config, look.network
    encodes = network.decoder is None
    n = min(rows or _ROWS, config.context_length)
    of = of or ("encoder" if encodes else "decoder")
    added = config.positions in ("learned", "sinusoidal")
    knows = {"learned": "places", "sinusoidal": "places", "none": "nothing" if encodes else "order"}
    width = config.embedding_size or config.d_model
    return {
        "show": "kind",
        "positions": config.positions,
        "knows": knows.get(config.positions, "distances"),
        "table": _table(look, position_table(network, n), True) if added else None,
        "sinusoids": None
        if width % 2
        else _table(look, sinusoid_table(config, n), config.positions == "sinusoidal"),
        "turns": _turns(look, layer, n) if config.positions == "rotary" else None,
        "bias": _bias(look, layer, of, n) if config.positions in ("alibi", "relative") else None,
    }


def _table(look: Look, values: np.ndarray, used: bool) -> dict[str, Any]:
    config = look.config
    waves = not (used and config.positions == "learned")
    return {
        "values": values,
        "wavelengths": wavelengths(config) if waves else None,
        "layout": config.sinusoid_layout if waves else None,
        "used": used,
    }


def _turns(look: Look, layer: int, n: int) -> dict[str, Any]:
    found = rotary_turns(look.config, layer, n)
    return {
        "layer": layer,
        "base": found.base,
        "width": found.width,
        "d_head": found.d_head,
        "fraction": found.width / found.d_head,
        "factor": found.factor,
        "scaling": found.scaling,
        "pairs": found.pairs,
        "frequencies": found.frequencies,
        "wavelengths": found.wavelengths,
        "angles": found.angles,
    }


def _bias(look: Look, layer: int, of: str, n: int) -> dict[str, Any]:
    distances = np.arange(-(n - 1) if of == "encoder" else 0, n)
    values = distance_bias(look.network, distances, layer, of)
    alibi = look.config.positions == "alibi"
    at_one = values[:, np.flatnonzero(distances == 1)[:1]]  # none where there is one position
    return {
        "layer": layer,
        "of": of,
        "distances": Stored(distances, "i4"),
        "values": values,
        "slopes": -at_one[:, 0] if alibi and at_one.shape[1] else None,
    }


def _slide(
    look: Look, name: str, of: str | None, kind: str | None, query: int | None, by: int | None
) -> dict[str, Any]:
    trace = look.trace
    most = most_slide(trace)
    found = slide(trace, name, min(_STEP, most) if by is None else by, of, kind)
    head = trace.attention(name, of, kind)
    row = head.site.query_spelling.find(-1 if query is None else query)[0]
    config = look.config
    windows = [config.window_of(layer) for layer in range(config.decoder_layers)]
    return {
        "show": "slide",
        "name": head.name,
        **which(trace, head.site),
        "by": found.by,
        "most": most,
        "start": found.start,
        "query": row,
        "before": found.before[row],
        "after": found.after[row],
        "weights_before": found.weights_before[row],
        "weights_after": found.weights_after[row],
        "codes": head.mask.codes[row],
        "largest": found.largest,
        "relative": found.relative,
        "logits": found.logits,
        "same": found.relative < SAME,
        "sinks": config.sink_tokens if any(w and w < len(trace) for w in windows) else 0,
    }


def _shuffle(look: Look, seed: int, blind: bool) -> dict[str, Any]:
    found = shuffle(look.trace, seed, blind)
    return {
        "show": "shuffle",
        "of": found.of,
        "spelling": "source" if look.pair else "read",
        "order": found.order.astype(np.int32),
        "labels": list(found.labels),
        "apart": found.apart,
        "largest": found.largest,
        "same": found.largest < SAME,
        "positions": found.positions,
        "causal": found.of == "decoder",
        "can_be_blind": stream_of(look.trace).network.config.assembly == "encoder-only",
    }
