"""The GGUF reader: what a good file says, and what is said of bad ones."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from gguf_samples import ARRAY, STRING, UINT32, array, assemble, entry, sample_file, tensor, text

from budgerigar.errors import UserError
from budgerigar.formats.gguf_file import GgufFile, is_gguf

F32, Q4_0, Q2_K = 0, 2, 10


def _write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return path


def test_metadata_and_tensors_of_a_file_by_the_gguf_package(tmp_path: Path) -> None:
    path = tmp_path / "sample.gguf"
    numbers = sample_file(path)
    file = GgufFile(path)
    assert is_gguf(path)
    assert file.metadata["general.architecture"] == "llama"
    assert file.metadata["a.number"] == 7
    assert file.metadata["a.fraction"] == 0.5
    assert file.metadata["a.truth"] is True
    assert file.metadata["some.words"] == ["one", "two 诗"]
    assert file.metadata["some.numbers"] == [1, -2, 3]
    assert list(file.names()) == ["plain", "packed"]
    assert (file.shape("packed"), file.dtype("packed")) == ((2, 64), "Q8_0")
    for name, expected in numbers.items():
        np.testing.assert_array_equal(file.get(name).numpy(), expected)
    assert file.n_parameters == 3 * 4 + 2 * 64


def test_version_2_and_another_alignment(tmp_path: Path) -> None:
    data = np.arange(4, dtype=np.float32).tobytes()
    metadata = [entry("general.alignment", UINT32, struct.pack("<I", 64))]
    raw = assemble(metadata, [tensor("a", (4,), F32, 0)], data, version=2, alignment=64)
    file = GgufFile(_write(tmp_path, raw))
    assert (file.version, file.entries["a"].offset % 64) == (2, 0)
    assert file.get("a").tolist() == [0, 1, 2, 3]


def test_reading_never_writes(tmp_path: Path) -> None:
    path = _write(tmp_path, assemble([], [tensor("a", (4,), F32, 0)], bytes(16)))
    GgufFile(path).get("a").add_(1)
    assert GgufFile(path).get("a").tolist() == [0, 0, 0, 0]


VAST = 10**12
BAD = {
    "no GGUF file": assemble(magic=b"GGML"),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "version 1": assemble(version=1),
    f"{VAST:,} tensors": assemble(counts=(VAST, 0)),
    f"{VAST:,} metadata entries": assemble(counts=(0, VAST)),
    f"{VAST:,} bytes long": assemble([struct.pack("<Q", VAST) + b"key"], counts=(0, 1)) + bytes(64),
    f"{VAST:,} elements of k": assemble([entry("k", ARRAY, array(UINT32, VAST, b""))]) + bytes(64),
    "k occurs twice": assemble([entry("k", UINT32, bytes(4))] * 2),
    "of type 99": assemble([entry("k", 99, bytes(4))]),
    "array of type 77": assemble([entry("k", ARRAY, array(77, 0, b""))]),
    "not UTF-8": assemble([entry("k", STRING, text(b"\xff\xfe"))]),
    "deep": assemble([entry("k", ARRAY, array(ARRAY, 1, b"") * 40)]),
    "not a power of two": assemble([entry("general.alignment", UINT32, struct.pack("<I", 12))]),
    "one of 4 parts": assemble([entry("split.count", UINT32, struct.pack("<I", 4))]),
    "9 dimensions": assemble([], [tensor("t", (1,) * 9, F32, 0)], bytes(64)),
    "of type 55, which is not known": assemble([], [tensor("t", (4,), 55, 0)], bytes(64)),
    "so it is empty": assemble([], [tensor("t", (4, 0), F32, 0)], bytes(64)),
    "not a multiple of the 32": assemble([], [tensor("t", (33,), Q4_0, 0)], bytes(64)),
    "no multiple of 32": assemble([], [tensor("t", (4,), F32, 4)], bytes(64)),
    "t occurs twice": assemble(
        [], [tensor("t", (4,), F32, 0), tensor("t", (4,), F32, 32)], bytes(64)
    ),
    "ends at byte": assemble([], [tensor("t", (4,), F32, 1 << 40)], bytes(64)),
    "and the file has": assemble([], [tensor("t", (1 << 40, 1 << 40), F32, 0)], bytes(64)),
    "overlap": assemble([], [tensor("t", (16,), F32, 0), tensor("u", (4,), F32, 32)], bytes(64)),
    "empty or cut short": b"GG",
    "needs 8 bytes": b"GGUF" + struct.pack("<IQ", 3, 0),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_files_are_refused_in_words_without_a_large_allocation(
    tmp_path: Path, words: str
) -> None:
    path = _write(tmp_path, BAD[words])
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="(?s)model.gguf.*" + words.replace("(", r"\(")):
            GgufFile(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_type_that_is_not_read_is_named_with_the_way_out(tmp_path: Path) -> None:
    file = GgufFile(_write(tmp_path, assemble([], [tensor("t", (256,), Q2_K, 0)], bytes(96))))
    assert file.dtype("t") == "Q2_K"
    with pytest.raises(UserError, match=r"Q2_K, which cannot be read.*Q4_K_M"):
        file.get("t")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert not is_gguf(tmp_path / "none.gguf")
    with pytest.raises(UserError, match="no file"):
        GgufFile(tmp_path / "none.gguf")
    with pytest.raises(UserError, match="cannot be read"):
        GgufFile(tmp_path)


# -- mutated files ---------------------------------------------------------------------------------
def _mutate(good: bytes, header: int, seed: int) -> bytes:
    """A damaged copy: bytes changed, cut, doubled or overwritten by vast numbers."""
    rng = np.random.default_rng(seed)
    data = bytearray(good)
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(0, min(header, len(data))))
        kind = rng.integers(0, 5)
        if kind == 0:
            data[place] = rng.integers(0, 256)
        elif kind == 1:
            data[place : place + 8] = struct.pack(
                "<Q", int(rng.choice([VAST, 2**63, 2**32 - 1, 1]))
            )
        elif kind == 2:
            del data[place : place + int(rng.integers(1, 16))]
        elif kind == 3:
            data[place:place] = data[place : place + int(rng.integers(1, 16))]
        else:
            del data[place:]
        data = data or bytearray(b"G")
    return bytes(data)


def _read_mutated(tmp_path: Path, seeds: range) -> int:
    """Read each; -> how many were refused. Anything but a `UserError` fails."""
    good_path = tmp_path / "good.gguf"
    sample_file(good_path)
    good = good_path.read_bytes()
    header = min(entry.offset for entry in GgufFile(good_path).entries.values())
    refused = 0
    tracemalloc.start()
    try:
        for seed in seeds:
            path = _write(tmp_path, _mutate(good, header, seed))
            try:
                file = GgufFile(path)
                for name in file.names():
                    file.get(name)
            except UserError as error:
                refused += str(path) in str(error)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    return refused


def test_200_mutated_files(tmp_path: Path) -> None:
    assert _read_mutated(tmp_path, range(200)) > 120


@pytest.mark.slow
def test_5000_mutated_files(tmp_path: Path) -> None:
    assert _read_mutated(tmp_path, range(200, 5000)) > 3000
