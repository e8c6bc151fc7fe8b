"""Writing a GGUF file of version 3: the header first, then the tensors one after the other."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from budgerigar.formats.gguf_blocks import BY_NAME, BlockType, quantise_q8_0
from budgerigar.formats.gguf_file import DEFAULT_ALIGNMENT, MAGIC

_STRING, _ARRAY = 8, 9
_MOST_FLOAT16 = 65504.0


@dataclass(frozen=True)
class Planned:
    """A tensor to be written: its shape, rows first, and its numbers when asked for."""

    name: str
    shape: tuple[int, ...]
    kind: BlockType
    numbers: Callable[[], NDArray[np.float32]]

    @property
    def n_bytes(self) -> int:
        """Bytes in the file."""
        return int(np.prod(self.shape)) // self.kind.values * self.kind.n_bytes


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: list[Planned]) -> None:
    """Write the file, to be called inside `file_aside`.

    Of the metadata, whole numbers are written as uint32 (negative ones and lists as int32), others
    as float32.
    """
    head = MAGIC + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_text(key) + _value(value) for key, value in metadata.items())
    offset = 0
    for tensor in tensors:
        sizes = struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        head += _text(tensor.name) + struct.pack("<I", len(tensor.shape)) + sizes
        head += struct.pack("<IQ", tensor.kind.number, offset)
        offset += _padded(tensor.n_bytes)
    with path.open("wb") as file:
        _write_padded(file, head)
        for tensor in tensors:
            data = encode(tensor.numbers(), tensor.kind)
            assert len(data) == tensor.n_bytes, tensor.name
            _write_padded(file, data)


def kind_for(asked: str, shape: tuple[int, ...], largest: float) -> BlockType:
    """The type to write a tensor as: matrices as asked where that is possible, the rest as float32."""
    if len(shape) < 2 or (asked == "F16" and largest > _MOST_FLOAT16):
        return BY_NAME["F32"]
    if shape[-1] % BY_NAME[asked].values:
        return BY_NAME["F16"] if largest <= _MOST_FLOAT16 else BY_NAME["F32"]
    return BY_NAME[asked]


def encode(numbers: NDArray[np.float32], kind: BlockType) -> bytes:
    """The bytes of F32, F16 or Q8_0."""
    if kind.name == "Q8_0":
        return quantise_q8_0(numbers.reshape(-1, numbers.shape[-1])).tobytes()
    return numbers.astype({"F32": "<f4", "F16": "<f2"}[kind.name]).tobytes()


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT


def _write_padded(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.write(bytes(_padded(len(data)) - len(data)))


def _text(value: str) -> bytes:
    raw = value.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    """A value with its type before it."""
    if isinstance(value, list):
        kind, packed = _elements(value)
        return struct.pack("<IIQ", _ARRAY, kind, len(value)) + packed
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<Ii", 5, value) if value < 0 else struct.pack("<II", 4, value)
    return struct.pack("<If", 6, value)


def _elements(values: list[Any]) -> tuple[int, bytes]:
    """(type, bytes) of a list's values; an empty one counts as one of strings."""
    if all(isinstance(value, str) for value in values):
        return _STRING, b"".join(_text(value) for value in values)
    if all(isinstance(value, int) for value in values):
        return 5, np.array(values, "<i4").tobytes()
    return 6, np.array(values, "<f4").tobytes()
