"""Small GGUF files for tests, written by the `gguf` package or byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

STRING, ARRAY, UINT32 = 8, 9, 4


def text(value: str | bytes) -> bytes:
    """A string as GGUF writes it."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def entry(key: str, kind: int, value: bytes) -> bytes:
    """A line of metadata."""
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, values: bytes) -> bytes:
    """An array's value."""
    return struct.pack("<IQ", kind, count) + values


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    """A tensor's line; `shape` fastest first, as the file has it."""
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


def assemble(
    metadata: list[bytes] = (),  # type: ignore[assignment]
    tensors: list[bytes] = (),  # type: ignore[assignment]
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """The bytes of a file; `counts`: what it claims, (tensors, metadata)."""
    n_tensors, n_entries = counts or (len(tensors), len(metadata))
    head = magic + struct.pack("<IQQ", version, n_tensors, n_entries)
    head += b"".join(metadata) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


def sample_file(path: Path) -> dict[str, np.ndarray]:
    """A file with many types of metadata and two tensors -> the tensors' numbers."""
    import gguf

    rng = np.random.default_rng(0)
    tensors = {
        "plain": rng.normal(size=(3, 4)).astype(np.float32),
        "packed": rng.normal(size=(2, 64)).astype(np.float32),
    }
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("a.number", 7)
    writer.add_float32("a.fraction", 0.5)
    writer.add_bool("a.truth", True)
    writer.add_array("some.words", ["one", "two 诗"])
    writer.add_array("some.numbers", [1, -2, 3])
    writer.add_tensor("plain", tensors["plain"])
    packed = gguf.quantize(tensors["packed"], gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    tensors["packed"] = gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
    _finish(writer)
    return tensors


def _finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
