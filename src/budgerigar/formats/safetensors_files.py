"""Tensors in safetensors files of others: one file, or shards with an index. Memory-mapped.

The header is checked before anything is read: a damaged or hostile file is an error that says what
is wrong, and costs no memory. Layout: 8 bytes little-endian length N, N bytes of JSON, the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from safetensors import SafetensorError, safe_open
from torch import Tensor

from budgerigar.errors import UserError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_MOST_HEADER = 100_000_000  # bytes, as in the reference implementation
_MOST_DIMENSIONS = 16
_BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


@dataclass(frozen=True)
class Slot:
    """Where a tensor lies in a file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: Path) -> dict[str, Slot]:
    """The tensors of a safetensors file, checked against its size.

    Raises:
        UserError: the file is not there, cut short, or its header cannot be true.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length, start = int.from_bytes(file.read(8), "little"), file.tell()
            sane = start == 8 and length <= min(size - 8, _MOST_HEADER)
            raw = file.read(length) if sane else b""
            file.seek(0)
            first = file.read(40)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    if first.startswith(b"version https://git-lfs"):
        raise UserError(
            f"{path} is a Git LFS pointer, a note of where the weights are, not the weights: run "
            "`git lfs pull` in that folder, or download the file itself"
        )
    if not sane:
        raise _damaged(path, _why_no_header(start, length, size))
    entries = _parsed(path, raw)
    problems = _problems(entries, size - 8 - length)
    if problems:
        shown = "; ".join(problems[:8]) + ("; …" if len(problems) > 8 else "")
        raise _damaged(path, shown)
    return {
        name: Slot(e["dtype"], tuple(e["shape"]), *e["data_offsets"]) for name, e in entries.items()
    }


def _damaged(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} cannot be read as a safetensors file: {why}. It is damaged or was cut short; "
        "download or copy it again."
    )


def _why_no_header(start: int, length: int, size: int) -> str:
    if start < 8:
        return f"it has {size} bytes"
    if length > size - 8:
        return f"its header should have {length:,} bytes, and the file has {size:,}"
    return f"its header has {length:,} bytes, more than the {_MOST_HEADER:,} that are allowed"


def _parsed(path: Path, raw: bytes) -> dict[str, Any]:
    """The header's JSON without its remarks; a name that occurs twice is an error."""
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: set[str] = set()
        for name, _ in pairs:
            twice.extend([name] * (name in seen))
            seen.add(name)
        return dict(pairs)

    try:
        header = json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is not JSON ({str(error)[:80]})") from None
    if twice:
        raise _damaged(path, f"{_short(twice[0])} is there twice")
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no table of tensors")
    header.pop("__metadata__", None)
    return header


def _problems(entries: dict[str, Any], size: int) -> list[str]:
    """What cannot be true of a header before `size` bytes of data."""
    wrong = [f"{_short(name)}: {why}" for name, e in entries.items() if (why := _why(e, size))]
    if wrong:
        return wrong
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        if begin != end:
            kind = "overlaps the tensor before it" if begin < end else "leaves a gap before it"
            return [f"{_short(name)} {kind}"]
        end = stop
    if end != size:
        return [f"{end:,} bytes of data are described, and {size:,} are there"]
    return []


def _why(entry: Any, size: int) -> str:
    """Why an entry of the header cannot be true; empty where it can."""
    if not isinstance(entry, dict):
        return "it is not described"
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _BITS:
        return f"the type {str(dtype)[:20]} is not known"
    if not _counts(shape) or len(shape) > _MOST_DIMENSIONS:
        return f"{str(shape)[:60]} is no shape"
    if not _counts(offsets) or len(offsets) != 2:
        return f"{str(offsets)[:60]} are no offsets"
    begin, end = offsets
    if not begin <= end <= size:
        return f"bytes {begin:,} to {end:,} lie outside the {size:,} that are there"
    if math.prod(shape) * _BITS[dtype] != 8 * (end - begin):
        return (
            f"{dtype} of shape {str(shape)[:60]} do not take the {end - begin:,} bytes given to it"
        )
    return ""


def _counts(values: Any) -> TypeGuard[list[int]]:
    """Whether it is a list of whole numbers that are not negative."""
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def _short(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "…")


