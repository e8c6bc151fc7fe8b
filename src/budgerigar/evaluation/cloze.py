"""Filling the gap of a story, with any next-token model: one guess, and accuracy over many.

Shapes: B stories, T positions, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from budgerigar.models.modes import without_dropout
from budgerigar.text.stories import Story


@dataclass(frozen=True)
class Filled:
    """How a model fills the gaps of some stories."""

    right: int
    n: int
    mean_probability: float
    """of the right word"""

    @property
    def accuracy(self) -> float:
        """Share of the gaps whose likeliest word is the right one."""
        return self.right / self.n if self.n else 0.0


def gap_ids(tokenizer: Any, story: Story, start_id: int | None) -> tuple[list[int], int]:
    """Ids of everything before the gap, and the id that belongs into it (the answer's first)."""
    before = list(tokenizer.encode(story.cloze.prefix))
    joint = " " if story.language == "en" else ""
    whole = list(tokenizer.encode(f"{story.cloze.prefix.rstrip()}{joint}{story.cloze.answer}"))
    answer = whole[len(before)]
    return ([] if start_id is None else [start_id]) + before, answer


@torch.inference_mode()
def fill_gaps(
    network: Any,
    tokenizer: Any,
    stories: Sequence[Story],
    start_id: int | None,
    batch_size: int = 64,
) -> Filled:
    """Read each story up to its gap and compare the likeliest next token with the answer."""
    right, total = 0, 0.0
    with without_dropout(network):
        for start in range(0, len(stories), batch_size):
            rows = [gap_ids(tokenizer, s, start_id) for s in stories[start : start + batch_size]]
            logits = next_logits(network, [ids for ids, _ in rows])
            answers = torch.tensor([answer for _, answer in rows], device=logits.device)
            right += int((logits.argmax(-1) == answers).sum())
            total += float(logits.softmax(-1).gather(1, answers[:, None]).sum())
    return Filled(right, len(stories), total / max(1, len(stories)))


def next_logits(network: Any, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Logits (B, V) of the token after each row of ids, as one right-padded batch."""
    longest = max(map(len, rows))
    padded = [[*row, *[0] * (longest - len(row))] for row in rows]
    tokens = torch.tensor(padded, dtype=torch.int64, device=network.device)
    lengths = torch.tensor([len(row) for row in rows], device=network.device)
    logits: torch.Tensor = network.step(tokens, network.start(len(rows)), lengths=lengths)[0]
    return logits


@torch.inference_mode()
def guesses(
    network: Any, tokenizer: Any, ids: Sequence[int], top: int = 4
) -> list[tuple[str, float]]:
    """The likeliest next words after `ids`, with their probabilities."""
    with without_dropout(network):
        best = next_logits(network, [ids])[0].softmax(-1).topk(top)
    words = [tokenizer.decode([token]).strip() for token in best.indices.tolist()]
    return list(zip(words, best.values.tolist(), strict=True))
