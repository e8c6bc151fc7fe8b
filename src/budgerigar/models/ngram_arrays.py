"""Arrays that may be larger than memory: past some size they lie in a temporary file, mapped.

The system then keeps in memory what it has room for and fetches the rest when it is touched. The
files have no name (they are gone with the process, also after a kill). Imports no torch.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

SPILL_BYTES = 1 << 26
"""From this size on an array lies in a file."""


def roomy_empty(size: int, dtype: DTypeLike, folder: Path | None = None) -> NDArray[Any]:
    """An array (size,) without content, in a file inside `folder` (None: the system's) if large."""
    kind = np.dtype(dtype)
    if size * kind.itemsize < SPILL_BYTES:
        return np.empty(size, kind)
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(
                file.fileno(), 0, size * kind.itemsize
            )  # a full disk is an error now
        else:
            file.truncate(size * kind.itemsize)
        return np.asarray(
            np.memmap(file, kind, mode="r+")
        )  # the mapping outlives the file's handle


class GrowingArray:
    """An array that grows at its end; `finish` gives it out."""

    def __init__(self, dtype: DTypeLike, folder: Path | None = None) -> None:
        self._dtype, self._folder = np.dtype(dtype), folder
        self._parts: list[NDArray[Any]] = []  # what is not in the file yet
        self._waiting = 0  # bytes of them
        self._file: Any = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, values: NDArray[Any]) -> None:
        """Put a copy of `values` (n,) at the end."""
        if not len(values):
            return
        if self._waiting >= SPILL_BYTES:
            self._spill()
        self._parts.append(np.array(values, self._dtype))
        self._waiting += self._parts[-1].nbytes
        self._size += len(values)

    def add_to_last(self, amount: int) -> None:
        """Add to the last entry, which is always in memory still."""
        self._parts[-1][-1] += amount

    def finish(self) -> NDArray[Any]:
        """The whole array; nothing can be added after this."""
        if self._file is None:
            return np.concatenate(self._parts) if self._parts else np.empty(0, self._dtype)
        self._spill()
        self._file.flush()
        with self._file:
            return np.asarray(np.memmap(self._file, self._dtype, mode="r+"))

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (`finish` closes)
        for part in self._parts:
            self._file.write(part.tobytes())
        self._parts, self._waiting = [], 0
