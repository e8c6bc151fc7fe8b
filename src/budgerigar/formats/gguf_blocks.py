"""The number formats of GGUF files: what a block of bytes stands for.

A quantised row is a row of blocks, each with a scale for its values: w = scale * code + minimum,
where the codes are small integers. The legacy types scale 32 values by a float16; the K types hold
256 values in a block, whose 8 or 16 groups have 6- or 8-bit scales of their own. The codes are what
`layers/packed_linear.py` computes with; `dequantise` gives the float32 numbers.

Shapes: N rows, K values of a row, g values of a group (one scale each).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class BlockType:
    """A number format: `values` numbers in `n_bytes` bytes."""

    name: str
    number: int
    values: int
    n_bytes: int

    @property
    def quantised(self) -> bool:
        """It holds codes and scales, not numbers."""
        return self.values > 1


class Codes(NamedTuple):
    """A quantised matrix: w[n, k] = scales[n, k // g] * codes[n, k] + minima[n, k // g]."""

    codes: Array  # (N,K) int8
    scales: Array  # (N,K/g) float16 where the file holds float16, else float32
    minima: Array | None  # (N,K/g), or None where there are none


# name, number in the file, values of a block, bytes of a block. Those that `READERS` lacks are
# known for their sizes alone, so that a header can be checked and described.
_TYPES = [
    ("F32", 0, 1, 4),
    ("F16", 1, 1, 2),
    ("Q4_0", 2, 32, 18),
    ("Q4_1", 3, 32, 20),
    ("Q5_0", 6, 32, 22),
    ("Q5_1", 7, 32, 24),
    ("Q8_0", 8, 32, 34),
    ("Q8_1", 9, 32, 40),
    ("Q2_K", 10, 256, 84),
    ("Q3_K", 11, 256, 110),
    ("Q4_K", 12, 256, 144),
    ("Q5_K", 13, 256, 176),
    ("Q6_K", 14, 256, 210),
    ("Q8_K", 15, 256, 292),
    ("IQ2_XXS", 16, 256, 66),
    ("IQ2_XS", 17, 256, 74),
    ("IQ3_XXS", 18, 256, 98),
    ("IQ1_S", 19, 256, 50),
    ("IQ4_NL", 20, 32, 18),
    ("IQ3_S", 21, 256, 110),
    ("IQ2_S", 22, 256, 82),
    ("IQ4_XS", 23, 256, 136),
    ("I8", 24, 1, 1),
    ("I16", 25, 1, 2),
    ("I32", 26, 1, 4),
    ("I64", 27, 1, 8),
    ("F64", 28, 1, 8),
    ("IQ1_M", 29, 256, 56),
    ("BF16", 30, 1, 2),
    ("TQ1_0", 34, 256, 54),
    ("TQ2_0", 35, 256, 66),
    ("MXFP4", 39, 32, 17),
]
TYPES = {number: BlockType(name, number, values, size) for name, number, values, size in _TYPES}
BY_NAME = {kind.name: kind for kind in TYPES.values()}


def dequantise(raw: Array, kind: BlockType) -> NDArray[np.float32]:
    """The float32 numbers (N,K) of rows of bytes (N, bytes of a row) uint8.

    Raises:
        KeyError: a type that is not in `READABLE`.
    """
    if kind.name in _PLAIN:
        return _PLAIN[kind.name](raw)
    return expand(read_codes(raw, kind))


def read_codes(raw: Array, kind: BlockType) -> Codes:
    """Codes, scales and minima of quantised rows of bytes (N, bytes of a row) uint8."""
    blocks = raw.reshape(-1, kind.n_bytes)
    found = _CODES[kind.name](blocks)
    rows = len(raw)
    minima = None if found.minima is None else found.minima.reshape(rows, -1)
    return Codes(found.codes.reshape(rows, -1), found.scales.reshape(rows, -1), minima)


def expand(parts: Codes) -> NDArray[np.float32]:
    """scale * code + minimum, in float32."""
    rows, groups = parts.scales.shape
    values = parts.codes.reshape(rows, groups, -1).astype(np.float32)
    with np.errstate(invalid="ignore"):  # a damaged scale may be no number
        values *= parts.scales.astype(np.float32)[:, :, None]
        if parts.minima is not None:
            values += parts.minima.astype(np.float32)[:, :, None]
    return values.reshape(rows, -1)


# -- numbers as they are ---------------------------------------------------------------------------
def _float32(raw: Array) -> NDArray[np.float32]:
    return np.require(raw.view("<f4"), np.float32, "A")  # where it lies, if that place is even


def _float16(raw: Array) -> NDArray[np.float32]:
    return raw.view("<f2").astype(np.float32)


def _bfloat16(raw: Array) -> NDArray[np.float32]:
    """The upper half of a float32."""
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


_PLAIN: dict[str, Callable[[Array], NDArray[np.float32]]] = {
    "F32": _float32,
    "F16": _float16,
    "BF16": _bfloat16,
}


# -- legacy blocks: 32 values, a float16 scale -------------------------------------------------------
def _half(blocks: Array, column: int) -> Array:
    """The float16 at byte `column` of each block, (blocks, 1)."""
    return blocks[:, column : column + 2].copy().view("<f2")


def _nibbles(packed: Array) -> Array:
    """(..., n) bytes -> (..., 2n) values 0 to 15: all lower halves, then all upper halves."""
    return np.concatenate([packed & 0x0F, packed >> 4], axis=-1)


def _fifth_bits(blocks: Array, column: int) -> Array:
    """Bit 4 of each of 32 values, from 4 bytes at `column`."""
    bits = np.unpackbits(blocks[:, column : column + 4], axis=-1, bitorder="little")
    return bits << np.uint8(4)


def _signed(values: Array, zero: int) -> NDArray[np.int8]:
    """values - zero, in place."""
    signed = values.view(np.int8)
    signed -= np.int8(zero)
    return signed


def _q4_0(blocks: Array) -> Codes:
    return Codes(_signed(_nibbles(blocks[:, 2:]), 8), _half(blocks, 0), None)


def _q4_1(blocks: Array) -> Codes:
    return Codes(_nibbles(blocks[:, 4:]).view(np.int8), _half(blocks, 0), _half(blocks, 2))


def _q5_0(blocks: Array) -> Codes:
    values = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return Codes(_signed(values, 16), _half(blocks, 0), None)


def _q5_1(blocks: Array) -> Codes:
    values = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return Codes(values.view(np.int8), _half(blocks, 0), _half(blocks, 2))


def _q8_0(blocks: Array) -> Codes:
    return Codes(blocks[:, 2:].copy().view(np.int8), _half(blocks, 0), None)


# -- K blocks: 256 values, a float16 scale for small scales of their own -----------------------------
def _six_bit_scales(packed: Array) -> tuple[Array, Array]:
    """12 bytes -> 8 scales and 8 minima of 6 bits, each (blocks, 8) float32.

    The first four of each are the lower bits of bytes 0 to 3 and 4 to 7; of the last four, the lower
    half is in bytes 8 to 11 and the upper two bits are those left over in bytes 0 to 7.
    """
    first, second, last = packed[:, :4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (last & 0x0F) | (first >> 6 << 4)], axis=-1)
    minima = np.concatenate([second & 63, (last >> 4) | (second >> 6 << 4)], axis=-1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _q4_k(blocks: Array) -> Codes:
    """float16 scale, float16 scale of the minima, 12 bytes of scales, 128 bytes of codes."""
    scales, minima = _six_bit_scales(blocks[:, 4:16])
    scale, minimum = (_half(blocks, column).astype(np.float32) for column in (0, 2))
    codes = _nibbles(blocks[:, 16:].reshape(-1, 4, 32))
    return Codes(codes.view(np.int8), scale * scales, -(minimum * minima))


def _q6_k(blocks: Array) -> Codes:
    """128 bytes of lower halves, 64 of upper two bits, 16 int8 scales, a float16 scale of them."""
    lower = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    packed = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    upper = packed >> np.array([0, 2, 4, 6], dtype=np.uint8)[:, None] & 3
    scales = blocks[:, 192:208].copy().view(np.int8).astype(np.float32)
    scale = _half(blocks, 208).astype(np.float32)
    return Codes(_signed(lower | upper << 4, 32), scale * scales, None)


_CODES: dict[str, Callable[[Array], Codes]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q6_K": _q6_k,
}
READABLE = (*_PLAIN, *_CODES)


def quantise_q8_0(rows: Array) -> NDArray[np.uint8]:
    """Rows (N,K) as Q8_0 bytes (N, K / 32 * 34): a float16 scale, then 32 int8; K a multiple of 32."""
    blocks = np.ascontiguousarray(rows, dtype=np.float32).reshape(-1, 32)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(scales == 0, np.float32(0), np.float32(1) / scales)
    scaled = blocks * inverse
    codes = (np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))).astype(np.int8)
    packed = np.concatenate([scales.astype("<f2").view(np.uint8), codes.view(np.uint8)], axis=1)
    return packed.reshape(len(rows), -1)
