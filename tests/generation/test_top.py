"""The k largest against a stable sort: ties, blocks, rests that no block covers."""

from __future__ import annotations

import pytest
import torch

from budgerigar.generation.top import LARGE, top


@pytest.mark.parametrize("size", [3, 10, LARGE - 1, LARGE, LARGE + 3, 8009])
@pytest.mark.parametrize("kind", ["plain", "ties", "mostly impossible", "all equal"])
def test_as_a_stable_sort_would_have_it(size: int, kind: str) -> None:
    values = torch.randn(20, size, generator=torch.Generator().manual_seed(size))
    if kind == "ties":
        values = (values * 2).round()
    elif kind == "mostly impossible":
        values[:, ::7] = -torch.inf
        values[:, 1:] = -torch.inf
    elif kind == "all equal":
        values[:] = 0.5
    wanted, order = values.sort(dim=-1, descending=True, stable=True)
    for k in (1, 2, 5, 12):
        found, ids = top(values, k)
        assert torch.equal(found, wanted[:, :k])
        assert torch.equal(ids, order[:, :k])
