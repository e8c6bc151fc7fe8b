"""What the page shows: views, each a pure function from a question to JSON with arrays.

`ask(look, name, params)` gives the bytes of one; `VIEWS` names them all. The live page, every exported
file and the tests ask the same views, so that what is drawn is what the library computed. The exact
shape of each view's value is in the docstring of its function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from budgerigar.errors import UserError
from budgerigar.inspection.position_views import FARTHEST
from budgerigar.inspection.views.ancestors import back_off, gates, reach, unit
from budgerigar.inspection.views.cards import about, count
from budgerigar.inspection.views.fits import (
    attends,
    backs_off,
    fills,
    has_cross,
    has_gates,
    has_reach,
    has_stream,
    reads_out,
    writes,
)
from budgerigar.inspection.views.heads import grid, head, row
from budgerigar.inspection.views.lenses import TOKEN, attribution, block, lens
from budgerigar.inspection.views.linking import alignment, links
from budgerigar.inspection.views.look import Look, look_at
from budgerigar.inspection.views.masking import glance, mask_out
from budgerigar.inspection.views.params import (
    SITE,
    View,
    flag,
    number,
    one_of,
    place,
    text,
    texts,
    whole,
)
from budgerigar.inspection.views.payload import Stored, pack, unpack
from budgerigar.inspection.views.placing import positions
from budgerigar.inspection.views.reading import read
from budgerigar.inspection.views.roles_views import (
    born,
    compare,
    off,
    question,
    roles,
)
from budgerigar.inspection.views.stepping import matrix, steps
from budgerigar.inspection.views.writing import generate


def _always(params: Mapping[str, Any]) -> bool:
    return True


_HEAD = {"layer": whole(), "head": whole(), **SITE}

VIEWS: dict[str, View] = {
    "about": View(about),
    "count": View(count, {"texts": texts(32)}),
    "read": View(read, {"top": whole(1, 50, 10)}),
    "links": View(
        links, {"query": place(), "key": place(), **SITE, "untrained": flag(True)}, attends
    ),
    "grid": View(grid, {"layer": whole(0, None, None), **SITE}, attends),
    "head": View(head, {**_HEAD, "mask": flag(True)}, attends),
    "row": View(row, {**_HEAD, "query": whole()}, attends),
    "steps": View(
        steps,
        {
            **_HEAD,
            "query": whole(0, None, None),
            "full": flag(True),
            "parts": one_of("all", "head", "layer", default="all"),
        },
        attends,
    ),
    "matrix": View(
        matrix,
        {**_HEAD, "part": one_of("W_Q", "W_K", "W_V", "W_O"), "row": whole(0, None, None)},
        attends,
    ),
    "alignment": View(alignment, {"head": text(20, None)}, has_cross),
    "generate": View(
        generate,
        {
            "count": whole(1, 200, 20),
            "temperature": number(0.0, 100.0, 0.8),
            "top_k": whole(1, None, None),
            "top_p": number(1e-6, 1.0, None),
            "seed": whole(0, 2**31 - 1, 0),
        },
        writes,
        _always,
    ),
    "gates": View(gates, {"layer": whole(0, None, 0)}, has_gates),
    "unit": View(unit, {"layer": whole(), "unit": whole()}, has_gates),
    "reach": View(
        reach,
        {"distance": whole(1, None, None), "positions": whole(1, 256, 32)},
        has_reach,
        _always,
    ),
    "back_off": View(back_off, {"top": whole(1, 50, 5)}, backs_off),
    "lens": View(lens, {"top": whole(1, 50, 5)}, reads_out),
    "attribution": View(
        attribution,
        {
            "position": whole(0, None, None),
            "token": TOKEN,
            "against": TOKEN,
            "head": text(20, None),
            "kind": one_of("self", "cross", default="self"),
        },
        reads_out,
    ),
    "block": View(
        block,
        {
            "layer": whole(),
            "position": whole(0, None, None),
            "of": SITE["of"],
            "units": whole(0, 200, 10),
            "words": whole(1, 50, 5),
            "without": flag(False),
        },
        has_stream,
    ),
    "positions": View(
        positions,
        {
            "show": one_of("kind", "slide", "shuffle", default="kind"),
            "layer": whole(0, None, 0),
            "head": whole(0, None, 0),
            **SITE,
            "query": whole(0, None, None),
            "by": whole(0, FARTHEST, None),
            "seed": whole(0, 2**31 - 1, 0),
            "blind": flag(False),
            "rows": whole(1, 1024, None),
        },
        has_stream,
    ),
    "roles": View(roles, {}, attends, _always),
    "born": View(born, {"most": whole(2, 40, 16)}, attends, _always),
    "off": View(
        off,
        {"top": whole(1, 50, 8), "measure": flag(False)},
        attends,
        lambda params: bool(params.get("measure")),
    ),
    "compare": View(
        compare,
        {
            "other": question(),
            **SITE,
            "head": text(20, None),
            "units": one_of("tokens", "words", default=None),
        },
        attends,
    ),
    "glance": View(
        glance,
        {
            "position": whole(),
            "direction": one_of("from", "to", default="from"),
            "untrained": flag(True),
        },
        fills,
    ),
    "mask_out": View(mask_out, {"top": whole(1, 50, 5)}, fills, _always),
}
"""name -> view. Each theme's module has its functions; a new view is one line here."""

__all__ = [
    "VIEWS",
    "Look",
    "Stored",
    "View",
    "ask",
    "can",
    "look_at",
    "pack",
    "takes_long",
    "unpack",
    "value_of",
]


def ask(look: Look, name: str, params: Mapping[str, Any] | None = None) -> bytes:
    """The payload of one view.

    Raises:
        UserError: there is no such view, it does not fit the model, or a parameter is wrong.
    """
    return pack(value_of(look, name, params))


def value_of(look: Look, name: str, params: Mapping[str, Any] | None = None) -> Any:
    """The same before it is packed: JSON-able, with arrays."""
    view = VIEWS.get(name)
    if view is None:
        raise UserError(f"there is no view named {name!r}; there are {', '.join(VIEWS)}")
    if words := view.refusal(look.network):
        raise UserError(words)
    return view.run(look, **view.checked(name, params or {}))


def can(model: Any) -> list[str]:
    """Names of the views that fit a model."""
    return [name for name, view in VIEWS.items() if not view.refusal(model.network)]


def takes_long(name: str, params: Any) -> bool:
    """Whether an ask may take seconds even of a small model, so that nothing should wait for it."""
    view = VIEWS.get(name)
    return view is not None and isinstance(params, Mapping) and view.long(params)
