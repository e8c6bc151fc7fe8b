"""Products of a few rows with a large matrix: what one new token costs.

Such a product is bound by reading the matrix. MKL, which torch takes for float32 on a CPU, reads it
with one thread where the processor is not Intel's; oneDNN, which torch also holds, uses all. Measured
on two cores for 768 x 3,072: 12.5 GB/s through MKL, 25.6 GB/s through oneDNN; one core: 13 and 17.
For GPT-2's shape with a cache that is 40 tokens/s in place of 24 (benchmarks/generate.py).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW_ROWS = 8  # a beam of eight is still bound by reading the matrix
LARGE = 1 << 18  # numbers in the matrix; below, starting oneDNN costs more than it saves


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., inputs) times weight (outputs, inputs) transposed, plus bias: `F.linear`'s numbers."""
    if weight.numel() >= LARGE and _reads_faster(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _reads_faster(x: Tensor, weight: Tensor) -> bool:
    """Running (not training) in float32 on a CPU, for 1 to `FEW_ROWS` rows."""
    if torch.is_grad_enabled() or x.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    few = 0 < x.numel() <= FEW_ROWS * x.shape[-1]
    plain = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return few and plain and _has_onednn()


def _has_onednn() -> bool:
    # The operator is the one that torch.compile emits for linear layers on a CPU; it has no public
    # name, so its absence in another release of torch only costs the speed.
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """`torch.nn.Linear` through `product`."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs)."""
        return product(input, self.weight, self.bias)
