"""`Matrix`: the weights of one head with their labels, which every kind of picture is drawn from.

Shapes: T queries, S keys. A row is a query (the token that looks), a column a key (the token looked
at); each row sums to 1, or to 0 when it sees nothing, or to less when a sink takes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

QUERY_AXIS = "query: the token that looks"
KEY_AXIS = "key: the token looked at"
MASKED = {
    "future": "masked: comes later",
    "window": "masked: outside the window",
    "document": "masked: another document",
    "padding": "masked: padding",
}
"""What each entry of `mask_reason` means in words."""

_TOPS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@dataclass
class Matrix:
    """weights (T,S); labels per row and column; mask_reason (T,S): "" where the cell is visible."""

    weights: np.ndarray
    query_labels: Sequence[str]
    key_labels: Sequence[str]
    mask_reason: np.ndarray | None = None
    name: str = ""
    about: str = ""
    masked: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.weights = np.asarray(self.weights, dtype=np.float64)
        shape = (len(self.query_labels), len(self.key_labels))
        assert self.weights.shape == shape, f"weights {self.weights.shape}, labels {shape}"
        if self.mask_reason is None:
            self.masked = np.zeros(shape, dtype=bool)
        else:
            assert self.mask_reason.shape == shape
            self.masked = np.asarray(self.mask_reason != "")

    @property
    def reasons(self) -> list[str]:
        """Kinds of mask that occur, in the order of `MASKED`."""
        if self.mask_reason is None:
            return []
        present = set(np.unique(self.mask_reason.astype(str)))
        return [reason for reason in MASKED if reason in present]


def scale_top(matrices: Sequence[Matrix]) -> float:
    """Upper end of the colour scale: 1, or the next round number when all weights are small."""
    largest = max((float(m.weights.max(initial=0.0)) for m in matrices), default=1.0)
    return min((top for top in _TOPS if top >= largest - 1e-9), default=1.0)
