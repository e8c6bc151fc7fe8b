"""What a recurrent translator carries from step to step. B rows, S source positions."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from budgerigar.layers.additive_attention import Source
from budgerigar.layers.recurrent import Carried


@dataclass
class RnnState:
    """The state of `start` and `step`: a hidden vector (and a cell) per layer, and the source."""

    lengths: Tensor
    layers: list[Carried]
    source: Source

    @property
    def source_lengths(self) -> Tensor | None:
        """(B,) real tokens of each row's source; None: all."""
        lengths, rows = self.source.lengths, self.source.rows
        return lengths if lengths is None or rows is None else lengths[rows]

    def select(self, rows: Tensor) -> RnnState:
        """A copy of some rows, in any order, repeats allowed; they go on sharing their sources."""
        layers = [layer.select(rows) for layer in self.layers]
        return RnnState(self.lengths[rows], layers, self.source.select(rows))

    @property
    def nbytes(self) -> int:
        """Bytes carried from step to step."""
        return sum(layer.nbytes for layer in self.layers) + self.source.nbytes
