"""Names of heads: `L2.H3`, layers and heads counted from 0."""

from __future__ import annotations

import re

from budgerigar.errors import UserError


def parse_head(name: str, n_layers: int, n_heads: int) -> tuple[int, int]:
    """(layer, head) of "L2.H3". `UserError` for another form or a head that is not there."""
    layer, heads = parse_heads(name, n_layers, n_heads)
    if len(heads) != 1 or "H" not in name.upper():
        raise UserError(f"{name!r} names a layer; name one head of it, e.g. L{layer}.H0")
    return layer, heads[0]


def parse_heads(name: str, n_layers: int, n_heads: int) -> tuple[int, list[int]]:
    """(layer, heads) of "L2.H3", or of "L2": all heads of the layer."""
    found = re.fullmatch(r"L(\d+)(?:\.?H(\d+))?", name.strip(), re.IGNORECASE)
    if not found:
        raise UserError(f"{name!r} is no head; heads are named like L2.H3, counted from 0")
    layer = int(found[1])
    if layer >= n_layers:
        raise UserError(f"there is no layer {layer}: the model has layers L0 to L{n_layers - 1}")
    if found[2] is None:
        return layer, list(range(n_heads))
    head = int(found[2])
    if head >= n_heads:
        raise UserError(f"there is no head {head}: each layer has heads H0 to H{n_heads - 1}")
    return layer, [head]
