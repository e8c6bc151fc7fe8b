"""Losses of pairs against a float64 computation of one pair at a time, without padding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from budgerigar import models
from budgerigar.evaluation.pairs import evaluate_pairs
from budgerigar.layers.config import TransformerConfig
from budgerigar.text.pair_store import PairStore, TokenLines

END = 0


def lines(rng: np.random.Generator, lengths: list[int], vocab: int) -> TokenLines:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return TokenLines(rng.integers(1, vocab, offsets[-1]).astype(np.uint16), offsets)


@pytest.fixture
def store() -> PairStore:
    rng = np.random.default_rng(0)
    lengths = [3, 1, 7, 0, 5, 2, 9]
    target = lines(rng, lengths, 11)
    sizes = np.array(lengths, dtype=np.int64) * 4
    return PairStore(lines(rng, [2, 6, 1, 3, 4, 8, 5], 11), target, sizes, sizes, END, END)


def network(**changes: object) -> torch.nn.Module:
    values = {"assembly": "encoder-decoder", "vocab_size": 11, "d_model": 16, "n_layers": 1}
    values |= {"n_heads": 2, "positions": "sinusoidal", "decoder_start": END, "init_std": 0.2}
    return models.build(TransformerConfig(**{**values, "dropout_residual": 0.3, **changes}), seed=1)


def by_hand(model: torch.nn.Module, store: PairStore) -> list[float]:
    model = model.double().eval()
    found = []
    for row in range(store.n_pairs):
        wanted = [*store.target[row].tolist(), END]
        source = torch.tensor([[*store.source[row].tolist(), END]])
        logits = model(torch.tensor([[END, *wanted[:-1]]]), source=source)[0].double()
        log_p = logits.log_softmax(-1)
        found.append(-float(log_p[range(len(wanted)), wanted].sum()))
    model.float()
    return found


@pytest.mark.parametrize("batch_tokens", [1, 12, 4096])
def test_every_target_token_once_whatever_the_batch(store: PairStore, batch_tokens: int) -> None:
    model = network()
    model.train()
    state = torch.get_rng_state()
    found = evaluate_pairs(model, store, batch_tokens=batch_tokens)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    expected = by_hand(model, store)
    assert found.nats == pytest.approx(sum(expected), rel=1e-5)
    assert found.n_tokens == store.n_tokens == 27 + 7
    assert found.bits_per_byte == pytest.approx(
        sum(expected) / math.log(2) / (27 * 4 + 7), rel=1e-5
    )
    assert found.perplexity == pytest.approx(math.exp(sum(expected) / 34), rel=1e-5)
    assert found.bleu is None
    # the ratio's standard error, by a jackknife over sentences
    tokens = store.target.lengths + 1
    total, count = sum(expected), len(expected)
    left = [(total - e) / (34 - t) for e, t in zip(expected, tokens.tolist(), strict=True)]
    mean = sum(left) / count
    jackknife = math.sqrt((count - 1) / count * sum((x - mean) ** 2 for x in left))
    assert found.standard_error == pytest.approx(jackknife, rel=0.5)


def test_pairs_beyond_learned_positions_are_left_out_and_said(
    store: PairStore, capsys: pytest.CaptureFixture[str]
) -> None:
    model = network(positions="learned", context_length=8)
    found = evaluate_pairs(model, store)
    assert found.n_tokens == store.n_tokens - 3 - 10  # a source of 9 with its end; a target of 10
    assert "2 of 7 pairs" in capsys.readouterr().err
