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


def run_together(
    network: Any, given: Sequence[dict[str, Tensor]], record: Sequence[str] = ()
) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """What `run` returns for each of `given`, in one pass over all of them.

    Only values that have a row for each token (…,T,E) may be recorded beside those of attention.
    Inputs that say more than tokens (1,T) and source (1,S) are run alone: they have documents.
    """
    if len(given) == 1 or any(inputs.keys() - {"tokens", "source"} for inputs in given):
        return [run(network, inputs, record) for inputs in given]
    padded: dict[str, Tensor] = {}
    lengths: dict[str, list[int]] = {}
    for side, name in (("tokens", "lengths"), ("source", "source_lengths")):
        if side not in given[0]:
            continue
        rows = [inputs[side][0] for inputs in given]
        lengths[side] = [len(row) for row in rows]
        padded[side] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        padded[name] = torch.tensor(lengths[side], device=rows[0].device)
    logits, values = run(network, padded, record)
    found = []
    for row in range(len(given)):
        sizes = {side: many[row] for side, many in lengths.items()}
        own = {
            name: value[row : row + 1, ..., : sizes[_side_of(name, "source" in given[0])], :]
            for name, value in values.items()
        }
        found.append((logits[row : row + 1, : sizes["tokens"]], own))
    return found


def _side_of(name: str, paired: bool) -> str:
    """Whether a recorded value has a row for each token or for each token of the source."""
    stem, part = name.rsplit(".", 1)
    crossing = stem.endswith("cross_attention") and part.startswith(("key", "value"))
    return "source" if paired and (name.startswith("encoder.") or crossing) else "tokens"


def array(tensor: Tensor) -> np.ndarray:
    """A float32 array of a tensor on any device."""
    return np.asarray(tensor.detach().float().cpu().numpy())


def _documents(tokens: Tensor, start_id: int) -> dict[str, Tensor]:
    """Document numbers and positions that restart at each start token, as in training."""
    documents = (tokens == start_id).cumsum(1)
    index = torch.arange(tokens.shape[1], device=tokens.device)[None]
    starts = torch.where(tokens == start_id, index, torch.zeros_like(index)).cummax(1).values
    return {"document_ids": documents, "positions": index - starts}
