"""One step's arithmetic against torch and against one large batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from budgerigar.training.averaging import Averages
from budgerigar.training.objective import (
    IGNORED,
    accumulate_gradients,
    cross_entropy,
    next_micro_batches,
)
from budgerigar.training.recipe import TrainingRecipe


class Row(nn.Module):
    """Logits by a table: as small as a model can be."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(7, 7)

    def forward(self, tokens: Any) -> Any:
        return self.table(tokens)


class Parts:
    """Given batches, one after another."""

    def __init__(self, *parts: tuple[torch.Tensor, torch.Tensor]) -> None:
        self.parts = list(parts)

    def next(self) -> Any:
        tokens, targets = self.parts.pop(0)
        return SimpleNamespace(targets=targets, inputs=lambda: {"tokens": tokens})


def test_accumulation_weighs_every_token_the_same() -> None:
    """Micro-batches with 6 and 2 scored targets give the gradient of all 8 at once."""
    tokens = torch.arange(8).view(2, 4) % 7
    targets = (tokens + 1) % 7
    targets[1, 2:] = IGNORED
    device = torch.device("cpu")
    one, other = Row(), Row()
    whole, n = next_micro_batches(Parts((tokens, targets)), 1, device)
    loss = accumulate_gradients(one, whole, n)
    rows = [(tokens[:1], targets[:1]), (tokens[1:], targets[1:])]
    parts, m = next_micro_batches(Parts(*rows), 2, device)
    split_loss = accumulate_gradients(other, parts, m)
    assert (n, m) == (6, 6)
    expected = F.cross_entropy(one(tokens).flatten(0, 1), targets.flatten())
    torch.testing.assert_close(loss.true, expected.detach())
    torch.testing.assert_close(split_loss.true, loss.true)
    torch.testing.assert_close(split_loss.smoothed, loss.true)
    torch.testing.assert_close(one.table.weight.grad, other.table.weight.grad)


def test_true_cross_entropy_stands_beside_the_smoothed_one() -> None:
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[0, 1, IGNORED], [4, 4, 2]])
    smoothed, true = cross_entropy(logits, targets, 0.1)
    log_p = logits.double().log_softmax(-1)
    expected = expected_smoothed = 0.0
    for row, column in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]:
        nll = -float(log_p[row, column, targets[row, column]])
        expected += nll
        expected_smoothed += 0.9 * nll - 0.1 * float(log_p[row, column].mean())
    assert float(true) == pytest.approx(expected, rel=1e-5)
    assert float(smoothed) == pytest.approx(expected_smoothed, rel=1e-5)


def test_moving_average_by_hand_and_put_back_exactly() -> None:
    network = nn.Linear(1, 1, bias=False)
    averages = Averages(network, TrainingRecipe(average="ema", average_decay=0.9))
    expected = float(network.weight.detach())
    for n in range(1, 30):
        with torch.no_grad():
            network.weight.fill_(n)
        averages.after_step()
        decay = min(0.9, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * n
    with averages.in_place():
        assert float(network.weight.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(network.weight.detach()) == 29.0


def test_mean_of_the_last_snapshots() -> None:
    network = nn.Linear(1, 1, bias=False)
    averages = Averages(network, TrainingRecipe(average="last", average_count=3))
    for n in (1.0, 5.0, 6.0, 10.0):
        with torch.no_grad():
            network.weight.fill_(n)
        averages.before_evaluation()
    with averages.in_place():
        assert float(network.weight.detach()) == pytest.approx(7.0)
