"""What is kept of a network goes with its weights."""

from __future__ import annotations

import gc

import torch
from torch import nn

from budgerigar.inspection.kept import OfNetwork, weights_version


def test_it_is_made_once_and_anew_for_other_weights() -> None:
    kept: OfNetwork[int] = OfNetwork()
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    assert [kept.get(first, make), kept.get(first, make), kept.get(second, make)] == [0, 0, 1]
    with torch.no_grad():
        first.weight.add_(1.0)
    assert [kept.get(first, make), kept.get(first, make), kept.get(second, make)] == [2, 2, 1]
    del first
    gc.collect()
    assert len(kept._values) == 1


def test_what_has_no_weights_never_changes() -> None:
    assert weights_version(object()) == 0
