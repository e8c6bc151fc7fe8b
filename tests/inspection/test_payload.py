"""What is packed comes back, and the stated precision is true."""

from __future__ import annotations

import json
import struct
from typing import Any

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgerigar.inspection.views.payload import Stored, described, pack, unpack

_floats = st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-1, 1, width=32)
_shapes = arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text().filter(lambda k: k != "$array"), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=50, deadline=None)
@given(_json.filter(lambda v: "Infinity" not in json.dumps(v)))
def test_json_comes_back(value: Any) -> None:
    assert unpack(pack(value)) == value


@settings(max_examples=50, deadline=None)
@given(
    arrays_of.arrays(np.float64, _shapes, elements=_floats),
    st.sampled_from(["u1", "u2", "f2", "f4"]),
)
def test_within_is_true(array: np.ndarray, kind: Any) -> None:
    data = pack({"x": Stored(array, kind)})
    (entry,) = described(data)
    back = unpack(data)["x"]
    assert back.shape == array.shape
    assert back.dtype == np.float32
    apart = np.abs(back.astype(np.float64) - array).max(initial=0.0)
    assert apart <= entry.get("within", 0.0)


@settings(max_examples=50, deadline=None)
@given(arrays_of.arrays(np.float32, _shapes, elements=_floats))
def test_float32_comes_back_bit_by_bit(array: np.ndarray) -> None:
    data = pack(array)
    assert "within" not in described(data)[0]
    assert unpack(data).tobytes() == array.tobytes()


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([np.int64, np.int32, np.uint8, np.uint16, np.bool_]).flatmap(
        lambda kind: arrays_of.arrays(
            kind,
            _shapes,
            elements=None if kind is not np.int64 else st.integers(-(2**31), 2**31 - 1),
        )
    )
)
def test_whole_numbers_come_back(array: np.ndarray) -> None:
    data = pack([array])
    assert (unpack(data)[0] == array).all()
    assert unpack(data)[0].shape == array.shape
    largest = int(array.max(initial=0))
    if array.size and array.min() >= 0:
        assert described(data)[0]["type"] == (
            "u1" if largest < 256 else "u2" if largest < 65536 else "i4"
        )


@settings(max_examples=50, deadline=None)
@given(st.lists(arrays_of.arrays(np.float32, _shapes, elements=_floats), max_size=4), st.text())
def test_the_layout_of_bytes(arrays: list[np.ndarray], text: str) -> None:
    data = pack({"text": text, "many": [Stored(a, "f4") for a in arrays]})
    (length,) = struct.unpack("<I", data[:4])
    assert (4 + length) % 8 == 0
    header = json.loads(data[4 : 4 + length])
    assert header["value"] == {
        "text": text,
        "many": [{"$array": i} for i in range(len(arrays))],
    }
    for entry, array in zip(header["arrays"], arrays, strict=True):
        start = 4 + length + entry["offset"]
        assert start % 8 == 0
        assert data[start : start + array.nbytes] == array.astype("<f4").tobytes()
    assert len(data) % 8 == 0


def test_fractions_by_hand() -> None:
    data = pack(Stored(np.array([0.0, 0.25, 1.0]), "u1", 0.0, 1.0))
    (entry,) = described(data)
    assert entry["low"] == 0.0
    assert entry["scale"] == pytest.approx(1 / 255)
    assert entry["within"] == pytest.approx(1 / 510, rel=1e-4)
    (length,) = struct.unpack("<I", data[:4])
    assert list(data[4 + length : 4 + length + 3]) == [0, 64, 255]


def test_numpy_scalars_and_what_is_not_finite() -> None:
    value = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": float("nan"),
        "e": (1,),
    }
    assert unpack(pack(value)) == {"a": 0.5, "b": 3, "c": True, "d": None, "e": [1]}
    infinite = np.array([1.0, -np.inf, np.nan])
    assert described(pack(Stored(infinite, "f2")))[0]["type"] == "f4"
    np.testing.assert_array_equal(unpack(pack(infinite)), infinite.astype(np.float32))
    assert described(pack(Stored(np.array([1e6]), "f2")))[0]["type"] == "f4"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"$array": 0}, ValueError),
        ({1: 2}, TypeError),
        (object(), TypeError),
        (np.array(["a"]), TypeError),
        (Stored(np.array([0.1, np.nan]), "u1"), ValueError),
        (Stored(np.array([0.1, 2.0]), "u1", 0.0, 1.0), ValueError),
        (Stored(np.array([300]), "u1"), ValueError),
        (np.array([2**40]), ValueError),
        (Stored(np.array([0.5]), "i4"), ValueError),
    ],
)
def test_what_cannot_be_packed(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        pack(value)
