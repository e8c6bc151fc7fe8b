"""What cannot fit is refused before anything is allocated."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.training import memory
from budgerigar.training.memory import check_memory, memory_of
from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.run import train


@pytest.mark.parametrize("recipe", ["shakespeare", None])
@pytest.mark.parametrize("setting", [{"batch_size": 10**9}, {"d_model": 10**6, "n_heads": 1}])
def test_far_too_large_is_refused_and_leaves_nothing(
    tmp_path: Path, recipe: str | None, setting: dict[str, int]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a text that is read for its letters\n" * 20)
    settings = {"threads": 1, "baselines": False, "steps": 2, **setting}
    with pytest.raises(UserError, match="GB of memory"):
        train(recipe, [text], out=tmp_path / "run", settings=settings)
    assert not (tmp_path / "run").exists()


def test_the_limit_is_the_whole_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TransformerConfig(n_layers=1, d_model=16, n_heads=1)
    cpu = torch.device("cpu")
    there = memory_of(cpu)
    assert there is None or there > 2**28
    check_memory(config, TrainingRecipe(batch_size=1), cpu)
    monkeypatch.setattr(memory, "memory_of", lambda device: 1000)
    with pytest.raises(UserError, match="batch-size"):
        check_memory(config, TrainingRecipe(batch_size=1), cpu)
    monkeypatch.setattr(memory, "memory_of", lambda device: None)
    check_memory(config, TrainingRecipe(batch_size=10**9), cpu)
