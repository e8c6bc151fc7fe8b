"""One forward pass to be looked at: what it is given, how it runs. T positions, V vocab_size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.layers.taps import Taps
from budgerigar.models.modes import without_dropout

_PARTS = ("query", "key", "value", "query_unrotated", "key_unrotated", "head_output")


def pass_inputs(network: Any, ids: Sequence[int], start_id: int | None) -> dict[str, Tensor]:
    """What one pass over `ids` is given: tokens (1,T) and, where `start_id` stands in them again, the
    documents that it opens, which do not see each other.
    """
    inputs = {"tokens": torch.tensor([list(ids)], device=network.device)}
    attends = any(getattr(network, stack, None) is not None for stack in ("encoder", "decoder"))
    if start_id is not None and start_id in ids[1:] and attends:
        inputs |= _documents(inputs["tokens"], start_id)  # an n-gram sees for itself
    return inputs


def run(
    network: Any, inputs: dict[str, Tensor], record: Sequence[str] = ("*",)
) -> tuple[Tensor, dict[str, Tensor]]:
    """One forward pass without dropout -> logits (1,T,V) and the recorded values by name."""
    with without_dropout(network), torch.no_grad():
        if not hasattr(network, "forward"):
            state = network.start(1)
            return network.step(inputs["tokens"], state, all_positions=True)[0], {}
        taps = Taps(record=(*(f"*_attention.{part}" for part in _PARTS), *record))
        return network.forward(**inputs, taps=taps), taps.values


def array(tensor: Tensor) -> np.ndarray:
    """A float32 array of a tensor on any device."""
    return np.asarray(tensor.detach().float().cpu().numpy())


def _documents(tokens: Tensor, start_id: int) -> dict[str, Tensor]:
    """Document numbers and positions that restart at each start token, as in training."""
    documents = (tokens == start_id).cumsum(1)
    index = torch.arange(tokens.shape[1], device=tokens.device)[None]
    starts = torch.where(tokens == start_id, index, torch.zeros_like(index)).cummax(1).values
    return {"document_ids": documents, "positions": index - starts}
