"""A rolling cache: the first tokens and the last window stay, the middle goes (Xiao et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

from budgerigar.layers.block import Stack
from budgerigar.layers.cache import LayerCache, TransformerState
from budgerigar.layers.elementwise import rotate
from budgerigar.layers.positions import Rotary


def roll_state(state: TransformerState, stack: Stack, sinks: int, keep: int) -> TransformerState:
    """Keep slots 0..sinks-1 and the last `keep` of each row; the state is changed and returned.

    A slot's position is its index plus the row's `offset`, so kept tokens keep their angles and only
    the sinks, which move forward by what was dropped, are turned on.
    """
    dropped = (state.lengths - sinks - keep).clamp(min=0)  # (B,)
    size = min(int(state.lengths.max()), sinks + keep) if len(dropped) else 0
    slots = torch.arange(size, device=dropped.device)[None]
    taken = torch.where(slots < sinks, slots, slots + dropped[:, None])  # (B,size)
    for layer, cache in enumerate(state.layers):
        _roll_layer(cache, taken, sinks, _rotary(stack, layer), dropped)
    state.lengths = state.lengths - dropped
    state.longest = int(state.lengths.max()) if len(dropped) else 0
    state.even = bool((state.lengths == state.longest).all())
    state.offset = dropped if state.offset is None else state.offset + dropped
    return state


def _rotary(stack: Stack, layer: int) -> Rotary | None:
    return stack.rotary[stack.rotary_of[layer]] if stack.rotary else None  # type: ignore[return-value]


def _roll_layer(
    cache: LayerCache, taken: Tensor, sinks: int, rotary: Rotary | None, dropped: Tensor
) -> None:
    assert cache.key is not None
    assert cache.value is not None
    rows = torch.arange(taken.shape[0], device=taken.device)[:, None]
    key = cache.key[rows, :, taken].transpose(1, 2).contiguous()  # (B,K,size,E)
    value = cache.value[rows, :, taken].transpose(1, 2).contiguous()
    if rotary is not None and sinks:
        cosines, sines = rotary.angles(dropped[:, None])
        turn = (cosines[:, None] / rotary.factor, sines[:, None] / rotary.factor)
        key[:, :, :sinks] = rotate(key[:, :, :sinks], *turn)
    cache.key, cache.value = key, value
