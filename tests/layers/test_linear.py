"""A few rows through another library: the same numbers as F.linear, and only where it is meant."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from budgerigar.layers import linear
from budgerigar.layers.linear import Linear, product


@pytest.mark.parametrize("shape", [(1, 1, 512), (4, 1, 512), (2, 2, 512), (5, 512), (0, 1, 512)])
@pytest.mark.parametrize("bias", [True, False])
def test_same_numbers_as_float64(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    layer, x = Linear(512, 600, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        found = layer(x)
        shift = layer.bias.double() if layer.bias is not None else None
        want = F.linear(x.double(), layer.weight.double(), shift)
    torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5)


def test_training_and_small_matrices_take_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(linear, "_has_onednn", lambda: asked.append(1) or False)
    large, small, row = torch.randn(600, 512), torch.randn(8, 512), torch.randn(1, 512)
    product(row, large)
    with torch.no_grad():
        product(row, small)
        product(torch.randn(linear.FEW_ROWS + 1, 512), large)
        product(row.double(), large.double())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product(row, large)
        assert not asked
        product(row, large)
    assert asked
