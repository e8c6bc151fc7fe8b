"""Number formats against the `gguf` package's own dequantisation, value for value."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from budgerigar.formats.gguf_blocks import BY_NAME, READABLE, TYPES, dequantise, quantise_q8_0

LEGACY = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "F16", "BF16", "F32"]


def _type(name: str) -> gguf.GGMLQuantizationType:
    return gguf.GGMLQuantizationType[name]


def _random_k_blocks(name: str, rows: int, blocks: int) -> np.ndarray:
    """Random bytes, and finite float16 where the scales of a block are."""
    rng = np.random.default_rng(1)
    size = BY_NAME[name].n_bytes
    raw = rng.integers(0, 256, size=(rows * blocks, size), dtype=np.uint8)
    for place in {"Q4_K": (0, 2), "Q6_K": (208,)}[name]:
        scales = rng.normal(size=(rows * blocks, 1)).astype(np.float16)
        raw[:, place : place + 2] = scales.view(np.uint8)
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("name", LEGACY)
def test_values_of_legacy_types_equal_the_gguf_packages(name: str) -> None:
    rng = np.random.default_rng(2)
    numbers = (rng.normal(size=(5, 96)) * rng.uniform(0.01, 10, size=(5, 1))).astype(np.float32)
    numbers[0, :32] = 0.0  # a block whose scale is 0
    raw = gguf.quantize(numbers, _type(name)).view(np.uint8)
    ours = dequantise(raw, BY_NAME[name])
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, gguf.dequantize(raw, _type(name)).reshape(5, 96))
    assert np.abs(ours - numbers).max() < 2.0  # they are those numbers, not only the same as theirs


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K"])
def test_values_of_k_types_equal_the_gguf_packages(name: str) -> None:
    raw = _random_k_blocks(name, rows=3, blocks=2)
    ours = dequantise(raw, BY_NAME[name])
    assert ours.shape == (3, 512)
    np.testing.assert_array_equal(ours, gguf.dequantize(raw, _type(name)).reshape(3, 512))


def test_every_readable_type_is_tested() -> None:
    assert set(READABLE) == {*LEGACY, "Q4_K", "Q6_K"}


def test_sizes_of_all_types_equal_the_gguf_packages() -> None:
    for number, kind in TYPES.items():
        theirs = gguf.GGMLQuantizationType(number)
        assert (theirs.name, gguf.GGML_QUANT_SIZES[theirs]) == (
            kind.name,
            (kind.values, kind.n_bytes),
        )


def test_a_first_value_by_hand() -> None:
    """Q4_1: scale 0.5, minimum -3, codes 15 (first) and 2 (seventeenth) in the first byte."""
    raw = np.zeros((1, 20), dtype=np.uint8)
    raw[0, :4] = np.array([0.5, -3.0], dtype=np.float16).view(np.uint8)
    raw[0, 4] = 0x2F
    values = dequantise(raw, BY_NAME["Q4_1"])[0]
    assert (values[0], values[16], values[1]) == (0.5 * 15 - 3, 0.5 * 2 - 3, -3)


def test_quantising_to_q8_0_equals_the_gguf_packages() -> None:
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(4, 64)).astype(np.float32)
    numbers[1, :32] = 0.0
    np.testing.assert_array_equal(quantise_q8_0(numbers), gguf.quantize(numbers, _type("Q8_0")))
