from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from little_models import END, by_hand, make_ngram, store_of

from budgerigar.errors import UserError
from budgerigar.evaluation import evaluate, score_ids
from budgerigar.evaluation.losses import measure
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer

IDS = [3, 1, 4, 1, 5, 2, 2, 5, 3, 5, 1, 3, 4]


def test_an_ngram() -> None:
    model = make_ngram(end_id=END)
    nats, ranks = score_ids(model, IDS)
    assert len(nats) == len(ranks) == len(IDS) - 1
    wanted, _ = by_hand(model, store_of(IDS), None)
    np.testing.assert_allclose(nats, wanted, rtol=1e-5)
    opened = score_ids(model, IDS, start_id=END)
    assert len(opened.nats) == len(IDS)
    wanted, best = by_hand(model, store_of([END, *IDS], END), None)
    np.testing.assert_allclose(opened.nats, wanted, rtol=1e-5)
    np.testing.assert_array_equal(opened.ranks == 1, best == IDS)


def test_a_text_longer_than_the_context() -> None:
    config = TransformerConfig(vocab_size=6, context_length=4, d_model=8, n_layers=1, n_heads=1)
    model = Transformer(config)
    wanted, best = by_hand(model, store_of(IDS), 4, overlap=True)
    nats, ranks = score_ids(model, IDS)
    np.testing.assert_allclose(nats, wanted, rtol=1e-5)
    np.testing.assert_array_equal(ranks == 1, best == IDS[1:])
    found = evaluate(model, store_of(IDS), streaming=True)
    assert nats.sum() == pytest.approx(found.nats, rel=1e-6)


def test_ranks_count_from_one_and_ties_go_by_id() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0, 2.0]]).expand(4, 4)
    block = measure(logits, torch.arange(4), ranks=True)
    assert block.ranks is not None
    assert block.ranks.tolist() == [4, 1, 3, 2]
    assert block.correct.tolist() == [False, True, False, False]
    total = 1 + 2 * math.e**2 + math.e
    np.testing.assert_allclose(block.nats, math.log(total) - logits[0].numpy(), rtol=1e-6)


def test_nothing_to_score() -> None:
    assert len(score_ids(make_ngram(), [3]).nats) == 0
    assert len(score_ids(make_ngram(), []).nats) == 0
    assert len(score_ids(make_ngram(), [3], start_id=END).nats) == 1


def test_a_foreign_id_is_named() -> None:
    with pytest.raises(UserError, match="token id 6 does not exist"):
        score_ids(make_ngram(), [1, 6])
