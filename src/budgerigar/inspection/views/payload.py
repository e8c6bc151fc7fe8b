"""The bytes between a view and the page: JSON in which numpy arrays stand, each stored as said.

    u32 little-endian: length of the header in bytes
    header: JSON (UTF-8), filled up with blanks so that 4 + its length is a multiple of 8
    arrays, little-endian, each beginning at a multiple of 8 bytes

    header = {"value": …, in which {"$array": i} stands for array i, "arrays": [
        {"type": "u1"|"u2"|"i4"|"f2"|"f4", "shape": [...], "offset": bytes after the header,
         "low": l, "scale": s (u1 and u2 that stand for fractions: value = low + raw * scale),
         "within": w (the largest error that this storage can make; absent: none)}]}

Words that know their template (`budgerigar.said`) are {"$said": words, "template": …, "values": …}.
Not a number or infinite has no place in JSON and becomes null there; where that matters a view says
beside it why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from budgerigar.said import Said, heard, told

Kind = Literal["u1", "u2", "i4", "f2", "f4"]
_STEPS = {"u1": 255, "u2": 65535}
_LARGEST_HALF = 65504.0  # beyond it float16 is infinite
_HALF_STEP = 2.0**-25  # half of float16's smallest number, for values near 0


@dataclass(frozen=True, eq=False)
class Stored:
    """An array and how it is to be stored.

    u1, u2 of floating numbers: fractions between `low` and `high` (None: the array's own ends), with
    255 or 65,535 steps; of whole numbers and i4: as they are. f2 turns into f4 where float16 would
    overflow.
    """

    array: np.ndarray
    kind: Kind = "f4"
    low: float | None = None
    high: float | None = None


def pack(value: Any) -> bytes:
    """The bytes of a JSON-able value in which arrays and `Stored` arrays may stand.

    A bare array of floats is stored as f4, of whole numbers and booleans as the smallest kind that
    holds it. Raises `TypeError` for what is neither, `ValueError` for numbers that its kind cannot
    hold.
    """
    arrays: list[dict[str, Any]] = []
    blocks: list[bytes] = []
    plain = _plain(value, arrays, blocks)
    text = json.dumps(
        {"value": plain, "arrays": arrays},
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )
    header = text.encode("utf-8", errors="surrogatepass")
    header += b" " * (-(4 + len(header)) % 8)
    return len(header).to_bytes(4, "little") + header + b"".join(blocks)


def unpack(data: bytes) -> Any:
    """The value again, with numpy arrays: float32, or int32 of whole numbers."""
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length].decode("utf-8", errors="surrogatepass"))
    arrays = [_read(described, data, 4 + length) for described in header["arrays"]]
    return _restored(header["value"], arrays)


def described(data: bytes) -> list[dict[str, Any]]:
    """How each array is stored: type, shape, offset, low, scale, within."""
    length = int.from_bytes(data[:4], "little")
    found: list[dict[str, Any]] = json.loads(data[4 : 4 + length])["arrays"]
    return found


# -- writing ---------------------------------------------------------------------------------------


def _plain(value: Any, arrays: list[dict[str, Any]], blocks: list[bytes]) -> Any:
    """`value` as JSON holds it; its arrays go to `arrays` and `blocks`."""
    if value is None or isinstance(value, str | bool):
        return told(value) if isinstance(value, Said) else value
    if isinstance(value, int | np.integer | np.bool_):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        value = Stored(value, _smallest(value))
    if isinstance(value, Stored):
        return _written(value, arrays, blocks)
    if isinstance(value, Mapping):
        if taken := {"$array", "$said"} & value.keys():
            raise ValueError(f"a key named {min(taken)} would be taken for what it stands for")
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"the key {wrong[0]!r} is no text")
        return {key: _plain(part, arrays, blocks) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, arrays, blocks) for part in value]
    raise TypeError(f"a payload holds JSON and numpy arrays, not {type(value).__name__}")


def _smallest(array: np.ndarray) -> Kind:
    if array.dtype.kind == "f":
        return "f4"
    if array.dtype.kind not in "iub":
        raise TypeError(f"an array of {array.dtype} has no place in a payload")
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    return "i4" if low < 0 or high > 65535 else "u2" if high > 255 else "u1"


def _written(stored: Stored, arrays: list[dict[str, Any]], blocks: list[bytes]) -> dict[str, int]:
    raw, notes = _raw(stored)
    block = np.ascontiguousarray(raw).tobytes()
    entry = {
        "type": raw.dtype.str[1:],
        "shape": list(stored.array.shape),
        "offset": sum(map(len, blocks)),
        **notes,
    }
    arrays.append(entry)
    blocks.append(block + bytes(-len(block) % 8))
    return {"$array": len(arrays) - 1}


def _raw(stored: Stored) -> tuple[np.ndarray, dict[str, float]]:
    """What is written of an array, and low, scale and within."""
    array, kind = stored.array, stored.kind
    if array.dtype.kind in "iub":
        limits = np.iinfo(np.dtype(kind)) if kind in ("u1", "u2", "i4") else None
        if limits is None:
            array = array.astype(np.float64)
        elif array.size and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
            raise ValueError(f"{kind} cannot hold numbers from {array.min()} to {array.max()}")
        else:
            return array.astype(f"<{kind}"), {}
    if kind in _STEPS:
        return _fractions(stored, np.asarray(array, dtype=np.float64))
    if kind == "i4":
        raise ValueError("i4 holds whole numbers only")
    return _floats(array, kind)


def _fractions(stored: Stored, array: np.ndarray) -> tuple[np.ndarray, dict[str, float]]:
    low = float(array.min(initial=np.inf)) if stored.low is None else stored.low
    high = float(array.max(initial=-np.inf)) if stored.high is None else stored.high
    if not array.size:
        low, high = min(low, 0.0), 0.0
    inside = array.size == 0 or (low <= float(array.min()) and float(array.max()) <= high)
    if not (math.isfinite(low) and math.isfinite(high) and inside):  # also for NaN
        raise ValueError(f"{stored.kind} from {low:g} to {high:g} cannot hold these numbers")
    scale = (high - low) / _STEPS[stored.kind]
    raw = np.rint((array - low) / scale if scale else np.zeros(array.shape))
    # half a step, and what reading it as float32 rounds
    within = scale / 2 * (1 + 1e-9) + _rounding(max(abs(low), abs(high)))
    return raw.astype(f"<{stored.kind}"), {"low": low, "scale": scale, "within": within}


def _rounding(largest: float) -> float:
    """The largest error of float32 for numbers up to `largest`."""
    return largest * 2.0**-24 + 2.0**-150


def _floats(array: np.ndarray, kind: str) -> tuple[np.ndarray, dict[str, float]]:
    finite = np.abs(array[np.isfinite(array)])
    largest = float(finite.max(initial=0.0))
    if kind == "f2" and (largest > _LARGEST_HALF or finite.size < array.size):
        kind = "f4"
    raw = array.astype(f"<{kind}")
    if np.array_equal(raw.astype(array.dtype), array, equal_nan=True):
        return raw, {}
    if kind == "f4":
        return raw, {"within": _rounding(largest)}
    return raw, {"within": largest * 2.0**-11 + _HALF_STEP}


# -- reading ---------------------------------------------------------------------------------------


def _read(entry: Mapping[str, Any], data: bytes, after: int) -> np.ndarray:
    shape = tuple(entry["shape"])
    count = math.prod(shape)
    raw = np.frombuffer(data, f"<{entry['type']}", count, after + entry["offset"]).reshape(shape)
    if "scale" in entry:
        fractions = entry["low"] + raw.astype(np.float64) * entry["scale"]
        return fractions.astype(np.float32)
    return raw.astype(np.float32 if entry["type"][0] == "f" else np.int32)


def _restored(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"$array"}:
            return arrays[value["$array"]]
        if "$said" in value:
            return heard(value)
        return {key: _restored(part, arrays) for key, part in value.items()}
    return [_restored(part, arrays) for part in value] if isinstance(value, list) else value
