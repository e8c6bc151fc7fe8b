"""The k largest logits of each row, and which of several equals: always the lowest ids.

`torch.topk` leaves open which of equal values it returns; a search whose result must not depend on
the batch cannot. Shapes: N rows, V vocab_size.
"""

from __future__ import annotations

from torch import Tensor


def top(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values and ids (N, min(k, V)), largest first; of equals the lower id first."""
    size = logits.shape[-1]
    if k == 1:
        values, ids = logits.max(-1, keepdim=True)
        return values, ids
    if k >= size:
        values, ids = logits.sort(dim=-1, descending=True, stable=True)
        return values, ids
    values, ids = logits.topk(k + 1)
    values, ids = _ordered(values, ids)
    torn = values[:, k - 1] == values[:, k]  # equals on both sides of the cut
    if bool(torn.any()):
        all_values, all_ids = logits[torn].sort(dim=-1, descending=True, stable=True)
        values[torn], ids[torn] = all_values[:, : k + 1], all_ids[:, : k + 1]
    return values[:, :k], ids[:, :k]


def _ordered(values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """By value, largest first; equals by id."""
    ids, order = ids.sort(-1)
    values, again = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(-1, again)
