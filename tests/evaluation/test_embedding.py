"""Vectors of texts: each way of pooling against plain loops; batches change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from budgerigar.evaluation.embedding import cosines, embed_rows, normalised, pool
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer

LENGTHS = [5, 1, 8, 3, 8, 2]


@pytest.mark.parametrize("pooling", ["mean", "cls", "last", "max"])
def test_pooling_is_that_of_a_plain_loop(pooling: str) -> None:
    vectors, lengths = torch.randn(6, 8, 4), torch.tensor(LENGTHS)
    wanted = []
    for row, n in zip(vectors.double().numpy(), LENGTHS, strict=True):
        real = row[:n]
        ways = {"mean": real.mean(0), "cls": real[0], "last": real[-1], "max": real.max(0)}
        wanted.append(ways[pooling])
    assert pool(vectors, lengths, pooling).numpy() == pytest.approx(np.array(wanted), abs=1e-6)


@pytest.mark.parametrize("assembly", ["encoder-only", "decoder-only"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "last", "max"])
def test_batches_are_invisible(assembly: str, pooling: str) -> None:
    config = TransformerConfig(
        vocab_size=19,
        context_length=8,
        d_model=16,
        n_layers=2,
        n_heads=2,
        assembly=assembly,  # type: ignore[arg-type]
        dropout_residual=0.5,
    )
    network = Transformer(config, seed=2)  # in training mode: dropout must not act
    random = np.random.default_rng(0)
    rows = [random.integers(0, 19, n).tolist() for n in [*LENGTHS, 0]]
    alone = np.concatenate([embed_rows(network, [row], pooling) for row in rows])
    for batch_tokens in (1, 12, 4096):
        found = embed_rows(network, rows, pooling, batch_tokens)
        assert found.dtype == np.float32
        assert found == pytest.approx(alone, rel=1e-4, abs=1e-6)
    assert not found[-1].any()  # no tokens: zeros
    assert network.training
    with torch.inference_mode():
        direct = network.eval().vectors(torch.tensor([rows[2]]))[0]
    assert pool(direct[None], torch.tensor([8]), pooling)[0].numpy() == pytest.approx(
        alone[2], rel=1e-4, abs=1e-6
    )


def test_lengths_and_cosines() -> None:
    vectors = np.array([[3.0, 4.0], [-6.0, -8.0], [0.0, 0.0], [4.0, -3.0]], dtype=np.float32)
    unit = normalised(vectors)
    assert unit == pytest.approx(np.array([[0.6, 0.8], [-0.6, -0.8], [0, 0], [0.8, -0.6]]))
    found = cosines(vectors)
    assert found[0] == pytest.approx([1.0, -1.0, np.nan, 0.0], nan_ok=True)
    assert cosines(unit[[0, 1, 3]]) == pytest.approx(found[np.ix_([0, 1, 3], [0, 1, 3])])
