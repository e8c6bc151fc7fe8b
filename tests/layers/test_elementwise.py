"""Hand-written gradients against finite differences and torch's own functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from budgerigar.layers.elementwise import rms_norm, rotate, squared_relu


def test_gradients_by_finite_differences() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64, requires_grad=True)
    angles = torch.randn(1, 1, 4, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(squared_relu, x)
    assert torch.autograd.gradcheck(lambda x: rms_norm(x, 1e-3), x)
    turn = [angles.cos(), angles.sin()]
    assert torch.autograd.gradcheck(lambda x: rotate(x, *turn), x)
    for function in (squared_relu, lambda x: rms_norm(x, 1e-3), lambda x: rotate(x, *turn)):
        assert torch.autograd.gradgradcheck(function, x)


def test_values_equal_torch() -> None:
    torch.manual_seed(1)
    x = torch.randn(5, 7, requires_grad=True)
    torch.testing.assert_close(rms_norm(x, 1e-5), F.rms_norm(x, (7,), None, 1e-5))
    torch.testing.assert_close(squared_relu(x), F.relu(x).square())


def test_rotation_as_complex_numbers() -> None:
    torch.manual_seed(2)
    x, angles = torch.randn(1, 2, 4, 10), torch.randn(1, 1, 4, 3)
    turned = rotate(x, angles.cos(), angles.sin())
    want = torch.complex(x[..., :3], x[..., 3:6]) * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(turned[..., :6], torch.cat([want.real, want.imag], -1))
    assert torch.equal(turned[..., 6:], x[..., 6:])
