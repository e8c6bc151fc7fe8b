"""Hypotheses as rows and as a tree: after any forks, what each reads next is what `forward` says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from budgerigar.layers.config import TransformerConfig
from budgerigar.models.beams import Beams, RowBeams, TreeBeams
from budgerigar.models.transformer import Transformer

V = 19
CONFIG = TransformerConfig(
    assembly="encoder-decoder",
    vocab_size=V,
    context_length=80,
    d_model=24,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    init_std=0.3,
    decoder_start=0,
)
SOURCE = torch.tensor([[3, 4, 5, 0], [6, 0, 0, 0], [7, 8, 0, 0]])
LENGTHS = torch.tensor([4, 2, 3])


def random_walk(beams: Beams, network: Transformer, steps: int) -> float:
    """Forks, deaths and sources that leave at random; the largest difference to `forward`."""
    rng = np.random.default_rng(0)
    paths: list[list[list[int]]] = [[[]] for _ in range(3)]
    n_open, worst = np.ones(3, dtype=np.int64), 0.0
    for n in range(steps):
        before = n_open
        n_open = np.where(before > 0, rng.integers(1, 5, 3), 0)
        if n == steps // 2:
            n_open[1] = 0  # this source is over
        width = int(n_open.max())
        tokens = rng.integers(0, V, (3, width))
        parents = rng.integers(0, np.maximum(before, 1)[:, None], (3, width))
        logits = beams.advance(tokens, parents, n_open)
        paths = [
            [[*paths[b][parents[b, j]], int(tokens[b, j])] for j in range(n_open[b])]
            for b in range(3)
        ]
        whole = [
            network(torch.tensor([path]), source=SOURCE[[b]], source_lengths=LENGTHS[[b]])[0, -1]
            for b in range(3)
            for path in paths[b]
        ]
        assert logits.shape == (n_open.sum(), V)
        worst = max(worst, float((logits - torch.stack(whole)).abs().max()))
    return worst


@pytest.mark.parametrize("kind", [RowBeams, TreeBeams])
def test_every_hypothesis_reads_its_own_path(kind: type[RowBeams] | type[TreeBeams]) -> None:
    network = Transformer(CONFIG, seed=1).eval()
    with torch.inference_mode():
        state = network.start(3, source=SOURCE, source_lengths=LENGTHS)
        beams = kind(network, state)
        assert random_walk(beams, network, 24) < 1e-4  # 24 steps of up to 4: the cache grows
    if isinstance(beams, TreeBeams):
        assert beams.sources.tolist() == [0, 2]


def test_a_tree_holds_its_source_once() -> None:
    network = Transformer(CONFIG, seed=1).eval()
    held = {}
    for kind in (RowBeams, TreeBeams):
        with torch.inference_mode():
            state = network.start(3, source=SOURCE, source_lengths=LENGTHS)
            beams = kind(network, state)
            ones = np.ones(3, dtype=np.int64)
            beams.advance(np.zeros((3, 1), dtype=np.int64), np.zeros((3, 1), dtype=np.int64), ones)
            beams.advance(
                np.zeros((3, 5), dtype=np.int64), np.zeros((3, 5), dtype=np.int64), 5 * ones
            )
        held[kind] = sum(key.nbytes for key, _ in beams.state.cross)
    assert held[RowBeams] == 5 * held[TreeBeams]
