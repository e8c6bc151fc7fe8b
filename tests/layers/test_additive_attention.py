"""Additive attention: the equation, the module and rows that share a source."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from budgerigar.layers.additive_attention import AdditiveAttention, Source, additive_attention
from budgerigar.layers.taps import Taps
from budgerigar.layers.visibility import View

B, T, S, H, A, C = 3, 4, 5, 6, 7, 8
NAME = "decoder.0.cross_attention"


def made(seed: int = 0) -> tuple[AdditiveAttention, Source]:
    torch.manual_seed(seed)
    module = AdditiveAttention(NAME, H, C, A)
    torch.nn.init.normal_(module.score)
    keys, values = module.memory(torch.randn(B, S, C))
    lengths = torch.tensor([5, 1, 3])
    padding = torch.arange(S)[None] >= lengths[:, None]
    return module, Source(lengths, keys, values, padding)


def by_hand(module: AdditiveAttention, hidden: Tensor, source: Source, row: int) -> list[float]:
    """The context of one row, number by number, in float64."""
    assert source.keys is not None
    assert source.values is not None
    assert source.lengths is not None
    query = (module.query.weight.double() @ hidden.double()).tolist()
    score, keys = module.score.tolist(), source.keys[row].tolist()
    n = int(source.lengths[row])
    scores = [sum(score[a] * math.tanh(query[a] + keys[j][a]) for a in range(A)) for j in range(n)]
    total = sum(math.exp(s) for s in scores)
    values = source.values[row].tolist()
    return [sum(math.exp(scores[j]) / total * values[j][c] for j in range(n)) for c in range(C)]


def test_the_equation_and_the_module_are_the_sum_by_hand() -> None:
    module, source = made()
    hidden = torch.randn(B, H)
    expected = torch.tensor([by_hand(module, hidden[b], source, b) for b in range(B)])
    torch.testing.assert_close(module(hidden, source), expected, atol=1e-5, rtol=0)
    assert source.keys is not None
    assert source.values is not None
    assert source.padding is not None
    read = additive_attention(
        module.query(hidden)[:, None], source.keys, source.values, module.score,
        ~source.padding[:, None],
    )  # fmt: skip
    torch.testing.assert_close(read[:, 0], expected, atol=1e-5, rtol=0)


def test_rows_that_share_a_source_get_what_each_would_alone() -> None:
    module, source = made()
    rows = torch.tensor([2, 0, 2, 2, 0])
    shared, hidden = source.select(rows), torch.randn(5, H)
    assert shared.keys is not None
    assert source.keys is not None
    assert len(shared.keys) == 2  # the one that nobody needs is gone
    torch.testing.assert_close(
        module(hidden, shared), module(hidden, shared.spread()), atol=1e-6, rtol=0
    )
    kept = source.select(torch.tensor([0, 1, 2, 1, 0]))
    assert kept.keys is not None
    assert kept.keys.data_ptr() == source.keys.data_ptr()  # nothing copied
    again = kept.select(torch.tensor([3, 0])).spread()
    assert again.keys is not None
    assert torch.equal(again.keys, source.keys[[1, 0]])


@pytest.mark.parametrize("shared", [False, True])
def test_looking_changes_nothing_and_the_steps_are_recomputed(shared: bool) -> None:
    module, source = made()
    source = source.select(torch.tensor([2, 0, 2])) if shared else source
    hidden, taps = torch.randn(B, H), Taps(record=("*",))
    plain = module(hidden, source)
    assert torch.equal(module(hidden, module.seen(source, taps), taps), plain)
    got = taps.values
    assert got[f"{NAME}.weights"].shape == (B, 1, 1, S)
    torch.testing.assert_close(got[f"{NAME}.weights"].sum(-1), torch.ones(B, 1, 1))
    view = View(torch.zeros(1, 1), torch.arange(S)[None], causal=False)
    view.key_valid = None if source.spread().padding is None else ~source.spread().padding  # type: ignore[operator]
    steps = module.steps_from_taps(*(got[f"{NAME}.{p}"] for p in ("query", "key", "value")), view)
    torch.testing.assert_close(steps.head_output[:, 0, 0], plain, atol=1e-6, rtol=0)
    assert torch.equal(steps.weights, got[f"{NAME}.weights"])


def test_replacing_weights_changes_the_context() -> None:
    module, source = made()
    first = torch.zeros(B, 1, 1, S)
    first[..., 0] = 1.0
    taps = Taps(replace={f"{NAME}.weights": lambda _: first})
    assert source.values is not None
    found = module(torch.randn(B, H), source, taps)
    torch.testing.assert_close(found, source.values[:, 0])


def test_a_source_without_a_real_token_gives_zeros() -> None:
    module, source = made()
    assert source.padding is not None
    blind = Source(None, source.keys, source.values, torch.ones_like(source.padding))
    assert not module(torch.randn(B, H), blind).any()
    taps = Taps(replace={f"{NAME}.scores": lambda scores: scores})
    assert not module(torch.randn(B, H), blind, taps).any()
