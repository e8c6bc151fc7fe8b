"""How fast this machine trains, and what loss to expect of a plan: two estimates, both rough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from budgerigar.training.device import choose_compute
from budgerigar.training.events import untouched
from budgerigar.training.timing import StepTimer, choose_threads


def measure_speed(seconds: float = 1.0) -> float:
    """Training arithmetic per second here: 6 x parameters x tokens of a small model's step.

    Measured on a Transformer of 0.4 million parameters for about `seconds`.
    """
    from budgerigar import models
    from budgerigar.layers.config import TransformerConfig
    from budgerigar.training.recipe import TrainingRecipe

    shape = {"d_model": 128, "n_layers": 2, "n_heads": 4, "context_length": 64, "vocab_size": 64}
    config = TransformerConfig(**shape)  # type: ignore[arg-type]
    settings = TrainingRecipe(batch_size=16)
    compute = choose_compute(settings)
    network = models.build(config, seed=0).to(compute.device)
    batches = _Noise(16, 64, 64)
    with untouched(network):
        timer = StepTimer(network, batches, settings, compute)
        _, measured = choose_threads(timer, budget=seconds / 3)
    parameters = sum(p.numel() for p in network.parameters())
    return 6.0 * parameters * 16 * 64 / min(measured.values())


class _Noise:
    """Batches of random tokens, for measuring."""

    def __init__(self, size: int, length: int, vocab_size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(vocab_size, (size, length), generator=generator)
        self.targets = self.tokens

    def next(self) -> _Noise:
        return self

    def inputs(self) -> dict[str, Any]:
        """What forward reads."""
        return {"tokens": self.tokens}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is none."""


COUNTED_TOKENS = 5_000_000  # the n-gram's losses come from at most so much of the text


def expected_loss(lines: Mapping[str, float], tokens: int, text_tokens: int) -> float:
    """A forecast for a model that a plan chose: n-gram's loss x (0.93 + 0.125 / sqrt(passes)).

    `tokens` are read in all, `text_tokens` are different. Fitted to runs seen here, so it is rough:
    tinyshakespeare (n-gram 1.571) 1.98, 1.65 and 1.60 after 0.19, 1.1 and 1.5 passes; 300 Chinese
    poems (n-gram 5.44) 5.95 and 5.44 after 1 and 3.
    """
    windowed = [value for name, value in lines.items() if "streaming" not in name]
    if not windowed:
        return math.nan
    passes = max(tokens, 1) / max(min(text_tokens, COUNTED_TOKENS), 1)
    return min(min(windowed) * (0.93 + 0.125 / math.sqrt(passes)), lines["uniform"])
