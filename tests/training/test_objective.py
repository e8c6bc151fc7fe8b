"""One step's arithmetic against torch and against one large batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
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


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_pass_gives_torchs_losses_and_gradient(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of rows, with rows that are not scored and with infinite logits in one of those."""
    from budgerigar.training import objective

    monkeypatch.setattr(objective, "LOGITS_AT_ONCE", 3 * 11)  # three rows at a time
    generator = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(4, 5, 11, generator=generator)
    targets = torch.randint(11, (4, 5), generator=generator)
    targets[1, 2:], targets[3, 0] = IGNORED, IGNORED
    logits[3, 0, 4] = float("inf")
    ours = logits.clone().requires_grad_()
    smoothed, true = cross_entropy(ours, targets, smoothing, weight=0.25)
    (3.0 * smoothed).backward()
    theirs = logits.double().masked_fill((targets == IGNORED)[..., None], 0.0).requires_grad_()
    flat = theirs.flatten(0, 1), targets.flatten()
    expected = F.cross_entropy(*flat, reduction="sum", label_smoothing=smoothing)
    (3.0 * 0.25 * expected).backward()
    assert float(smoothed) == pytest.approx(0.25 * float(expected), rel=1e-5)
    assert float(true) == pytest.approx(0.25 * float(F.cross_entropy(*flat, reduction="sum")))
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad.double(), theirs.grad, atol=1e-6, rtol=1e-5)
    assert not true.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_pairs_accumulate_per_token_whatever_their_padding(smoothing: float) -> None:
    """Micro-batches of pairs of unequal length: the gradient of all pairs in one batch."""
    from budgerigar import models
    from budgerigar.layers.config import TransformerConfig
    from budgerigar.text.pair_batches import gather_pairs
    from budgerigar.text.pair_store import PairStore, TokenLines

    rng = np.random.default_rng(0)

    def lines(lengths: list[int]) -> TokenLines:
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return TokenLines(rng.integers(1, 9, offsets[-1]).astype(np.uint16), offsets)

    sizes = np.ones(5, dtype=np.int64)
    store = PairStore(lines([3, 1, 7, 2, 2]), lines([2, 6, 1, 5, 3]), sizes, sizes, 0, 0)
    config = TransformerConfig(
        assembly="encoder-decoder", vocab_size=9, d_model=16, n_layers=1, n_heads=2, decoder_start=0
    )
    device = torch.device("cpu")

    class Rows:
        def __init__(self, *rows: list[int]) -> None:
            self.rows = [np.array(one) for one in rows]

        def next(self) -> Any:
            return gather_pairs(store, self.rows.pop(0), 0)

    gradients, losses = [], []
    for batches, count in ((Rows([0, 1, 2, 3, 4]), 1), (Rows([1], [0, 2], [3, 4]), 3)):
        network = models.build(config, seed=3)
        drawn, scored = next_micro_batches(batches, count, device)
        assert scored == store.n_tokens == 22
        losses.append(accumulate_gradients(network, drawn, scored, smoothing))
        gradients.append({n: p.grad for n, p in network.named_parameters()})
    torch.testing.assert_close(losses[0], losses[1])
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name, atol=1e-6, rtol=1e-4)
