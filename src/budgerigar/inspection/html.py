"""One offline HTML file of a trace's heads: thumbnails, a large heat map, the number under the pointer.

The file asks nothing of any host (its own Content-Security-Policy forbids it) and opens from disk.
Weights are stored as 16-bit fractions of 1, so the numbers shown are within 0.00001 of the
library's; many heads of long texts as 8-bit ones, within 0.002, and the page says so. Text of the
user goes in as JSON with every `<` escaped and is only ever set as text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from budgerigar.inspection.html_page import PAGE
from budgerigar.inspection.matrix import MASKED, Matrix, scale_top
from budgerigar.inspection.palette import viridis

_SMALL = 4_000_000  # cells of all heads together that are stored with 16 bits each


def page(matrices: Sequence[Matrix], about: str = "") -> str:
    """The HTML text of `matrices`; the first is shown large at first.

    Those of one kind of attention share their labels and stand together.
    """
    data = json.dumps(_data(matrices, about)).replace("<", "\\u003c")
    return PAGE.replace("__TITLE__", escape(about or "attention")).replace("__DATA__", data)


def frame(matrices: Sequence[Matrix], about: str = "", height: int = 620) -> str:
    """The page in an iframe, for a notebook: its scripts and styles stay its own."""
    inner = escape(page(matrices, about), quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{inner}" style="{style}" title="attention heat map"></iframe>'


def _data(matrices: Sequence[Matrix], about: str) -> dict[str, Any]:
    masks: dict[str, int] = {}
    cells = sum(matrix.weights.size for matrix in matrices)
    kind, full = ("<u2", 65535) if cells <= _SMALL else ("u1", 255)
    heads, axes = [], list[dict[str, Any]]()
    for matrix in matrices:
        mask = _packed(_mask(matrix))
        shown = _axes(matrix)
        if not axes or axes[-1] != shown:
            axes.append(shown)
        heads.append(
            {
                "name": matrix.name,
                "short": matrix.short,
                "axes": len(axes) - 1,
                "weights": _packed(np.rint(matrix.weights * full).astype(kind)),
                "mask": masks.setdefault(mask, len(masks)),  # most heads share one
            }
        )
    return {
        "about": about,
        "axes": axes or [_axes(Matrix(np.zeros((0, 0)), [], []))],
        "reasons": ["", *MASKED.values()],
        "masks": list(masks),
        "heads": heads,
        "full": full,
        "top": scale_top(matrices),
        "colours": [viridis(k / 255) for k in range(256)],
    }


def _axes(matrix: Matrix) -> dict[str, Any]:
    """What rows and columns are; heads of one kind of attention share it."""
    return {
        "title": matrix.group,
        "queries": list(matrix.query_labels),
        "keys": list(matrix.key_labels),
        "queryAxis": matrix.query_axis,
        "keyAxis": matrix.key_axis,
    }


def _mask(matrix: Matrix) -> np.ndarray:
    """(T,S) uint8: 0 where visible, else the place of the reason in the page's list."""
    if matrix.mask is None:
        return np.zeros(matrix.weights.shape, dtype=np.uint8)
    return matrix.mask.codes


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
