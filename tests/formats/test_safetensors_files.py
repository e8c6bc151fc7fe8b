"""Damaged and hostile safetensors files: a clear error, no crash, no memory spent on claims."""

from __future__ import annotations

import json
import random
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from budgerigar.errors import UserError
from budgerigar.formats.safetensors_files import (
    INDEX,
    SINGLE,
    SafetensorsFile,
    SafetensorsFolder,
    read_header,
)


def written(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    """A file with that header, as it stands."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(raw) if length is None else length).to_bytes(8, "little") + raw + data)
    return path


def slot(shape: list[Any], begin: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    tensors = {
        "a.weight": torch.arange(12.0).view(3, 4),
        "b": torch.tensor([1, 2, 3]),
        "c": torch.randn(5).to(torch.bfloat16),
        "none": torch.zeros(0, 3),
        "one": torch.tensor(7.0),
    }
    save_file(tensors, tmp_path / SINGLE)
    return tmp_path / SINGLE


def test_reads_what_was_saved(good: Path) -> None:
    file = SafetensorsFile(good)
    assert set(file.names()) == {"a.weight", "b", "c", "none", "one"}
    assert torch.equal(file.get("a.weight"), torch.arange(12.0).view(3, 4))
    assert torch.equal(file.get("b"), torch.tensor([1, 2, 3]))
    assert file.get("one").item() == 7
    assert (file.shape("none"), file.dtype("c")) == ((0, 3), "BF16")


def test_headers_of_any_length_are_read(tmp_path: Path) -> None:
    """The data need not begin at a multiple of 8 bytes, although most writers see to it."""
    values = torch.randn(3)
    for spaces in range(9):
        raw = json.dumps({"w": slot([3], 0, 12)}).encode() + b" " * spaces
        file = SafetensorsFile(written(tmp_path / "w", raw, values.numpy().tobytes()))
        assert torch.equal(file.get("w"), values)


HEADERS: dict[str, tuple[Any, str]] = {
    "a million million numbers": ({"w": slot([10**12], 0, 4 * 10**12)}, "lie outside"),
    "claims more than its bytes": ({"w": slot([10**12], 0, 16)}, "do not take"),
    "shape of huge product": ({"w": slot([10**18] * 16, 0, 16)}, "do not take"),
    "too many dimensions": ({"w": slot([1] * 1000, 0, 4)}, "no shape"),
    "negative size": ({"w": slot([-1, -4], 0, 16)}, "no shape"),
    "fraction": ({"w": slot([4.0], 0, 16)}, "no shape"),
    "truth for a number": ({"w": slot([True], 0, 4)}, "no shape"),
    "backwards": ({"w": slot([4], 16, 0)}, "lie outside"),
    "beyond the end": ({"w": slot([8], 0, 32)}, "lie outside"),
    "unknown type": ({"w": slot([4], 0, 16, "F31")}, "is not known"),
    "type of no kind": ({"w": slot([4], 0, 16, ["F32"])}, "is not known"),
    "one offset": ({"w": {"dtype": "F32", "shape": [4], "data_offsets": [16]}}, "no offsets"),
    "no entry": ({"w": None}, "not described"),
    "overlap": ({"v": slot([2], 0, 8), "w": slot([3], 4, 16)}, "overlaps"),
    "gap": ({"v": slot([1], 0, 4), "w": slot([2], 8, 16)}, "gap"),
    "bytes left over": ({"w": slot([2], 0, 8)}, "8 bytes of data are described, and 16"),
    "a list": ([1, 2], "no table"),
    "a number": (b"7", "no table"),
    "not JSON": (b"{'w': 1}", "not JSON"),
    "not text": (b"\xff\xfe{}", "not JSON"),
    "nested deeply": (b"[" * 100_000, "not JSON"),
    "an endless number": (b'{"w": ' + b"9" * 5000 + b"}", "not JSON"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_cannot_be_true(name: str, tmp_path: Path) -> None:
    header, words = HEADERS[name]
    path = written(tmp_path / "w.safetensors", header, bytes(16))
    with pytest.raises(UserError, match=words) as caught:
        read_header(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    one = json.dumps(slot([2], 0, 8))
    raw = f'{{"w": {one}, "w": {one}}}'.encode()
    with pytest.raises(UserError, match="'w' is there twice"):
        read_header(written(tmp_path / "w", raw, bytes(8)))


def test_cut_short_anywhere(good: Path, tmp_path: Path) -> None:
    whole = good.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) - 1]:
        part = tmp_path / "part"
        part.write_bytes(whole[:length])
        with pytest.raises(UserError, match="cut short"):
            read_header(part)


def test_a_header_longer_than_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1,000,000,000,000 bytes, and the file has"):
        read_header(written(tmp_path / "w", {}, length=10**12))


def test_pointers_of_git_lfs_are_told(tmp_path: Path) -> None:
    path = tmp_path / SINGLE
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1234\nsize 269060552\n")
    with pytest.raises(UserError, match="git lfs pull"):
        SafetensorsFolder(tmp_path)


# -- mutations -------------------------------------------------------------------------------------
def mutated(whole: bytes, rng: random.Random) -> bytes:
    """A damaged copy: bytes changed, cut, doubled, or the header edited."""
    data = bytearray(whole)
    length = int.from_bytes(whole[:8], "little")
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(6)
        at = rng.randrange(8 + length) if rng.random() < 0.8 else rng.randrange(len(whole))
        at = min(at, len(data) - 1)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 20)]
        elif kind == 2:
            data[at:at] = data[at : at + rng.randint(1, 40)]
        elif kind == 3:
            data[rng.randrange(min(8, len(data)))] = rng.choice([0, 1, 127, 255])
        elif kind == 4:
            digits = [i for i, byte in enumerate(data[: 8 + length]) if 48 <= byte <= 57]
            if digits:
                place = rng.choice(digits)
                data[place : place + 1] = rng.choice([b"0", b"9", b"1000000000000", b"-1", b"1.5"])
        else:
            data = data[: rng.randrange(len(data) + 1)]
        data = data or bytearray(1)
    return bytes(data)


def fuzz(folder: Path, n: int, seed: int) -> int:
    """Read n damaged files to the end; -> how many were refused. Anything else than that is a fault."""
    tensors = {"a": torch.ones(2, 3), "b.c": torch.ones(4, dtype=torch.float16), "d": torch.ones(1)}
    save_file(tensors, folder / "whole", metadata={"format": "pt"})
    whole, rng, refused = (folder / "whole").read_bytes(), random.Random(seed), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(n):
        path = folder / "damaged"
        path.write_bytes(mutated(whole, rng))
        try:
            file = SafetensorsFile(path)
            for name in file.names():
                assert tuple(file.get(name).shape) == file.shape(name)
        except UserError:
            refused += 1
        path.unlink()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
    return refused


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    assert fuzz(tmp_path, 200, seed=1) > 100


@pytest.mark.slow
def test_five_thousand_damaged_files(tmp_path: Path) -> None:
    assert fuzz(tmp_path, 5000, seed=2) > 2500


# -- folders ---------------------------------------------------------------------------------------
@pytest.fixture
def shards(tmp_path: Path) -> Path:
    homes: dict[str, str] = {}
    for number, names in enumerate((("a", "b"), ("c",))):
        shard = f"model-{number}.safetensors"
        save_file({name: torch.full((2,), float(number)) for name in names}, tmp_path / shard)
        homes |= dict.fromkeys(names, shard)
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": homes}))
    return tmp_path


def test_shards_are_one_source(shards: Path) -> None:
    source = SafetensorsFolder(shards)
    assert list(source.names()) == ["a", "b", "c"]
    assert source.get("c").tolist() == [1.0, 1.0]
    assert (source.shape("a"), source.dtype("a"), source.where) == ((2,), "F32", str(shards))


def test_a_shard_named_but_missing_is_named(shards: Path) -> None:
    (shards / "model-1.safetensors").unlink()
    with pytest.raises(UserError, match=r"names 2 files of weights, and model-1.safetensors is"):
        SafetensorsFolder(shards)


def test_an_index_of_another_version_is_told(shards: Path) -> None:
    index = json.loads((shards / INDEX).read_text())
    index["weight_map"] |= {"d": "model-1.safetensors"}
    del index["weight_map"]["b"]
    (shards / INDEX).write_text(json.dumps(index))
    with pytest.raises(UserError) as caught:
        SafetensorsFolder(shards)
    assert "d is not in model-1.safetensors" in str(caught.value)
    assert "b is in model-0.safetensors, which the index does not say" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 3}}', '{"weight_map": ["a"]}',
     '{"weight_map": {"a": "../secret"}}', '{"weight_map": {"a": "/etc/passwd"}}', "[" * 100_000],
    ids=lambda content: content[:30],
)  # fmt: skip
def test_damaged_indices(content: str, shards: Path) -> None:
    (shards / INDEX).write_text(content)
    with pytest.raises(UserError, match="is damaged"):
        SafetensorsFolder(shards)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pytorch_model.bin", "a pickle, which can run any program"),
        ("model-00001-of-00002.safetensors", INDEX),
        ("model.Q4_K_M.gguf", "give that file's path"),
        ("README.md", "holds no weights"),
    ],
)
def test_folders_without_their_weights_say_what_to_do(
    name: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(UserError, match=words):
        SafetensorsFolder(tmp_path)