class SafetensorsFile:
    """The tensors of one file, as a `TensorSource`."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.slots = read_header(self.path)

    @property
    def where(self) -> str:
        """The file, for messages."""
        return str(self.path)

    @cached_property
    def _file(self) -> Any:
        try:
            return safe_open(self.path, framework="pt", device="cpu")
        except (SafetensorError, OSError) as error:
            raise _damaged(self.path, str(error)[:200]) from error

    def names(self) -> Iterable[str]:
        """All tensors' names."""
        return self.slots.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """Its shape."""
        return self.slots[name].shape

    def dtype(self, name: str) -> str:
        """What it is stored as: F32, F16, BF16 …"""
        return self.slots[name].dtype

    def get(self, name: str) -> Tensor:
        """The tensor, mapped into memory: it takes room as it is read, and none if it never is."""
        try:
            tensor: Tensor = self._file.get_tensor(name)
        except (SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
            raise _damaged(self.path, f"{_short(name)}: {str(error)[:200]}") from error
        return tensor


class SafetensorsFolder:
    """The tensors of a model's folder, in one file or in shards, as a `TensorSource`."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        index = self.folder / INDEX
        if (self.folder / SINGLE).is_file() or not index.is_file():
            self.files = {SINGLE: SafetensorsFile(_single(self.folder))}
            self._home = dict.fromkeys(self.files[SINGLE].names(), SINGLE)
            return
        self._home = _read_index(index)
        shards = sorted(set(self._home.values()))
        missing = [shard for shard in shards if not (self.folder / shard).is_file()]
        if missing:
            raise UserError(
                f"{index} names {len(shards)} files of weights, and {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing. Download what is missing."
            )
        self.files = {shard: SafetensorsFile(self.folder / shard) for shard in shards}
        self._check(index)

    def _check(self, index: Path) -> None:
        """Index and shards must agree, or one of them is from another version of the model."""
        wrong = [
            f"{name} is not in {shard}"
            for name, shard in self._home.items()
            if name not in self.files[shard].slots
        ]
        for shard, file in self.files.items():
            wrong += [
                f"{name} is in {shard}, which the index does not say"
                for name in file.names()
                if self._home.get(name) != shard
            ]
        if wrong:
            shown = "\n  ".join(wrong[:12]) + ("\n  …" if len(wrong) > 12 else "")
            raise UserError(
                f"{index} does not fit the files beside it:\n  {shown}\nThe index or a file is from "
                "another version of this model: download the folder again."
            )

    @property
    def where(self) -> str:
        """The folder, for messages."""
        return str(self.folder)

    def names(self) -> Iterable[str]:
        """All tensors' names."""
        return self._home.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """Its shape."""
        return self.files[self._home[name]].shape(name)

    def dtype(self, name: str) -> str:
        """What it is stored as: F32, F16, BF16 …"""
        return self.files[self._home[name]].dtype(name)

    def get(self, name: str) -> Tensor:
        """The tensor, mapped into memory."""
        return self.files[self._home[name]].get(name)


def _single(folder: Path) -> Path:
    """The one file of weights; or an error that says what lies there instead and what to do."""
    path = folder / SINGLE
    if path.is_file():
        return path
    others = sorted(p.name for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []
    pickles = [name for name in others if name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    shards = [name for name in others if name.endswith(".safetensors")]
    ggufs = [name for name in others if name.endswith(".gguf")]
    if ggufs:
        raise UserError(
            f"{folder} holds no {SINGLE}, but {', '.join(ggufs)}: give that file's path instead of "
            "the folder's"
        )
    if shards:
        raise UserError(
            f"{folder} holds {', '.join(shards[:4])}{' …' if len(shards) > 4 else ''} but neither "
            f"{SINGLE} nor {INDEX}, which says what is where. Download that file too."
        )
    if pickles:
        raise UserError(
            f"{folder} holds its weights as {', '.join(pickles[:3])}: a pickle, which can run any "
            "program when it is opened, so it is never opened here. Most models are offered as "
            f'{SINGLE} too: download that. Or convert it where you trust it: python -c "from '
            "transformers import AutoModel as M; "
            f"M.from_pretrained('{folder}').save_pretrained('{folder}-safe')\" (with the class that "
            "config.json names, so that no output layer is lost)"
        )
    raise UserError(f"{folder} holds no weights: there is no {SINGLE} in it.")


def _read_index(index: Path) -> dict[str, str]:
    """Tensor -> shard, as an index says."""
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
        homes = content["weight_map"]
        fits = bool(homes) and all(isinstance(home, str) for home in homes.values())
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise UserError(f"{index} is damaged: it has no weight_map from tensors to files.")
    away = [home for home in homes.values() if Path(home).name != home or home in (".", "..")]
    if away:
        raise UserError(f"{index} is damaged: {away[0]!r} is no file of the same folder.")
    found: dict[str, str] = homes
    return found
