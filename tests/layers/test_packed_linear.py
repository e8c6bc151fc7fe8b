"""Quantised matrices against their own float32 numbers, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from budgerigar.layers import packed_linear
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.embedding import Embedding, Head
from budgerigar.layers.packed_linear import (
    PackedEmbedding,
    PackedLinear,
    PackedMatrix,
    n_weights,
    packed_bytes,
    unpack,
)


def _matrix(
    rows: int = 37, columns: int = 96, group: int = 32, minima: bool = True
) -> PackedMatrix:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(-128, 128, (rows, columns), dtype=torch.int8, generator=generator)
    scales = torch.rand(rows, columns // group, generator=generator).half() / 64
    lowest = torch.randn(rows, columns // group, generator=generator).half() if minima else None
    return PackedMatrix(codes, scales, lowest)


def _by_hand(matrix: PackedMatrix) -> Tensor:
    """Every weight by its definition, in float64."""
    dense = torch.zeros(matrix.rows, matrix.columns, dtype=torch.float64)
    for n in range(matrix.rows):
        for k in range(matrix.columns):
            g = k // matrix.group
            low = 0.0 if matrix.minima is None else matrix.minima[n, g].item()
            dense[n, k] = matrix.scales[n, g].item() * matrix.codes[n, k].item() + low
    return dense


@pytest.mark.parametrize("minima", [True, False])
@pytest.mark.parametrize("group", [32, 16])
def test_products_equal_those_of_the_numbers(
    monkeypatch: pytest.MonkeyPatch, minima: bool, group: int
) -> None:
    monkeypatch.setattr(packed_linear, "CHUNK", 960)  # ten rows at a time, and seven at the end
    matrix = _matrix(group=group, minima=minima)
    dense = _by_hand(matrix)
    torch.testing.assert_close(matrix.dense.double(), dense, rtol=1e-6, atol=1e-6)
    for shape in [(96,), (1, 96), (2, 5, 96)]:
        x = torch.randn(shape)
        bias = torch.randn(37)
        expected = x.double() @ dense.T + bias
        torch.testing.assert_close(matrix.product(x, bias).double(), expected, rtol=1e-5, atol=1e-5)


def test_a_row_alone_equals_the_row_in_a_batch() -> None:
    matrix = _matrix(rows=300, columns=512)
    x = torch.randn(64, 512)
    together = matrix.product(x)
    alone = torch.stack([matrix.product(row) for row in x])
    assert ((together - alone).abs().max() / together.abs().max()).item() < 2e-6


def test_gradient_by_x() -> None:
    matrix = _matrix()
    x = torch.randn(3, 96, requires_grad=True)
    gradient = torch.randn(3, 37)
    matrix.product(x).backward(gradient)
    assert x.grad is not None
    expected = gradient.double() @ _by_hand(matrix)
    torch.testing.assert_close(x.grad.double(), expected, rtol=1e-5, atol=1e-5)


def test_rows_of_a_table_and_a_tied_head() -> None:
    config = TransformerConfig(vocab_size=37, d_model=96, n_heads=2, n_layers=1)
    embedding, head = Embedding(config, "decoder", 37), Head(config)
    matrix = _matrix()
    embedding.tokens = PackedEmbedding(matrix)
    ids = torch.tensor([[3, 36, 0]])
    torch.testing.assert_close(embedding.tokens(ids)[0, 1], matrix.dense[36], rtol=0, atol=0)
    x = torch.randn(1, 2, 96)
    torch.testing.assert_close(head(x, embedding), x @ matrix.dense.T, rtol=1e-5, atol=1e-4)


def test_unpacking_gives_plain_layers_with_the_same_products() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = PackedLinear(_matrix(), torch.randn(37))
            self.table = PackedEmbedding(_matrix())
            self.head = Head(
                TransformerConfig(vocab_size=37, d_model=96, n_heads=2, tied_embeddings=False)
            )
            self.head.weight, self.head.packed = None, _matrix()

    parts = Parts()
    x, table = torch.randn(4, 96), Embedding(TransformerConfig(), "decoder", 2)
    before = parts.linear(x), parts.table(torch.tensor([5])), parts.head(x, table)
    size, n = packed_bytes(parts), n_weights(parts)
    unpack(parts)
    assert type(parts.linear).__name__ == "Linear"
    assert packed_bytes(parts) > 3 * size
    assert n_weights(parts) == n == sum(p.numel() for p in parts.parameters())
    after = parts.linear(x), parts.table(torch.tensor([5])), parts.head(x, table)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)
    assert all(p.requires_grad for p in parts.parameters())
