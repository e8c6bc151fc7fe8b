"""Hand-written gradients against finite differences and torch's own functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from budgerigar.layers.elementwise import dropout, rms_norm, rotate, squared_relu


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


def test_dropout_zeroes_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(3)
    x = torch.full((7, 3, 4_999), 2.0, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.3)
    kept = y != 0
    n = x.numel()
    sigma = (n * 0.3 * 0.7) ** 0.5
    assert abs(int((~kept).sum()) - 0.3 * n) < 5 * sigma
    rounded = round(0.3 * 65_536) / 65_536
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 2.0 / (1 - rounded)))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, y.detach() / 2.0)
    pairs = kept.view(7, -1)[:, :-1] & kept.view(7, -1)[:, 1:]  # neighbours are independent
    assert abs(float(pairs.double().mean()) - 0.49) < 0.01
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.3), y)  # torch's default generator draws, and nothing else
    assert torch.equal(dropout(x, 0.0), x)
    assert not dropout(x, 1.0 - 1e-9).isnan().any()
