"""Small views of a trace that the command line and the page share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from budgerigar.api.model import Model


def guesses(model: Model, text: str, top: int = 5) -> list[tuple[str, float]]:
    """The likeliest next tokens after `text`: (piece, probability), likeliest first."""
    logits = model.logits(model.encode(text))[-1]
    best = logits.softmax(-1).topk(min(top, model.network.vocab_size))
    pieces = [model.tokenizer.pieces([token])[0] for token in best.indices.tolist()]
    return list(zip(pieces, best.values.tolist(), strict=True))


def look_back(head: Any) -> float:
    """How hard a head looks back: the mean over queries of its largest weight on an earlier key.

    The first key (where idle heads park), the token itself and the one before it do not count.
    """
    weights = np.array(head.weights, dtype=np.float64)  # (T, S)
    distance = np.arange(weights.shape[0])[:, None] - np.arange(weights.shape[1])[None, :]
    weights[distance < 2] = 0.0
    weights[:, 0] = 0.0
    return float(weights.max(axis=1, initial=0.0).mean())


def busiest_head(trace: Any) -> str:
    """The head that looks back hardest (see `look_back`); the first one in a very short text."""
    return str(max(trace.heads(), key=look_back).name)


def heads_in_words(trace: Any) -> str:
    """One line per head: how hard it looks back, and its strongest link between two tokens.

    A start token that was put before the text is left out: every idle head parks there.
    """
    first = 1 if trace.start_added else 0
    lines = ["head    looks back  strongest link (query → key)"]
    for head in trace.heads():
        weights = np.array(head.weights, dtype=np.float64)
        weights[np.arange(weights.shape[0])[:, None] - np.arange(weights.shape[1]) < 1] = 0.0
        weights[:, :first] = 0.0
        query, key = np.unravel_index(int(weights.argmax()), weights.shape)
        link = f"{head.query_labels[query]} → {head.key_labels[key]} {weights[query, key]:.2f}"
        lines.append(f"{head.name:<8}{look_back(head):>10.2f}  {link}")
    return "\n".join(lines)
