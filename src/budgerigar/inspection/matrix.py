"""`Matrix`: the weights of one head with their labels, which every kind of picture is drawn from.

Shapes: T queries, S keys. A row is a query (the token that looks), a column a key (the token looked
at); each row sums to 1, or to 0 when it sees nothing, or to less when a sink takes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

QUERY_AXIS = "query: the token that looks"
KEY_AXIS = "key: the token looked at"
PREDICTED_AXIS = "query: the token being predicted"
SOURCE_AXIS = "key: the source token"
MASKED = {
    "future": "masked: later tokens",
    "window": "masked: outside the window",
    "document": "masked: another document",
    "padding": "masked: padding",
    "source": "masked: the source is switched off",
}
"""What each entry of `mask_reason` means in words."""

_TOPS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


class Mask:
    """Which cells are hidden and why. Shared by all heads that see the same, since it is large."""

    def __init__(self, codes: np.ndarray) -> None:
        """codes (T,S) uint8: 0 where the cell is visible, else 1 + the reason's place in `MASKED`."""
        self.codes = codes

    @classmethod
    def of(cls, reasons: np.ndarray) -> Mask:
        """From (T,S) of str: "" or one of `MASKED`."""
        codes = np.zeros(reasons.shape, dtype=np.uint8)
        for code, reason in enumerate(MASKED, 1):
            codes[reasons == reason] = code
        return cls(codes)

    @classmethod
    def whole(cls, reason: str, shape: tuple[int, ...]) -> Mask:
        """Everything (T,S) hidden for one reason."""
        return cls(np.full(shape, 1 + list(MASKED).index(reason), dtype=np.uint8))

    @cached_property
    def hidden(self) -> np.ndarray:
        """(T,S) bool."""
        return np.asarray(self.codes > 0)

    @cached_property
    def reasons(self) -> np.ndarray:
        """(T,S) of str."""
        return np.array(["", *MASKED])[self.codes]

    @cached_property
    def kinds(self) -> list[str]:
        """Reasons that occur, in the order of `MASKED`."""
        counts = np.bincount(self.codes.ravel(), minlength=len(MASKED) + 1)
        return [reason for code, reason in enumerate(MASKED, 1) if counts[code]]

    def where(self, reason: str) -> np.ndarray:
        """(T,S) bool: hidden for this reason."""
        return np.asarray(self.codes == 1 + list(MASKED).index(reason))


@dataclass
class Matrix:
    """weights (T,S); labels per row and column; which cells are masked (None: none).

    query_axis, key_axis: what rows and columns are, in words. group: the kind of attention, where a
    model has several ("decoder, cross-attention"); it stands in brackets behind the name.
    """

    weights: np.ndarray
    query_labels: Sequence[str]
    key_labels: Sequence[str]
    mask: Mask | None = None
    name: str = ""
    about: str = ""
    query_axis: str = QUERY_AXIS
    key_axis: str = KEY_AXIS
    group: str = ""
    masked: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.weights = np.asarray(self.weights, dtype=np.float64)
        shape = (len(self.query_labels), len(self.key_labels))
        assert self.weights.shape == shape, f"weights {self.weights.shape}, labels {shape}"
        self.masked = np.zeros(shape, dtype=bool) if self.mask is None else self.mask.hidden
        assert self.masked.shape == shape

    @property
    def short(self) -> str:
        """The name without the kind of attention: `L2.H3`."""
        return self.name.removesuffix(f" ({self.group})")

    @property
    def reasons(self) -> list[str]:
        """Kinds of mask that occur, in the order of `MASKED`."""
        return [] if self.mask is None else self.mask.kinds


def scale_top(matrices: Sequence[Matrix]) -> float:
    """Upper end of the colour scale: 1, or the next round number when all weights are small."""
    largest = max((float(m.weights.max(initial=0.0)) for m in matrices), default=0.0)
    if largest == 0.0:
        return 1.0  # nothing is looked at
    return min((top for top in _TOPS if top >= largest - 1e-9), default=1.0)
