"""What a Transformer carries from step to step: keys and values of every layer.

One buffer per layer (a single buffer for all layers is copied whole by compilers that functionalise
slice writes). Rows are right-padded: row b holds `lengths[b]` real slots, what lies beyond is stale
and hidden by the causal mask. Shapes: B batch, K key-value heads, C capacity in slots, E d_head.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

BUCKET = 64  # capacity grows in multiples of this, and at least doubles


@dataclass
class LayerCache:
    """Keys (as used, after rotation) and values of one layer, (B,K,C,E) each; None before the first."""

    key: Tensor | None = None
    value: Tensor | None = None

    def write(
        self, key: Tensor, value: Tensor, slots: Tensor | int, end: int
    ) -> tuple[Tensor, Tensor]:
        """Store (B,K,T,E) at `slots` (first slot, or (B,T) per row); return all (B,K,end,E)."""
        self._grow(key, end)
        assert self.key is not None
        assert self.value is not None
        if isinstance(slots, int):
            self.key[:, :, slots:end] = key
            self.value[:, :, slots:end] = value
        else:
            rows = torch.arange(key.shape[0], device=key.device)[:, None]
            self.key[rows, :, slots] = key.transpose(1, 2).to(self.key.dtype)
            self.value[rows, :, slots] = value.transpose(1, 2).to(self.value.dtype)
        return self.key[:, :, :end], self.value[:, :, :end]

    def _grow(self, like: Tensor, end: int) -> None:
        capacity = 0 if self.key is None else self.key.shape[2]
        if end <= capacity:
            return
        wanted = -(-max(end, 2 * capacity) // BUCKET) * BUCKET
        batch, heads, _, width = like.shape
        for name in ("key", "value"):
            # zeros, not empty: stale slots are hidden by weights of 0, and 0 times NaN is NaN
            fresh = like.new_zeros(batch, heads, wanted, width)
            old = getattr(self, name)
            if old is not None:
                fresh[:, :, :capacity] = old
            setattr(self, name, fresh)

    def select(self, rows: Tensor, used: int) -> LayerCache:
        """A copy of some rows, in any order, repeats allowed; of their first `used` slots."""
        chosen = LayerCache()
        if self.key is None or self.value is None:
            return chosen
        chosen._grow(self.key[:1].expand(len(rows), -1, -1, -1), used + 1)
        for name in ("key", "value"):
            getattr(chosen, name)[:, :, :used] = getattr(self, name)[:, :, :used][rows]
        return chosen

    @property
    def nbytes(self) -> int:
        """Bytes that the buffers hold, spare capacity included."""
        return sum(t.nbytes for t in (self.key, self.value) if t is not None)


@dataclass
class TransformerState:
    """The state of `start` and `step`.

    `longest`: the largest of `lengths`; `offset` (B,): tokens dropped by rolling.
    """

    lengths: Tensor
    layers: list[LayerCache]
    longest: int = 0
    even: bool = True  # all rows have `longest` tokens
    offset: Tensor | None = None
    cross: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    source_valid: Tensor | None = None
    source_lengths: Tensor | None = None

    def select(self, rows: Tensor) -> TransformerState:
        """A copy of some rows, in any order, repeats allowed: beams, finished rows, forks."""
        lengths = self.lengths[rows]
        longest = int(lengths.max()) if len(lengths) else 0
        even = self.even or bool((lengths == longest).all())

        def pick(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[rows]

        return TransformerState(
            lengths,
            [layer.select(rows, self.longest) for layer in self.layers],
            longest,
            even,
            pick(self.offset),
            [(key[rows], value[rows]) for key, value in self.cross],
            pick(self.source_valid),
            pick(self.source_lengths),
        )

    @property
    def nbytes(self) -> int:
        """Bytes carried from step to step."""
        cross = sum(key.nbytes + value.nbytes for key, value in self.cross)
        return sum(layer.nbytes for layer in self.layers) + cross
