"""Optimizers against torch's own, against float64 singular values, and by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from budgerigar import models
from budgerigar.layers.config import TransformerConfig
from budgerigar.training import optimizers
from budgerigar.training.optimizers import Muon, Optimizers, is_hidden_matrix, orthogonalise
from budgerigar.training.recipe import TrainingRecipe

CONFIG = TransformerConfig(
    vocab_size=11, context_length=8, d_model=16, n_layers=2, n_heads=2, tied_embeddings=False,
    positions="learned",
)  # fmt: skip


def filled(network: nn.Module, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize(("kind", "steps"), [("quintic", 5), ("polar", 5)])
@pytest.mark.parametrize("shape", [(3, 12, 12), (2, 8, 32), (2, 32, 8)])
def test_orthogonalised_matrices_have_singular_values_near_one(
    shape: tuple[int, ...], kind: str, steps: int
) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    done = orthogonalise(matrices, steps, kind)
    values = torch.linalg.svdvals(done.double())
    assert values.min() > 0.3  # the quintic pushes into about 0.7 … 1.2, the smallest last
    assert values.max() < 1.3
    left, _, right = torch.linalg.svd(matrices.double(), full_matrices=False)
    cosine = (done.double() * (left @ right)).sum((-2, -1)) / min(shape[1:])
    assert (cosine > 0.8).all()  # same singular vectors as the exact U V^T


@pytest.mark.parametrize("columns", [7, 9, 30])
def test_orthogonalise_is_the_quintic_of_each_singular_value(columns: int) -> None:
    """p(s) = a s + b s^3 + c s^5, five times, on s / norm, computed in float64 by hand."""
    matrix = torch.randn(
        6, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    s = values / (values.square().sum().sqrt() + 1e-7)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    expected = (left * s) @ right
    torch.testing.assert_close(orthogonalise(matrix[None])[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("half", [False, True])
def test_muon_batches_equal_one_matrix_at_a_time(
    half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reference: Jordan's single-matrix loop, for square, wide and tall matrices, four steps."""
    monkeypatch.setattr(optimizers, "computes_bfloat16", lambda device: half)
    settings = TrainingRecipe(optimizer="muon", muon_momentum=0.9, muon_weight_decay=0.1)
    shapes = {"a": (8, 8), "b": (8, 8), "c": (16, 8), "d": (8, 16)}
    generator = torch.Generator().manual_seed(3)
    weights = {n: torch.randn(s, generator=generator) for n, s in shapes.items()}
    expected = {n: w.double() for n, w in weights.items()}
    momenta = {n: torch.zeros(s, dtype=torch.float64) for n, s in shapes.items()}
    muon = Muon(list(weights.items()), settings)
    for _ in range(4):
        for name, weight in weights.items():
            weight.grad = torch.randn(weight.shape, generator=generator)
            gradient = weight.grad.double()
            momenta[name].lerp_(gradient, 0.1)
            nesterov = gradient.lerp(momenta[name], 0.9)
            update = orthogonalise(nesterov[None])[0]
            rows, columns = weight.shape
            expected[name].mul_(1 - 0.02 * 0.1)
            expected[name].add_(update, alpha=-0.02 * max(1.0, rows / columns) ** 0.5)
        muon.step(0.02, 0.9)
    for name, weight in weights.items():
        # bfloat16 keeps 8 bits: each step of 0.02 may be wrong by about a hundredth of itself
        torch.testing.assert_close(
            weight.double(), expected[name], rtol=1e-4, atol=2e-3 if half else 1e-5
        )


def test_muon_takes_the_matrices_of_layers_only() -> None:
    network = models.build(CONFIG)
    taken = {n for n, p in network.named_parameters() if is_hidden_matrix(n, p)}
    assert len(taken) == 2 * 6  # query, key, value, output, up, down
    assert all(name.startswith("decoder.") for name in taken)
    assert "decoder.1.self_attention.query.weight" in taken


def test_adamw_decays_matrices_and_not_vectors() -> None:
    network = models.build(CONFIG)
    made = Optimizers(network, TrainingRecipe(weight_decay=0.5))
    for group in made.adamw.param_groups:
        assert {p.ndim >= 2 for p in group["params"]} == {group["weight_decay"] == 0.5}
    counted = sum(len(g["params"]) for g in made.adamw.param_groups)
    assert counted == len(list(network.parameters()))


def test_adamw_equals_the_textbook_in_float64() -> None:
    """Loshchilov & Hutter 2019, algorithm 2, with bias correction."""
    torch.manual_seed(0)
    network = nn.Linear(5, 4, bias=True)
    s = TrainingRecipe(learning_rate=0.01, beta1=0.9, beta2=0.99, weight_decay=0.1, clip=0.0)
    made = Optimizers(network, s)
    weight = network.weight.detach().double()
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(1, 6):
        filled(network, step)
        assert network.weight.grad is not None
        g = network.weight.grad.double()
        made.step(0.5)
        mean = 0.9 * mean + 0.1 * g
        square = 0.99 * square + 0.01 * g * g
        corrected = mean / (1 - 0.9**step), square / (1 - 0.99**step)
        weight = weight * (1 - 0.005 * 0.1) - 0.005 * corrected[0] / (corrected[1].sqrt() + 1e-8)
    torch.testing.assert_close(network.weight.detach().double(), weight, rtol=1e-5, atol=1e-6)


def test_own_rates_of_embedding_and_head() -> None:
    network = models.build(CONFIG)
    s = TrainingRecipe(learning_rate=1e-3, embedding_learning_rate=0.1, head_learning_rate=0.2)
    made = Optimizers(network, s)
    peaks = {
        made._names[id(p)]: group["peak"]
        for group in made.adamw.param_groups
        for p in group["params"]
    }
    assert peaks["embedding.tokens.weight"] == 0.1
    assert peaks["head.weight"] == 0.2
    assert peaks["decoder.0.attention_norm.weight"] == 1e-3


@pytest.mark.parametrize("clip", [0.5, 1e9, 0.0])
def test_clip_equals_torchs(clip: float) -> None:
    ours, theirs = models.build(CONFIG), models.build(CONFIG)
    filled(ours), filled(theirs)
    norm = Optimizers(ours, TrainingRecipe(clip=clip)).clip()
    expected = nn.utils.clip_grad_norm_(theirs.parameters(), clip or float("inf"))
    torch.testing.assert_close(norm, expected)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_state_goes_through_tensors_exactly(kind: str) -> None:
    settings = TrainingRecipe(optimizer=kind)  # type: ignore[arg-type]
    one, other = models.build(CONFIG), models.build(CONFIG)
    first, second = Optimizers(one, settings), Optimizers(other, settings)
    for step in range(3):
        filled(one, step)
        first.step(1.0)
    other.load_state_dict(one.state_dict())
    second.load_state_tensors({n: t.clone() for n, t in first.state_tensors().items()})
    filled(one, 9), filled(other, 9)
    first.step(1.0), second.step(1.0)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
