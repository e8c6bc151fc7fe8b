"""Surprise: how many nats each token of a text cost the model, all predicted in one pass.

The logits at position t predict the token at t + 1, so the first token of a text has no surprise
(where a start token was put before the text, that one). Shapes: T positions, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from budgerigar.evaluation.losses import ranks_of
from budgerigar.inspection.labels import pad
from budgerigar.inspection.palette import Depth
from budgerigar.inspection.terminal import coloured_text

FULL_SCALE = 6.0
"""Nats at the upper end of the colour scale: probability 1 in 400."""


@dataclass(frozen=True)
class TokenSurprise:
    """One token: -ln of the probability that the model gave it, and what it thought likelier.

    text: what the token adds to the running text; "" where it is the first part of a character.
    nats, probability, rank (1 = the likeliest) and entropy (of the whole prediction, in nats) are
    None for the first token, which nothing predicts. likeliest: (token id, probability) pairs.
    """

    position: int
    token: int
    label: str
    text: str
    nats: float | None
    probability: float | None
    rank: int | None
    entropy: float | None
    likeliest: tuple[tuple[int, float], ...]


def surprise(
    logits: Tensor,
    ids: Sequence[int],
    labels: Sequence[str],
    top: int = 5,
    pieces: Sequence[str] | None = None,
) -> list[TokenSurprise]:
    """logits (T,V) of one pass over `ids` (T) -> one entry per token, in float64.

    pieces: the tokens in running text; None: their labels.
    """
    pieces = labels if pieces is None else pieces
    found = [TokenSurprise(0, ids[0], labels[0], pieces[0], None, None, None, None, ())]
    for position in range(1, len(ids)):  # a row at a time: (T,V) in float64 may not fit
        row = torch.log_softmax(logits[position - 1].double(), dim=-1)
        target = torch.tensor([ids[position]], device=logits.device)
        nats = -float(row[ids[position]])
        # a vocabulary smaller than `top` gives what it has
        best = torch.topk(row, min(top, row.shape[-1]))
        chances = torch.exp(row)
        found.append(
            TokenSurprise(
                position,
                ids[position],
                labels[position],
                pieces[position],
                nats,
                float(np.exp(-nats)),
                int(ranks_of(logits[position - 1 : position], target)),
                -float((chances * torch.nan_to_num(row, neginf=0.0)).sum()),
                tuple(
                    (int(token), float(np.exp(value)))
                    for token, value in zip(
                        best.indices.tolist(), best.values.tolist(), strict=True
                    )
                ),
            )
        )
    return found


def surprise_text(
    tokens: Sequence[TokenSurprise],
    *,
    columns: int | None = None,
    depth: Depth | None = None,
    worst: int = 5,
) -> str:
    """The text with each token on the colour of its nats, a scale, and the most surprising tokens.

    Tokens that are parts of one character are shown together, their nats added up.
    """
    scored = [t for t in tokens if t.nats is not None]
    shown, nats = _whole_characters(tokens)
    shares = [None if n is None else n / FULL_SCALE for n in nats]
    notes = ["" if n is None else f"{n:.1f}" for n in nats]
    lines = [coloured_text(shown, shares, columns=columns, depth=depth, notes=notes), ""]
    total = sum(t.nats or 0.0 for t in scored)
    if scored:
        lines.append(
            f"{total:.2f} nats over {len(scored)} tokens, {total / len(scored):.3f} each; colours "
            f"or brackets: nats of each token, 0 to {FULL_SCALE:g} and more"
        )
        lines.append("most surprising:")
    for token in sorted(scored, key=lambda t: -(t.nats or 0.0))[:worst]:
        lines.append(
            f"  {pad(token.label, 16)} position {token.position:<5} {token.nats:6.2f} nats, "
            f"probability {token.probability:.2g}, rank {token.rank}"
        )
    return "\n".join(lines)


def _whole_characters(tokens: Sequence[TokenSurprise]) -> tuple[list[str], list[float | None]]:
    """Pieces of running text and their nats; a part of a character is counted with its end."""
    shown: list[str] = []
    nats: list[float | None] = []
    waiting: list[float] = []
    for token in tokens:
        if token.nats is not None:
            waiting.append(token.nats)
        if token.text or token is tokens[-1]:
            shown.append(token.text or token.label)
            nats.append(sum(waiting) if waiting else None)
            waiting = []
    return shown, nats
