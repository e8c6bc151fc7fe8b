"""The page of gates: the text coloured by one unit, and every part of a layer, in one offline file."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.gates import CELL_NAMES, LayerGates
from budgerigar.inspection.gates_page_template import PAGE
from budgerigar.inspection.gates_plots import MEANING, largest
from budgerigar.inspection.gates_text import short, tokens
from budgerigar.inspection.gates_units import best_properties, followers
from budgerigar.inspection.palette import diverging, viridis

MOST_VALUES = 40_000_000
"""Values of all parts; a page of more is slow to open."""


def gates_page(layers: Sequence[LayerGates], unit: tuple[int, int] | None = None) -> str:
    """The HTML text of some layers of one trace; `unit` = (place in `layers`, unit) is shown first.

    Values are stored as 8-bit steps of their scale, so those shown are within 0.002 of a gate's own
    and within 1/254 of a signed scale's end.

    Raises:
        UserError: too long a text for one page.
    """
    values = sum(value.size for layer in layers for value in layer.values.values())
    if values > MOST_VALUES:
        raise UserError(
            f"{values:,} values are too many for one page; look at a shorter text, or draw a PNG"
        )
    start = unit if unit is not None else (0, _first(layers[0]))
    data = {
        "about": layers[0].about,
        "labels": layers[0].labels,
        "pieces": layers[0].spelling.pieces,
        "layers": [_layer(layer) for layer in layers],
        "start": list(start),
        "open": [viridis(k / 255) for k in range(256)],
        "signed": [diverging((k - 127) / 127) for k in range(255)],
    }
    text = json.dumps(data).replace("<", "\\u003c")
    return PAGE.replace("__TITLE__", escape(layers[0].about or "gates")).replace("__DATA__", text)


def _first(gates: LayerGates) -> int:
    """The unit to begin with: one that follows the text, else the one with the longest memory."""
    found = [one for one in followers(gates) if one.is_more]
    if found:
        return max(found, key=lambda one: abs(one.correlation)).unit
    return int(gates.order[0])


def _layer(gates: LayerGates) -> dict[str, Any]:
    follows = best_properties(gates)
    return {
        "name": f"{gates.name}: {CELL_NAMES[gates.kind]}, {gates.n_units} units",
        "short": gates.name,
        "units": gates.n_units,
        "difference": f"{gates.difference:.0e}",
        "order": gates.order.tolist(),
        "memory": [tokens(float(length)) for length in gates.memory_lengths],
        "follows": ["" if f is None else f"{f[0]} (correlation {f[1]:+.2f})" for f in follows],
        "shown": "tanh(cell)" if gates.kind == "lstm" else "state",
        "parts": [_part(gates, name) for name in gates.values],
        "text": _packed(gates.shown, 1.0),
    }


def _part(gates: LayerGates, name: str) -> dict[str, Any]:
    is_gate = name in gates.gates
    top = 1.0 if is_gate else float(largest(gates, name))
    value = gates.values[name]
    packed = _bytes(np.rint(value * 255)) if is_gate else _packed(value, top)
    return {
        "name": short(name),
        "meaning": MEANING[name],
        "gate": is_gate,
        "top": top,
        "values": packed,
    }


def _packed(values: np.ndarray, top: float) -> str:
    """Signed values (T,H) as bytes: 127 is 0, 0 is -top and below, 254 top and above."""
    return _bytes(np.clip(np.rint(values / top * 127), -127, 127) + 127)


def _bytes(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values.astype(np.uint8)).tobytes()).decode("ascii")
