"""What the layers think, and who made the logit: lens, attribution, one block, positions.

Shapes: L layers of the stack that makes the logits, T positions, S keys, H heads, D d_model, k words
shown, n parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.inspection.attribution import attribute_by_key, attribute_logit
from budgerigar.inspection.block import BlockAt, Unit, block_at, without_residual
from budgerigar.inspection.lens import logit_lens
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.paths import frozen_scales, path_of
from budgerigar.inspection.stream import (
    ending_stream,
    one_token,
    position_of,
    row_labels,
    rows_are_about_next,
)
from budgerigar.inspection.traces import Trace
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.params import Param
from budgerigar.inspection.views.payload import Stored
from budgerigar.inspection.views.sides import Names


def lens(look: Look, top: int = 5) -> dict[str, Any]:
    """The logit lens (nostalgebraist 2020): what the model would say if it stopped after each layer.

    {"rows": ["embedding", "L0", …] (L+1 of them), "side": "read"|"predicted" (the spelling that names
     the T columns), "predicts": "next"|"this" (what a column is about: the token after the one that
     names it, or that token itself: of translations and encoders),
     "top_ids": i4 (L+1,T,k), "top_p": f4 (L+1,T,k), "final": i4 (T) (the model's own choice),
     "final_p": f4 (L+1,T), "rank": i4 (L+1,T) (of the final choice; 1 = the likeliest),
     "kl": f4 (L+1,T) (KL(final || layer), nats; 0 in the last row), "settled": i4 (T) (the first row
     from which on the likeliest token stays the final one),
     "final_norm": bool (true: it is applied once to each row; false: the vectors are normed already or
     never), "difference": float (largest difference of the last row to the model's own logits: 0),
     "words": {str(id): label}}
    """
    trace, names = look.trace, Names(look.tokenizer)
    found, stream = logit_lens(trace, top), ending_stream(trace)
    for ids in (found.top, found.final):
        names.add(ids)
    return {
        "rows": list(found.rows),
        **_columns(look),
        "top_ids": found.top.astype(np.int32),
        "top_p": found.chances,
        "final": found.final.astype(np.int32),
        "final_p": found.final_chance,
        "rank": found.final_rank.astype(np.int32),
        "kl": found.divergence,
        "settled": found.settled().astype(np.int32),
        "final_norm": stream.stack.final_norm is not None,
        "difference": found.difference,
        "words": names.words,
    }


def attribution(
    look: Look,
    position: int | None = None,
    token: int | str | None = None,
    against: int | str | None = None,
    head: str | None = None,
    kind: str = "self",
) -> dict[str, Any]:
    """Direct logit attribution (Elhage et al. 2021): the logit of `token` at `position` as a sum.

    position null: the last (a masked one of an encoder); token null: the likeliest there; against:
    minus that token's logit. head, kind: this head's part by the keys it was read from, besides.

    {"position": int, "label": str, "side", "predicts" (see `lens`), "token": id, "against": id|null,
     "logit": the model's own, "total": sum of the parts, "difference": abs(total - logit) / largest
     abs(logit) at this position, "cap": float|null (what the final soft-cap leaves of token's logit, as
     a factor), "frozen": ["final norm", …] (whose scales are held as they were),
     "parts": {"name": [n], "kind": [n: "token", "position", "type", "head", "attention bias",
       "feed-forward", "norm bias", "transform bias", "head bias"], "layer": i4 (n) (-1: none),
       "head": i4 (n) (-1: none), "attention": [n: "self", "cross" or ""], "logit": f4 (n)}
     (in the order of the forward pass),
     "groups": [{"name": "embedding"|"L0 attention"|…|"biases", "logit": float}],
     "keys": {"head", "kind", "spelling": name of the keys' spelling, "logit": f4 (S)}|null,
     "likeliest": {"ids": i4 (10), "p": f4 (10)}, "words": {str(id): label}}
    """
    trace, names = look.trace, Names(look.tokenizer)
    place = _place(look, position)
    one, other = (_token_of(look, t) for t in (token, against))
    path = path_of(trace, place)
    found = attribute_logit(trace, place, one, other, path)
    origins = [part.origin for part in found.parts]
    likeliest = _likeliest(trace.logits[place], names)
    names.add([found.token, *([] if found.against is None else [found.against])])
    return {
        "position": place,
        "label": row_labels(trace)[place],
        **_columns(look),
        "token": found.token,
        "against": found.against,
        "logit": found.logit,
        "total": found.total,
        "difference": found.difference,
        "cap": None if look.config.logit_softcap is None else found.cap[0],
        "frozen": frozen_scales(look.config),
        "parts": {
            "name": [origin.name for origin in origins],
            "kind": [origin.kind for origin in origins],
            "layer": np.array([_or_none(origin.layer) for origin in origins], dtype=np.int32),
            "head": np.array([_or_none(origin.head) for origin in origins], dtype=np.int32),
            "attention": [origin.attention for origin in origins],
            "logit": np.array([part.logit for part in found.parts]),
        },
        "groups": [{"name": name, "logit": value} for name, value in found.by_layer()],
        "keys": None if head is None else _by_key(trace, head, kind, found, path),
        "likeliest": likeliest,
        "words": names.words,
    }


def _by_key(trace: Trace, head: str, kind: str, found: Any, path: Any) -> dict[str, Any]:
    shares = attribute_by_key(
        trace, head, found.position, found.token, found.against, kind, path=path
    )
    spelling = "source" if kind == "cross" else "read"
    return {"head": head, "kind": kind, "spelling": spelling, "logit": shares}


def block(
    look: Look,
    layer: int,
    position: int | None = None,
    of: str | None = None,
    units: int = 10,
    words: int = 5,
    without: bool = False,
) -> dict[str, Any]:
    """One layer at one position: the residual stream through it, and what its parts write.

    of null: the stack that makes the logits. without: run the text once more with this layer's
    residual connection switched off.

    {"of", "layer": int, "position": int, "label": str, "spelling": name of the spelling of positions,
     "place": "pre"|"post"|"sandwich"|"output", "residual": bool, "parallel": bool,
     "stages": [{"name", "length", "cosine" (to the block's input)}] (input first, output last),
     "vectors": f4 (stages,D),
     "added": [{"name", "length", "along" (projection on the residual before; negative: takes away),
       "cosine" (to it), "before" (its length)}] (one per sublayer), "added_vectors": f4 (sublayers,D),
     "units": [{"number", "value", "length" (of what it writes), "up": WORDS, "down": WORDS}]
     (strongest first), "n_units": int, "silent": int (units that are exactly 0),
     "without": {"length", "cosine" (the layer's output without its residual, to that with it),
       "vector": f4 (D), "kl": float|null (KL(with || without) of the prediction at this position),
       "own": NEXT|null, "then": NEXT|null}|null, "words": {str(id): label}}

    WORDS: {"ids": i4 (w), "logit": f4 (w)} by how much the unit's direct path changes each logit.
    NEXT: {"ids": i4 (10), "p": f4 (10)} likeliest first; null for an encoder before a decoder.
    """
    trace, names = look.trace, Names(look.tokenizer)
    source = of == "encoder" and look.pair
    place = (-1 if position is None else position) if source else _place(look, position)
    found = block_at(trace, layer, place, of, units, words)
    labels = trace.source_labels if source and isinstance(trace, PairTrace) else row_labels(trace)
    for unit in found.units:
        names.add([token for token, _ in (*unit.up, *unit.down)])
    return {
        "of": found.of,
        "layer": layer,
        "position": found.position,
        "label": labels[found.position],
        "spelling": "source" if source else _columns(look)["side"],
        "place": found.place,
        "residual": found.residual,
        "parallel": found.parallel,
        **_stream(found),
        "units": [_unit(unit) for unit in found.units],
        "n_units": found.n_units,
        "silent": found.silent,
        "without": _without(look, layer, of, found.position, source, names) if without else None,
        "words": names.words,
    }


def _stream(found: BlockAt) -> dict[str, Any]:
    """The stages of the stream and what is added to it, as numbers and as vectors."""
    return {
        "stages": [_numbers(stage, "name", "length", "cosine") for stage in found.stages],
        "vectors": np.stack([stage.vector for stage in found.stages]),
        "added": [_numbers(a, "name", "length", "along", "cosine", "before") for a in found.added],
        "added_vectors": np.stack([added.vector for added in found.added]),
    }


def _unit(unit: Unit) -> dict[str, Any]:
    words = {"up": _words(unit.up), "down": _words(unit.down)}
    return {**_numbers(unit, "number", "value", "length"), **words}


def _without(
    look: Look, layer: int, of: str | None, place: int, source: bool, names: Names
) -> dict[str, Any]:
    found = without_residual(look.trace, layer, of)
    vector = found.after[place]
    value = {
        "length": float(np.linalg.norm(vector)),
        "cosine": float(found.cosine[place]),
        "vector": vector,
        "kl": None,
        "own": None,
        "then": None,
    }
    if source or found.logits is None or found.divergence is None:
        return value
    return {
        **value,
        "kl": float(found.divergence[place]),
        "own": _likeliest(look.trace.logits[place], names),
        "then": _likeliest(found.logits[place], names),
    }


# -- what they share -----------------------------------------------------------------------------------


def _check_token(value: Any) -> int | str | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return (
        value
        if (isinstance(value, int) and value >= 0) or (isinstance(value, str) and value)
        else None
    )


TOKEN = Param(_check_token, "a token's id, or its text", None)
"""A token of the vocabulary; may be left out."""


def _token_of(look: Look, token: int | str | None) -> int | None:
    return one_token(look.tokenizer, token) if isinstance(token, str) else token


def _columns(look: Look) -> dict[str, str]:
    """Which spelling names the rows of logits, and what these are about."""
    pair = isinstance(look.trace, PairTrace)
    return {
        "side": "predicted" if pair else "read",
        "predicts": "next" if rows_are_about_next(look.trace) else "this",
    }


def _place(look: Look, position: int | None) -> int:
    """The position asked for; null: the first masked one, or the last."""
    if position is None:
        position = look.masked[0] if look.masked else -1
    return position_of(look.trace, position)


def _likeliest(logits: Any, names: Names, n: int = 10) -> dict[str, Any]:
    """{"ids": i4 (n), "p": f4 (n)}: the n likeliest tokens of a row of logits."""
    chances = logits.double().softmax(-1)
    best = chances.topk(min(n, len(chances)))
    names.add(best.indices.cpu().numpy())
    ids = best.indices.cpu().numpy().astype(np.int32)
    return {"ids": ids, "p": best.values.cpu().numpy()}


def _words(pairs: tuple[tuple[int, float], ...]) -> dict[str, Any]:
    return {
        "ids": Stored(np.array([token for token, _ in pairs], dtype=np.int32), "i4"),
        "logit": np.array([change for _, change in pairs], dtype=np.float64),
    }


def _numbers(found: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(found, name) for name in names}


def _or_none(number: int | None) -> int:
    return -1 if number is None else number
