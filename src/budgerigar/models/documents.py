"""Where documents begin in a batch, for models that carry a state. B batch, T positions."""

from __future__ import annotations

import torch
from torch import Tensor


def since_opening(
    tokens: Tensor, document_ids: Tensor | None, positions: Tensor | None, far: int = 0
) -> Tensor | None:
    """(B,T): how many tokens of its document each token (B,T) has before it; None: no documents.

    `positions` (B,T) say it. Else it is counted from where `document_ids` (B,T) change, and before
    the first change from `far` on.
    """
    if positions is not None:
        return positions.expand(tokens.shape)
    if document_ids is None:
        return None
    places = torch.arange(tokens.shape[1], device=tokens.device)[None].expand(tokens.shape)
    changes = torch.zeros_like(tokens, dtype=torch.bool)
    changes[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    begun = torch.where(changes, places, places.new_full((), -far)).cummax(1).values
    return places - begun
