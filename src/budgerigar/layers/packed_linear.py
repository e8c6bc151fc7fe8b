"""Linear layers and embeddings whose weights stay quantised: small integers and a scale per group.

w[n, k] = scale[n, k // g] * code[n, k] + minimum[n, k // g]: what GGUF's quantised types hold (g is
32 or 16). A matrix takes 1.06 to 1.25 bytes a weight here instead of 4, and is the same matrix to
the last bit of float32: some rows at a time are multiplied out in the processor's cache, then taken
into an ordinary float32 product, for one row of x and for many alike. So the logits of a token do
not depend on how many others are read with it, and equal those of the float32 matrix up to rounding
(1e-6 relative).

Measured on one thread of an AMD EPYC with AVX-512, 1,536 x 576, one row: 0.20 ms; the float32 matrix
takes 0.24 ms, because it is bound by reading four times the bytes. Integer products
(`torch._int_mm`) with one scale per row of W and of x take 0.10 ms, at about 1 % error of each
product; with a scale per 32 and x in two bytes, which makes that error 1e-5, 0.25 ms.

Shapes: N outputs, K inputs, g values of a group, M rows of x.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from budgerigar.layers.linear import Linear

CHUNK = 1 << 19  # numbers multiplied out at a time: 2 MB of float32, which the cache holds


class PackedMatrix(nn.Module):
    """A quantised matrix (N,K): codes (N,K) int8, scales and minima (N, K/g) float16 or float32."""

    codes: Tensor
    scales: Tensor
    minima: Tensor | None

    def __init__(self, codes: Tensor, scales: Tensor, minima: Tensor | None = None) -> None:
        super().__init__()
        self.rows, self.columns = codes.shape
        self.groups = scales.shape[1]
        assert self.columns % self.groups == 0
        assert len(scales) == self.rows
        assert minima is None or minima.shape == scales.shape
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("minima", minima)

    def __repr__(self) -> str:
        return f"PackedMatrix({self.rows}, {self.columns}, groups of {self.group})"

    @property
    def group(self) -> int:
        """g, the values that share a scale."""
        return self.columns // self.groups

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""
        return sum(buffer.nbytes for buffer in self.buffers())

    @property
    def dense(self) -> Tensor:
        """The whole matrix in float32, (N,K): made anew at each call."""
        return self.row(torch.arange(self.rows, device=self.codes.device))

    def row(self, ids: Tensor) -> Tensor:
        """Rows by number: ids (...,) -> float32 (..., K)."""
        codes = self.codes[ids].unflatten(-1, (self.groups, self.group))
        values = codes * self.scales[ids].float()[..., None]
        if self.minima is not None:
            values += self.minima[ids].float()[..., None]
        return values.flatten(-2)

    def product(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (..., K) times the matrix transposed, plus bias: (..., N) in x's precision."""
        flat = x.reshape(-1, self.columns).float()
        if torch.is_grad_enabled() and flat.requires_grad:
            out = _Product.apply(flat, self)
        else:
            out = self.multiply(flat)
        if bias is not None:
            out = out + bias
        return out.view(*x.shape[:-1], self.rows).to(x.dtype)

    def multiply(self, x: Tensor) -> Tensor:
        """float32 (M,K) -> (M,N), without a gradient."""
        out = x.new_empty(len(x), self.rows)
        for start, stop, scaled in self._scaled():
            torch.mm(x, scaled.t(), out=out[:, start:stop])
        if self.minima is not None:  # the same for all K of a group: times the sum of its x
            out.addmm_(x.view(len(x), self.groups, self.group).sum(-1), self.minima.float().t())
        return out

    def gradient(self, gradient: Tensor) -> Tensor:
        """The gradient by x (M,K) from that by the product (M,N)."""
        out = gradient.new_zeros(len(gradient), self.columns)
        for start, stop, scaled in self._scaled():
            out.addmm_(gradient[:, start:stop], scaled)
        if self.minima is not None:
            out += (gradient @ self.minima.float()).repeat_interleave(self.group, dim=1)
        return out

    def _scaled(self) -> Iterator[tuple[int, int, Tensor]]:
        """(start, stop, codes times scales float32 (stop - start, K)) of a few rows at a time.

        The tensor is one buffer, overwritten at each turn.
        """
        step = min(self.rows, max(1, CHUNK // self.columns))
        buffer = torch.empty(step, self.groups, self.group, device=self.codes.device)
        codes = self.codes.view(self.rows, self.groups, self.group)
        for start in range(0, self.rows, step):
            stop = min(start + step, self.rows)
            part = buffer[: stop - start]
            part.copy_(codes[start:stop]).mul_(self.scales[start:stop, :, None].float())
            yield start, stop, part.view(stop - start, self.columns)


class _Product(Function):
    """The product with a gradient for x: the matrix is multiplied out again, never kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: PackedMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.multiply(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.gradient(gradient), None


class PackedLinear(nn.Module):
    """A linear layer over a quantised matrix; it is not trained. (..., K) -> (..., N)."""

    def __init__(self, matrix: PackedMatrix, bias: Tensor | None = None) -> None:
        super().__init__()
        self.matrix = matrix
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.in_features, self.out_features = matrix.columns, matrix.rows

    @property
    def weight(self) -> Tensor:
        """The matrix in float32 (N,K), made anew at each call."""
        return self.matrix.dense

    def forward(self, x: Tensor) -> Tensor:
        return self.matrix.product(x, self.bias)


class PackedEmbedding(nn.Module):
    """An embedding table that stays quantised; a tied head multiplies by it. ids (...,) -> (..., K)."""

    def __init__(self, matrix: PackedMatrix) -> None:
        super().__init__()
        self.matrix = matrix
        self.num_embeddings, self.embedding_dim = matrix.rows, matrix.columns

    @property
    def weight(self) -> Tensor:
        """The table in float32 (N,K), made anew at each call."""
        return self.matrix.dense

    def forward(self, ids: Tensor) -> Tensor:
        return self.matrix.row(ids)


def unpack(network: nn.Module) -> None:
    """Replace every quantised matrix of `network` by its float32 numbers, to train them."""
    parents: list[Any] = list(network.modules())
    for parent in parents:
        for name, child in list(parent.named_children()):
            if isinstance(child, PackedLinear):
                setattr(parent, name, _plain_linear(child))
            elif isinstance(child, PackedEmbedding):
                setattr(parent, name, nn.Embedding.from_pretrained(child.weight, freeze=False))
            elif isinstance(child, PackedMatrix) and name == "packed":  # an output layer's own
                parent.weight, parent.packed = nn.Parameter(child.dense), None


def unpacked(network: nn.Module) -> nn.Module:
    """The network with float32 matrices: itself where nothing is quantised, else a copy that shares
    everything else."""
    if not any(isinstance(module, PackedMatrix) for module in network.modules()):
        return network
    shared: list[Tensor] = [*network.parameters(), *network.buffers()]
    copied = copy.deepcopy(network, {id(tensor): tensor for tensor in shared})
    unpack(copied)
    return copied


def _plain_linear(packed: PackedLinear) -> Linear:
    with torch.device("meta"):
        linear = Linear(packed.in_features, packed.out_features, packed.bias is not None)
    linear.weight = nn.Parameter(packed.weight)
    if packed.bias is not None:
        linear.bias = nn.Parameter(packed.bias.detach().clone())
    return linear


def packed_bytes(network: nn.Module) -> int:
    """Bytes of all parameters and buffers, each once: what a network takes in memory."""
    seen = {}
    for tensor in [*network.parameters(), *network.buffers()]:
        seen[tensor.data_ptr()] = tensor.nbytes
    return sum(seen.values())


def n_weights(network: nn.Module) -> int:
    """Weights of a network, quantised ones too."""
    packed = [m.codes.numel() for m in network.modules() if isinstance(m, PackedMatrix)]
    return sum(packed) + sum(p.numel() for p in network.parameters())
