"""Reading a GGUF file: a header of metadata and of tensors' places, then the tensors' bytes.

    magic "GGUF", version (uint32), number of tensors, number of metadata entries (uint64)
    metadata: key (string), type (uint32), value           a string: length (uint64), UTF-8 bytes
    tensors:  name, number of dimensions (uint32), dimensions (uint64, fastest first), type, offset
    zeros up to a multiple of `general.alignment`; offsets count from here

Everything is little-endian. Nothing that the file says is believed before it is checked: a count or
a length is compared with the bytes that are left before anything is made of it, and every tensor
must lie inside the file, apart from all others. The file is mapped into memory, never read whole.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.gguf_blocks import READABLE, TYPES, BlockType, dequantise

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MOST_HEADER_BYTES = 1 << 28  # the largest vocabularies make headers of some 20 MB
MOST_ELEMENTS = 1 << 23  # of all arrays of the metadata; 262,144 tokens with merges: 1.3 M
MOST_STRING_BYTES, MOST_KEY_BYTES, MOST_NAME_BYTES = 1 << 24, 1 << 16, 1 << 10
MOST_DIMENSIONS, MOST_NESTING = 4, 4

_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS: dict[int, np.dtype[Any]] = {
    0: np.dtype("u1"),
    1: np.dtype("i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


def is_gguf(path: str | Path) -> bool:
    """Whether a file begins as GGUF files do."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == MAGIC
    except OSError:
        return False


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies. `shape` counts slowest first, as everywhere else: (rows, row length)."""

    name: str
    shape: tuple[int, ...]
    kind: BlockType
    offset: int
    """from the start of the file"""

    @property
    def n_elements(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes in the file."""
        return self.n_elements // self.kind.values * self.kind.n_bytes


