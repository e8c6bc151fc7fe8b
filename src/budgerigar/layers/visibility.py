"""Which keys a query may see, said once per forward pass and shared by all layers.

Shapes: B batch (1 where all rows agree), T query positions, S key positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class View:
    """Positions of queries and keys, and what else limits the view.

    `query_positions` (B|1,T) and `key_positions` (B|1,S) count within the sequence (or document).
    `causal`: no key after the query. `aligned`: queries and keys are the same, gapless positions, so
    the fused kernel's own causal mask is right (it aligns the first query with the first key).
    `sees_all`: nothing is hidden (one new token that looks back at a full cache).
    `key_valid` (B,S): real keys, not padding. `query_documents`, `key_documents`: attention stays
    within a document. `allowed` (B|1,T,S): keys on a query's own path through a tree of hypotheses.
    `memo`: masks made so far, which layers with the same window share.
    """

    query_positions: Tensor
    key_positions: Tensor
    causal: bool
    aligned: bool = False
    sees_all: bool = False
    key_valid: Tensor | None = None
    query_documents: Tensor | None = None
    key_documents: Tensor | None = None
    allowed: Tensor | None = None
    memo: dict[tuple[int | None, int], Tensor] = field(default_factory=dict)

    def visible(self, window: int | None = None, sink_tokens: int = 0) -> Tensor:
        """Boolean (B|1,T,S): True where the query may see the key."""
        queries, keys = self.query_positions[:, :, None], self.key_positions[:, None, :]
        seen = keys <= queries if self.causal else torch.ones_like(keys <= queries)
        if window is not None:
            near = keys > queries - window
            seen = seen & (near | (keys < sink_tokens) if sink_tokens else near)
        if self.query_documents is not None and self.key_documents is not None:
            seen = seen & (self.query_documents[:, :, None] == self.key_documents[:, None, :])
        if self.key_valid is not None:
            seen = seen & self.key_valid[:, None, :]
        if self.allowed is not None:
            seen = seen & self.allowed
        return seen

    def mask(self, window: int | None = None, sink_tokens: int = 0) -> Tensor | None:
        """`visible` as (B|1,1,T,S), or None where the fused kernel needs no mask."""
        longest = self.key_positions.shape[-1]
        unlimited = window is None or window >= longest
        if unlimited and (self.aligned or self.sees_all):
            return None
        key = (None if unlimited else window, sink_tokens)
        if key not in self.memo:
            self.memo[key] = self.visible(*key)[:, None]
        return self.memo[key]

    def blind_rows(self) -> bool:
        """Whether a query may exist that sees nothing at all: only padding can bring that about."""
        return self.key_valid is not None


def valid_places(tokens: Tensor, lengths: Tensor | None) -> Tensor | None:
    """(B,T) boolean: which tokens are real."""
    if lengths is None:
        return None
    return torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]


def view_of_memory(
    positions: Tensor, memories: list[tuple[Tensor, Tensor]], valid: Tensor | None
) -> View | None:
    """Every target position sees every real source position; None for a model without a source."""
    if not memories:
        return None
    keys = torch.arange(memories[0][0].shape[2], device=positions.device)[None]
    return View(positions, keys, causal=False, sees_all=valid is None, key_valid=valid)
