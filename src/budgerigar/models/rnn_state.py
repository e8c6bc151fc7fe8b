"""What a recurrent translator carries from step to step. B rows, S source positions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from budgerigar.layers.recurrent import Carried


@dataclass(frozen=True)
class Source:
    """What the decoder knows of the source. Several rows may share one: `rows` says which is whose.

    keys (N,S,A), values (N,S,C), padding (N,S) boolean: of an attention, N sources. context (N,C):
    the encoder's last state, where it enters every step. rows (B,): None where row b has source b.
    """

    lengths: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    padding: Tensor | None = None
    context: Tensor | None = None
    rows: Tensor | None = None

    def select(self, rows: Tensor) -> Source:
        """For some rows of the batch; nothing is copied."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def spread(self) -> Source:
        """The same with a source per row, copied where rows share one."""
        if self.rows is None:
            return self
        parts = {
            name: None if part is None else part[self.rows]
            for name, part in vars(self).items()
            if name != "rows"
        }
        return Source(**parts)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(t.nbytes for t in (self.keys, self.values, self.context) if t is not None)


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