class GgufFile:
    """A GGUF file of version 2 or 3: `.metadata`, `.entries`, and tensors by name.

    Also a source of tensors for `weight_rules.fill`: `names`, `shape`, `dtype`, `get`, `where`.

    Raises:
        UserError: it cannot be read or is not one, is damaged, cut short, big-endian or one of
            several parts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._bytes = _mapped(self.path)
        header = _Header(self.path, self._bytes)
        self.version, self.metadata = header.version, header.metadata
        self.alignment, self.entries = header.alignment, header.entries
        self._array: NDArray[np.uint8] = np.frombuffer(self._bytes, dtype=np.uint8)

    def __repr__(self) -> str:
        return f"GgufFile({self.path}: {len(self.entries)} tensors)"

    @property
    def where(self) -> str:
        """The file, for messages."""
        return str(self.path)

    @property
    def n_parameters(self) -> int:
        """Numbers of all tensors."""
        return sum(entry.n_elements for entry in self.entries.values())

    def names(self) -> Iterable[str]:
        """Names of the tensors, in the file's order."""
        return list(self.entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, rows first."""
        return self.entries[name].shape

    def dtype(self, name: str) -> str:
        """Name of a tensor's number format, like Q4_1."""
        return self.entries[name].kind.name

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor as they lie in the file, (rows, bytes of a row); nothing is copied."""
        entry = self.entries[name]
        data = self._array[entry.offset : entry.offset + entry.n_bytes]
        return data.reshape(-1, entry.shape[-1] // entry.kind.values * entry.kind.n_bytes)

    def get(self, name: str) -> Tensor:
        """A tensor in float32."""
        entry = self.entries[name]
        self.need_readable([name])
        values = dequantise(self.raw(name), entry.kind).reshape(entry.shape)
        return torch.from_numpy(values)

    def release(self) -> None:
        """Give back the memory of what was read; what is still needed is mapped in again."""
        if hasattr(self._bytes, "madvise"):
            self._bytes.madvise(mmap.MADV_DONTNEED)

    def need_readable(self, names: Iterable[str]) -> None:
        """Raise one `UserError` that lists the number formats of `names` that cannot be read."""
        kinds = {self.entries[name].kind.name for name in names} - set(READABLE)
        if kinds:
            raise UserError(
                f"{self.path} holds numbers as {', '.join(sorted(kinds))}, which cannot be read here. "
                f"Take a file of the same model with {', '.join(READABLE)}; files named Q4_K_M or "
                "Q8_0 have these."
            )


def _mapped(path: Path) -> mmap.mmap:
    """The file's bytes, mapped; private, so that nothing is ever written to it."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < 4:
                raise UserError(f"{path} is empty or cut short; it is no GGUF file.")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


class _Header:
    """The header, parsed from the front with every step checked."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data = path, data
        self.size, self.place, self.elements = len(data), 0, 0
        self.version = self._opening()
        n_tensors, n_entries = self._u64("the number of tensors"), self._u64("the metadata count")
        self._fits(n_tensors, 24, "tensors")
        self._fits(n_entries, 13, "metadata entries")
        self.metadata = self._read_metadata(n_entries)
        self.alignment = self._read_alignment()
        self._refuse_parts()
        found = [self._entry() for _ in range(n_tensors)]
        start = -(-self.place // self.alignment) * self.alignment
        self.entries = self._placed(found, start)

    # -- steps ---------------------------------------------------------------------------------
    def _bad(self, what: str) -> NoReturn:
        raise UserError(
            f"{self.path} is not a GGUF file that can be read: {what} It is damaged or was cut "
            "short; copy it again from where it came."
        )

    def _take(self, n_bytes: int, what: str) -> bytes:
        if n_bytes > self.size - self.place:
            self._bad(
                f"{what} needs {n_bytes:,} bytes at byte {self.place:,}, and the file has "
                f"{self.size:,}."
            )
        if self.place + n_bytes > MOST_HEADER_BYTES:
            self._bad(f"its header goes on beyond {MOST_HEADER_BYTES >> 20} MB at {what}.")
        taken = self.data[self.place : self.place + n_bytes]
        self.place += n_bytes
        return taken

    def _u32(self, what: str) -> int:
        return int(_U32.unpack(self._take(4, what))[0])

    def _u64(self, what: str) -> int:
        return int(_U64.unpack(self._take(8, what))[0])

    def _fits(self, count: int, each: int, what: str) -> None:
        """Refuse a count of things of at least `each` bytes that the rest of the file cannot hold."""
        if count > (self.size - self.place) // each:
            self._bad(f"it claims {count:,} {what}, more than its {self.size:,} bytes can hold.")

    def _string(self, what: str, most: int = MOST_STRING_BYTES) -> str:
        length = self._u64(f"the length of {what}")
        if length > most:
            self._bad(f"{what} claims to be {length:,} bytes long; {most:,} are allowed.")
        raw = self._take(length, what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self._bad(f"{what} at byte {self.place - length:,} is not UTF-8.")

    def _opening(self) -> int:
        magic = self._take(4, "the magic number")
        if magic != MAGIC:
            raise UserError(
                f"{self.path} is no GGUF file: it begins with {magic!r}, not {MAGIC!r}."
            )
        version = self._u32("the version")
        if version & 0xFFFF == 0 and version:
            raise UserError(
                f"{self.path} is a big-endian GGUF file; only little-endian ones are read. "
                "gguf_convert_endian.py of the gguf package turns it round."
            )
        if version not in VERSIONS:
            raise UserError(
                f"{self.path} has version {version} of the GGUF format; versions "
                f"{' and '.join(map(str, VERSIONS))} are read. Convert the model again with a "
                "current llama.cpp."
            )
        return version

    # -- metadata ------------------------------------------------------------------------------
    def _read_metadata(self, n_entries: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(n_entries):
            key = self._string("a metadata key", MOST_KEY_BYTES)
            if key in metadata:
                self._bad(f"the metadata key {key} occurs twice.")
            metadata[key] = self._value(self._u32(f"the type of {key}"), key, 0)
        return metadata

    def _value(self, kind: int, key: str, depth: int) -> Any:
        if kind == _STRING:
            return self._string(key)
        if kind == _ARRAY:
            return self._array(key, depth)
        if kind not in _NUMBERS:
            self._bad(f"{key} is of type {kind}, which does not exist.")
        number = _NUMBERS[kind]
        value = np.frombuffer(self._take(number.itemsize, key), number)[0].item()
        return bool(value) if kind == _BOOL else value

    def _array(self, key: str, depth: int) -> list[Any]:
        kind, count = self._u32(f"the type of {key}"), self._u64(f"the length of {key}")
        number = _NUMBERS.get(kind)
        if number is None and kind not in (_STRING, _ARRAY):
            self._bad(f"{key} is an array of type {kind}, which does not exist.")
        if depth == MOST_NESTING:
            self._bad(f"{key} has arrays within arrays, more than {MOST_NESTING} deep.")
        self._fits(count, 8 if number is None else number.itemsize, f"elements of {key}")
        self.elements += count
        if self.elements > MOST_ELEMENTS:
            self._bad(f"its metadata have over {MOST_ELEMENTS:,} array elements at {key}.")
        if number is not None:
            values = np.frombuffer(self._take(count * number.itemsize, key), number)
            return (values.astype(bool) if kind == _BOOL else values).tolist()
        if kind == _STRING:
            return [self._string(f"an element of {key}") for _ in range(count)]
        return [self._value(_ARRAY, key, depth + 1) for _ in range(count)]

    def _read_alignment(self) -> int:
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            self._bad(f"general.alignment is {alignment!r}, which is not a power of two.")
        return alignment

    def _refuse_parts(self) -> None:
        parts = self.metadata.get("split.count", 1)
        if isinstance(parts, int) and parts > 1:
            raise UserError(
                f"{self.path} is one of {parts} parts of a model. Join them first: "
                "llama-gguf-split --merge FIRST_PART OUT.gguf."
            )

    # -- tensors -------------------------------------------------------------------------------
    def _entry(self) -> TensorEntry:
        """A tensor's line; its offset still counts from the start of the data."""
        name = self._string("a tensor's name", MOST_NAME_BYTES)
        n_dimensions = self._u32(f"the dimensions of {name}")
        if not 1 <= n_dimensions <= MOST_DIMENSIONS:
            self._bad(f"the tensor {name} has {n_dimensions:,} dimensions.")
        shape = [self._u64(f"the shape of {name}") for _ in range(n_dimensions)]
        number = self._u32(f"the type of {name}")
        kind = TYPES.get(number)
        if kind is None:
            self._bad(f"the tensor {name} is of type {number}, which is not known.")
        offset = self._u64(f"the offset of {name}")
        if 0 in shape:
            self._bad(f"the tensor {name} has shape {tuple(shape)}, so it is empty.")
        if shape[0] % kind.values:
            self._bad(
                f"a row of the tensor {name} has {shape[0]:,} values, not a multiple of the "
                f"{kind.values} in a block of {kind.name}."
            )
        if offset % self.alignment:
            self._bad(f"the tensor {name} lies at {offset:,}, no multiple of {self.alignment}.")
        return TensorEntry(name, tuple(reversed(shape)), kind, offset)

    def _placed(self, found: list[TensorEntry], start: int) -> dict[str, TensorEntry]:
        """By name, offsets from the start of the file; each inside it and apart from the others."""
        placed: dict[str, TensorEntry] = {}
        for entry in found:
            if entry.name in placed:
                self._bad(f"the tensor {entry.name} occurs twice.")
            end = start + entry.offset + entry.n_bytes
            if end > self.size:
                self._bad(
                    f"the tensor {entry.name} {entry.shape} ends at byte {end:,}, and the file has "
                    f"{self.size:,}."
                )
            offset = start + entry.offset
            placed[entry.name] = TensorEntry(entry.name, entry.shape, entry.kind, offset)
        ordered = sorted(placed.values(), key=lambda entry: entry.offset)
        for before, after in itertools.pairwise(ordered):
            if before.offset + before.n_bytes > after.offset:
                self._bad(f"the tensors {before.name} and {after.name} overlap.")
        return placed
