from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from budgerigar.models import ngram_arrays
from budgerigar.models.ngram_arrays import GrowingArray, roomy_empty


@pytest.mark.parametrize("spill", [1, 24, 1 << 20])
def test_what_was_put_in_comes_out(
    spill: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ngram_arrays, "SPILL_BYTES", spill)
    array = GrowingArray(np.int64, tmp_path)
    parts = [np.arange(n) * n for n in (3, 0, 1, 5, 2)]
    for part in parts:
        array.extend(part)
        array.extend(part[:0])
        if len(part):
            array.add_to_last(100)
            part[-1] += 100
    assert len(array) == 11
    found = array.finish()
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.concatenate(parts))
    found[0] = 7  # it can be written
    assert isinstance(found.base, np.memmap) == (spill < 1 << 20)
    assert not list(tmp_path.iterdir())  # files without a name


def test_nothing_is_an_empty_array() -> None:
    assert GrowingArray(np.int32).finish().shape == (0,)
    assert roomy_empty(0, np.int32).shape == (0,)


def test_large_arrays_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert roomy_empty(100, np.float64, tmp_path).base is None
    monkeypatch.setattr(ngram_arrays, "SPILL_BYTES", 100)
    array = roomy_empty(100, np.float64, tmp_path)
    assert isinstance(array.base, np.memmap)
    array[:] = np.arange(100)
    assert array.sum() == 4950


def test_a_full_disk_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a crash later, when a page of the mapping finds no place."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(ngram_arrays, "SPILL_BYTES", 100)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="no space left"):
        roomy_empty(100, np.float64, tmp_path)
