"""One offline HTML file of a trace's heads: thumbnails, a large heat map, the number under the pointer.

The file asks nothing of any host (its own Content-Security-Policy forbids it) and opens from disk.
Weights are stored as 16-bit fractions of 1, so the numbers shown are within 0.00001 of the
library's. Text of the user goes in as JSON with every `<` escaped and is only ever set as text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from budgerigar.inspection.html_page import PAGE
from budgerigar.inspection.matrix import KEY_AXIS, MASKED, QUERY_AXIS, Matrix, scale_top
from budgerigar.inspection.palette import viridis

_REASONS = ["", *MASKED]
_FULL = 65535


def page(matrices: Sequence[Matrix], about: str = "") -> str:
    """The HTML text of `matrices`, which share their labels; the first is shown large at first."""
    data = json.dumps(_data(matrices, about)).replace("<", "\\u003c")
    return PAGE.replace("__TITLE__", escape(about or "attention")).replace("__DATA__", data)


def frame(matrices: Sequence[Matrix], about: str = "", height: int = 620) -> str:
    """The page in an iframe, for a notebook: its scripts and styles stay its own."""
    inner = escape(page(matrices, about), quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{inner}" style="{style}" title="attention heat map"></iframe>'


def _data(matrices: Sequence[Matrix], about: str) -> dict[str, Any]:
    masks: dict[str, int] = {}
    heads = []
    for matrix in matrices:
        mask = _masks(matrix)
        heads.append(
            {
                "name": matrix.name,
                "weights": _packed(np.rint(matrix.weights * _FULL).astype("<u2")),
                "mask": masks.setdefault(mask, len(masks)),  # most heads share one
            }
        )
    return {
        "about": about,
        "queries": list(matrices[0].query_labels) if matrices else [],
        "keys": list(matrices[0].key_labels) if matrices else [],
        "queryAxis": QUERY_AXIS,
        "keyAxis": KEY_AXIS,
        "reasons": ["", *MASKED.values()],
        "masks": list(masks),
        "heads": heads,
        "top": scale_top(matrices),
        "colours": [viridis(k / 255) for k in range(256)],
    }


def _masks(matrix: Matrix) -> str:
    codes = np.zeros(matrix.weights.shape, dtype=np.uint8)
    for code, reason in enumerate(_REASONS):
        if reason and matrix.mask_reason is not None:
            codes[np.asarray(matrix.mask_reason == reason)] = code
    return _packed(codes)


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
