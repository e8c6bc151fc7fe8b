"""A tiny text, its batches and a small Transformer, so that the loop is tested by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from budgerigar import models
from budgerigar.formats.run import RunFolder, make_config
from budgerigar.layers.config import TransformerConfig
from budgerigar.training.device import choose_compute
from budgerigar.training.loop import Loop, Surroundings
from budgerigar.training.recipe import Recipe, TrainingRecipe, to_toml

TEXT = "the cat sat on the mat and the dog sat on the log; " * 40
SMALL: dict[str, Any] = {
    "precision": "float32",
    "steps": 12,
    "evaluate_every": 4,
    "log_every": 1,
    "threads": 1,
    "batch_size": 4,
}


@dataclass
class Letters:
    """Characters of TEXT as ids: the least a tokenizer must do for the loop."""

    symbols: str = "".join(sorted(set(TEXT)))

    @property
    def vocab_size(self) -> int:
        return len(self.symbols)

    def encode(self, text: str) -> list[int]:
        return [self.symbols.index(c) for c in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.symbols[i] for i in ids)

    def save(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text(self.symbols)


@dataclass
class Windows:
    """Random windows with their own generator."""

    tokens: np.ndarray
    length: int
    size: int
    seed: int = 1

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(self.seed)

    def next(self) -> Any:
        starts = self.generator.integers(0, len(self.tokens) - self.length, self.size)
        rows = self.tokens[starts[:, None] + np.arange(self.length + 1)]
        return Windows.Batch(rows[:, :-1].astype(np.int64), rows[:, 1:].astype(np.int64))

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.bit_generator.state = state["generator"]

    @dataclass
    class Batch:
        tokens: Any
        targets: Any

        def inputs(self) -> dict[str, Any]:
            return {"tokens": self.tokens}


@dataclass
class Found:
    """What an evaluation returns, as far as the loop looks."""

    nats_per_token: float
    bits_per_byte: float
    n_tokens: int


MODEL = TransformerConfig(
    vocab_size=Letters().vocab_size, context_length=16, d_model=16, n_layers=2, n_heads=2,
    dropout_residual=0.1,
)  # fmt: skip


def evaluate(network: torch.nn.Module, _whole: bool) -> Found:
    ids = torch.tensor(Letters().encode(TEXT[:65]))
    rows, targets = ids[:-1].view(4, 16), ids[1:].view(4, 16)
    with torch.no_grad():
        logits = network(rows)
    loss = float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    return Found(loss, loss / math.log(2), 64)


MakeLoop = Callable[..., Loop]


@pytest.fixture
def make_loop(tmp_path: Path) -> MakeLoop:
    """`make_loop(name, callbacks=(), model=…, **settings)`: a loop over TEXT in a new folder."""

    def make(name: str = "run", *, callbacks: Any = (), model: Any = MODEL, sample: Any = None,
             opened: bool = False, batches: Any = None, **changes: Any) -> Loop:  # fmt: skip
        settings = TrainingRecipe(**{**SMALL, **changes})
        tokenizer = Letters()
        recipe = Recipe(training=settings)
        path = tmp_path / name
        folder = (
            RunFolder.open(path)
            if opened
            else RunFolder.create(path, make_config(model, {}), to_toml(recipe), tokenizer)
        )
        network = models.build(model, seed=settings.seed)
        windows = batches or Windows(np.array(tokenizer.encode(TEXT)), 16, settings.batch_size)
        around = Surroundings(evaluate, sample, tokenizer, tokenizer.vocab_size, {"uniform": 3.0})
        torch.manual_seed(settings.seed)
        assert settings.steps is not None
        return Loop(network, windows, settings, choose_compute(settings), folder, around,
                    settings.steps, 1, callbacks)  # fmt: skip

    return make
