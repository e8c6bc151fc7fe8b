"""An encoder's text with tokens hidden: what would stand there, and who looked.

Shapes: n positions, k words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.inspection.looks import Direction, glances
from budgerigar.inspection.masked_out import mask_each
from budgerigar.inspection.names import parse_head
from budgerigar.inspection.views.linking import why_no_copy
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.payload import Stored
from budgerigar.inspection.views.sides import Names


def mask_out(look: Look, top: int = 5) -> dict[str, Any]:
    """Every token hidden in turn (those that the question masks stay hidden): what would stand there?

    n tokens that are no special ones, k = `top`:
    {"positions": i4 (n), "nats": f4 (n) (of the token that stands there, hidden by itself),
     "rank": i4 (n), "top_ids": i4 (n,k), "top_p": f4 (n,k), "total": nats, "words": {str(id): label},
     "full_scale": nats at the end of the colours}
    """
    from budgerigar.inspection.surprise import FULL_SCALE

    whole = Look(look.model, {k: v for k, v in look.question.items() if k != "mask"})
    ids = whole.trace.ids
    special = set(look.tokenizer.special_ids.values())
    places = [at for at, token in enumerate(ids) if token not in special]
    found = mask_each(look.network, look.tokenizer, ids, places, top, also=look.masked)
    names = Names(look.tokenizer)
    names.add(found.top_ids.astype(np.int64))
    return {
        "positions": found.positions.astype(np.int32),
        "nats": Stored(found.nats, "f4"),
        "rank": found.rank.astype(np.int32),
        "top_ids": found.top_ids.astype(np.int32),
        "top_p": Stored(found.top_p, "f4"),
        "total": float(found.nats.sum()),
        "words": names.words,
        "full_scale": FULL_SCALE,
    }


def glance(
    look: Look, position: int, direction: str = "from", untrained: bool = True
) -> dict[str, Any]:
    """Where every head looks from `position` ("from"), or from where at it ("to"), itself left out.

    {"position", "direction", "label": of the token there, "why_no_untrained": str (as of `links`),
     "heads": [{"name", "layer", "head", "other": the strongest other position, "label": of it,
       "weight", "distance": float|null, "untrained": float|null, "uniform"}] (the strongest first; the
     baselines are those of `links`)}
    """
    trace = look.trace
    why = why_no_copy(look) if untrained else ""
    copy = look.untrained if untrained and not why else None
    way: Direction = "from" if direction == "from" else "to"
    found = glances(trace, position, way, copy)
    site = trace.site(kind="self")
    labels = site.query_spelling.labels
    return {
        "position": position,
        "direction": direction,
        "label": labels[position],
        "why_no_untrained": why,
        "heads": [
            {**vars(one), **_place(one.name, site), "label": labels[one.other]} for one in found
        ],
    }


def _place(name: str, site: Any) -> dict[str, int]:
    layer, head = parse_head(name, len(site.modules), site.modules[0].n_heads)
    return {"layer": layer, "head": head}
