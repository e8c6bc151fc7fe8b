"""One translation, token by token: what was chosen and how surely; and what may follow a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from budgerigar.models.modes import without_dropout

MOST_EXTRA = 20  # tokens that a translation may be longer than its source


@dataclass(frozen=True)
class Step:
    """One token of a translation."""

    token: int
    probability: float
    second: int
    """the token that came next in probability"""
    second_probability: float


@torch.inference_mode()
def translate_greedily(
    network: Any, source: Sequence[int], end_id: int, most: int | None = None
) -> list[Step]:
    """The likeliest token at each step, until `<end>`, which is the last one if it is reached.

    source: ids with their `<end>`. most: steps at most (None: those of the source and MOST_EXTRA).
    """
    steps: list[Step] = []
    with without_dropout(network):
        state = network.start(1, **_source(network, source))
        token = network.config.decoder_start
        for _ in range(most or len(source) + MOST_EXTRA):
            following = torch.tensor([[token]], device=network.device)
            logits, state = network.step(following, state)
            best = logits[0].softmax(-1).topk(2)
            (token, second), (first, other) = best.indices.tolist(), best.values.tolist()
            steps.append(Step(token, first, second, other))
            if token == end_id:
                break
    return steps


def _source(network: Any, source: Sequence[int]) -> dict[str, Tensor]:
    ids = torch.tensor([list(source)], dtype=torch.int64, device=network.device)
    return {"source": ids, "source_lengths": torch.tensor([len(source)], device=network.device)}


@torch.inference_mode()
def word_probabilities(
    network: Any,
    tokenizer: Any,
    source: Sequence[int],
    prefix: str,
    words: Sequence[str],
) -> dict[str, float]:
    """Probability of each of `words` after the target's `prefix`: the product over its tokens."""
    before = list(tokenizer.encode(prefix))
    rows = [list(tokenizer.encode(f"{prefix} {word}")) for word in words]
    longest = max(map(len, rows))
    start = network.config.decoder_start
    tokens = torch.tensor(
        [[start, *row[:-1], *[0] * (longest - len(row))] for row in rows], device=network.device
    )
    given = {
        name: value.expand(len(rows), *value.shape[1:])
        for name, value in _source(network, source).items()
    }
    with without_dropout(network):
        chances = network(tokens, **given).log_softmax(-1)
    found = {}
    for number, (word, row) in enumerate(zip(words, rows, strict=True)):
        assert row[: len(before)] == before, "a word's tokens stand beside those of the prefix"
        places = range(len(before), len(row))
        found[word] = float(sum(chances[number, at, row[at]] for at in places).exp())
    return found
