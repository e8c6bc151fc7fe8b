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
        self.targets, self.document_ids, self.positions = self.tokens, None, None

    def next(self) -> _Noise:
        return self

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is none."""


def expected_loss(lines: Mapping[str, float], tokens: int, text_tokens: int) -> float:
    """A forecast: the best n-gram's loss times 0.90 + 156 / sqrt(tokens that count).

    Fitted to runs of 0.8 million parameters on tinyshakespeare (1.98 after 0.19, 1.65 after 1.1,
    1.60 after 1.5 million characters; n-gram 1.571), so it is rough elsewhere. Tokens read again
    count less and less: text x (1 + 15 (1 - e^-((epochs - 1) / 15))), Muennighoff et al. 2023.
    """
    if not lines:
        return math.nan
    windowed = [v for name, v in lines.items() if "streaming" not in name]
    epochs = tokens / text_tokens
    counting = (
        tokens if epochs <= 1 else text_tokens * (1 + 15 * (1 - math.exp(-(epochs - 1) / 15)))
    )
    return min(min(windowed) * (0.90 + 156 / math.sqrt(max(counting, 1))), lines["uniform"])
