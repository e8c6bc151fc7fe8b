"""A two-layer model trained on repeated sequences: three seconds, and an induction head is born."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from toy import Pieces

from budgerigar.errors import UserError
from budgerigar.experiments.why.learning import ADAM, learn
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer

WORDS = 23
STEPS, EVERY = 240, 60


class Syllables(Pieces):
    """A word tokenizer that refuses what is none of its words, as kind "symbols" does."""

    def __init__(self) -> None:
        made = [a + b for a in "bdfgkm" for b in "aeio"][:WORDS]
        super().__init__([f" {word}".encode() for word in made], kind="word")

    start_ids = ()

    def encode(self, text: str) -> list[int]:
        try:
            return super().encode(text)
        except ValueError:
            raise UserError(f"{text!r} is none of the words") from None


@dataclass
class Copier:
    """The trained network, its tokenizer, and what it was at named steps."""

    network: Transformer
    tokenizer: Syllables
    checkpoints: list[tuple[str, Transformer]]
    start_id = 0


@cache
def train_copier(seed: int = 1) -> Copier:
    """<end> and 5 to 20 different words twice; only the second half is asked for."""
    config = TransformerConfig(
        vocab_size=WORDS + 1,
        context_length=64,
        d_model=32,
        n_layers=2,
        n_heads=2,
        positions="rotary",
        norm="rms",
        norm_weight=False,
        norm_bias=False,
        embedding_norm=True,
        activation="squared-relu",
        initialisation="zero-output",
        qkv_bias=False,
        output_bias=False,
        ff_bias=False,
        tied_embeddings=False,
    )
    network = Transformer(config, seed)
    chance = torch.Generator().manual_seed(seed)
    kept: list[tuple[str, Transformer]] = []
    steps = 0

    def next_batch() -> tuple[dict[str, Any], Tensor]:
        nonlocal steps
        if steps % EVERY == 0:
            kept.append((f"step-{steps:08d}", copy.deepcopy(network).eval()))
        steps += 1
        r = int(torch.randint(5, 21, (), generator=chance))
        half = torch.stack([torch.randperm(WORDS, generator=chance)[:r] + 1 for _ in range(32)])
        tokens = torch.cat([torch.zeros(32, 1, dtype=torch.int64), half, half], 1)
        targets = tokens[:, 1:].clone()
        targets[:, :r] = -100
        return {"tokens": tokens[:, :-1]}, targets

    settings = dataclasses.replace(
        ADAM, learning_rate=1e-2, optimizer="muon", muon_learning_rate=0.04
    )
    learn(network, next_batch, STEPS, settings)
    kept.append((f"step-{STEPS:08d}", network))
    return Copier(network, Syllables(), kept)
