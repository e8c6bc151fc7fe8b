"""Word maps: pairs of words drawn anew for each sequence, so that no weight can know them.

"cat → tac, dog → god, …" is what one reads; the model reads the words alone, a key and its value in
turn. Training draws a pair of the map at each turn; testing shows every pair once per round, in a new
order, so that in round k + 1 each has been shown exactly k times ("k shots").
Shapes: B sequences, P turns, M pairs of a map, R rounds; T = 2P tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Mean:
    """The mean of some measurements, with what it rests on."""

    mean: float
    error: float
    """standard error of the mean; nan of less than two"""
    n: int
    """measurements that count as independent"""

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.error:.2f}"


def mean_of(values: Sequence[float] | Tensor) -> Mean:
    """Mean and standard error of independent measurements."""
    tensor = torch.as_tensor(values, dtype=torch.float64)
    n = len(tensor)
    error = float(tensor.std()) / math.sqrt(n) if n > 1 else math.nan
    return Mean(float(tensor.mean()), error, n)


@dataclass(frozen=True)
class Shots:
    """How a model answers after each number of shots, 0 first."""

    loss: tuple[Mean, ...]
    """nats of the right value"""
    accuracy: tuple[Mean, ...]
    """% of the values that are the likeliest"""

    @property
    def in_context(self) -> float:
        """Mean loss of all values that have been shown before."""
        shown = [mean.mean for mean in self.loss[1:]]
        return sum(shown) / len(shown)


def draw_map(n: int, n_words: int, n_pairs: int, generator: torch.Generator) -> Tensor:
    """n maps of word numbers (n,M,2), keys and values; the 2M words of a map are all different."""
    order = torch.rand(n, n_words, generator=generator).argsort(1)[:, : 2 * n_pairs]
    return order.view(n, n_pairs, 2)


def spell(maps: Tensor, turns: Tensor) -> Tensor:
    """maps (B,M,2), which pair stands at each turn (B,P) -> tokens (B,2P)."""
    return maps.gather(1, turns[..., None].expand(-1, -1, 2)).flatten(1)


def cut(tokens: Tensor, generator: torch.Generator) -> Tensor:
    """Tokens (B,T) -> (B,T-1): without the first or without the last, a coin decides for each row.

    So that no place is a key's or a value's by its number: with that knowledge a head may work at
    every other place only.
    """
    first = torch.randint(0, 2, (len(tokens), 1), generator=generator)
    return tokens.gather(1, first + torch.arange(tokens.shape[1] - 1))


def at_random(n: int, n_pairs: int, n_turns: int, generator: torch.Generator) -> Tensor:
    """(n,P): a pair of the map at each turn, each as likely, whatever stood before."""
    return torch.randint(0, n_pairs, (n, n_turns), generator=generator)


def in_rounds(n: int, n_pairs: int, rounds: int, generator: torch.Generator) -> Tensor:
    """(n,R*M): every pair once per round, each round in an order of its own."""
    return torch.rand(n, rounds, n_pairs, generator=generator).argsort(-1).flatten(1)


def shots(logits: Tensor, tokens: Tensor, rounds: int) -> Shots:
    """Logits (B,T,V) over sequences of `in_rounds` (B,T) -> loss and accuracy by rounds seen.

    Only values are asked for. A sequence is one measurement: its answers share a map.
    """
    answers = tokens[:, 1::2]
    asked = logits[:, ::2].float()  # at the keys
    loss = F.cross_entropy(asked.flatten(0, 1), answers.flatten(), reduction="none")
    right = 100.0 * (asked.argmax(-1) == answers).float()
    by_round = (len(tokens), rounds, -1)
    return Shots(
        tuple(mean_of(row) for row in loss.view(by_round).mean(-1).T),
        tuple(mean_of(row) for row in right.view(by_round).mean(-1).T),
    )


def repeated(n: int, n_words: int, length: int, generator: torch.Generator) -> Tensor:
    """(n, 2*length): different random words, twice: the text that induction is measured on."""
    words = torch.rand(n, n_words, generator=generator).argsort(1)[:, :length]
    return words.repeat(1, 2)
