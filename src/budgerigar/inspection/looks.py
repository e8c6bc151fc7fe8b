"""Where every head looks from one position, or from where it looks at it, beside what proves little.

For each head the strongest of these weights, with the baselines of `links`: the same head between other
tokens as far apart, the same head of an untrained copy, and all visible keys alike.

Shapes: T query and S key positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from budgerigar.inspection.links import same_distance
from budgerigar.inspection.traces import Trace

Direction = Literal["from", "to"]


@dataclass(frozen=True)
class Glance:
    """One head: `other` is the position looked at ("from"), or the one that looks ("to"); the rest as
    of `links.Link`.
    """

    name: str
    other: int
    weight: float
    distance: float | None
    untrained: float | None
    uniform: float


def glances(
    trace: Trace, position: int, direction: Direction = "from", untrained: Trace | None = None
) -> list[Glance]:
    """Every head of a model's self-attention, the strongest first; a look at itself is left out.

    untrained: a trace of the same tokens by a fresh copy. `UserError` for no such position.
    """
    site = trace.site(kind="self")
    (place,) = site.query_spelling.find(position)
    found = []
    for head in trace.heads(of=site.of, kind="self"):
        weights, visible = head.weights, ~head.mask.hidden
        line = (weights[place] if direction == "from" else weights[:, place]).copy()
        line[place] = -1.0
        other = int(np.argmax(line))
        row, column = (place, other) if direction == "from" else (other, place)
        fresh = None
        if untrained is not None:
            fresh = float(untrained.attention(head.name, site.of, "self").weights[row, column])
        alike = visible[row, column] / max(1, int(visible[row].sum()))
        elsewhere, _ = same_distance(weights, visible, [row], [column])
        found.append(
            Glance(head.name, other, float(weights[row, column]), elsewhere, fresh, float(alike))
        )
    return sorted(found, key=lambda one: -one.weight)
