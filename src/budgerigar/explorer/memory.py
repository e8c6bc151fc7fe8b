"""How many bytes a thing holds in tensors and arrays, so that what is kept can be bounded."""

from __future__ import annotations

from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
from torch import Tensor

_PLAIN = (str, bytes, int, float, type(None), type, FunctionType, MethodType, BuiltinFunctionType)


def held_bytes(thing: Any, but: Iterable[Any] = ()) -> int:
    """Bytes of all tensors and arrays that `thing` reaches, each memory once; not those that are
    reached through an object of `but` only (a network that others hold anyway).
    """
    seen = {id(one) for one in but}
    memories: dict[int, int] = {}
    waiting = [thing]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _PLAIN):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            storage = one.untyped_storage()
            memories[storage.data_ptr()] = storage.nbytes()
        elif isinstance(one, np.ndarray):
            owner = one.base if isinstance(one.base, np.ndarray) else one
            memories[owner.ctypes.data] = owner.nbytes
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            if not (one and isinstance(next(iter(one)), _PLAIN)):
                waiting += one
        else:
            waiting += vars(one).values() if hasattr(one, "__dict__") else ()
    return sum(memories.values())
