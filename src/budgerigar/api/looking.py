"""Small views of a trace that the command line and the page share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from budgerigar.api.model import Model
    from budgerigar.inspection.back_off import BackOff


def guesses(model: Model, text: str, top: int = 5) -> list[tuple[str, float]]:
    """The likeliest next tokens after `text`: (piece, probability), likeliest first."""
    logits = model.logits(model.encode(text))[-1]
    best = logits.softmax(-1).topk(min(top, model.network.vocab_size))
    pieces = [model.tokenizer.pieces([token])[0] for token in best.indices.tolist()]
    return list(zip(pieces, best.values.tolist(), strict=True))


def back_off(model: Model, text: str | Sequence[int]) -> BackOff:
    """What an n-gram matched of each token's context, and how it backed off."""
    from budgerigar.inspection.back_off import back_off as over

    return over(model.trace(text), model.tokenizer)


def look_back(head: Any) -> float:
    """How hard a head looks back: the mean over queries of its largest weight on an earlier key.

    The first key (where idle heads park), the token itself and the one before it do not count.
    """
    weights = np.array(head.weights, dtype=np.float64)  # (T, S)
    weights[_distance(weights) < 2] = 0.0
    weights[:, 0] = 0.0
    return float(weights.max(axis=1, initial=0.0).mean())


def look_around(head: Any) -> float:
    """Of a head that sees both ways: the mean over queries of its largest weight on a distant key.

    `<end>` (where idle heads park), the token itself and its neighbours do not count.
    """
    weights = np.array(head.weights, dtype=np.float64)
    weights[abs(_distance(weights)) < 2] = 0.0
    return float(weights[:, :-1].max(axis=1, initial=0.0).mean())


def look_across(head: Any) -> float:
    """How surely a head picks a source token: the mean over rows of its largest weight on one.

    `<end>`, where a head parks what has no counterpart, does not count.
    """
    weights = np.array(head.weights, dtype=np.float64)
    return float(weights[:, :-1].max(axis=1, initial=0.0).mean())


def _distance(weights: np.ndarray) -> np.ndarray:
    """(T, S): how far before the query each key stands."""
    return np.arange(weights.shape[0])[:, None] - np.arange(weights.shape[1])[None, :]


def busiest_head(trace: Any, of: str | None = None, kind: str | None = None) -> str:
    """The head that looks hardest at another token; the first one in a very short text.

    Of attention to a source: of the last layer but one, which aligns words best.
    """
    site = trace.site(of, kind)
    layer = None
    if site.kind == "cross":
        from budgerigar.inspection.alignments import default_layer

        layer = default_layer(len(site.modules))
    _, measure = _measure(site)
    return str(max(trace.heads(layer, of, kind), key=measure).name)


def _measure(site: Any) -> tuple[str, Callable[[Any], float]]:
    if site.kind == "cross":
        return "looks across", look_across
    return ("looks around", look_around) if site.of == "encoder" else ("looks back", look_back)


def heads_in_words(trace: Any, of: str | None = None, kind: str | None = None) -> str:
    """One line per head: how hard it looks, and its strongest link between two tokens.

    Left out: a start token that was put before the text and a source's `<end>`, where idle heads
    park.
    """
    site = trace.site(of, kind)
    label, measure = _measure(site)
    query, key = ("predicted", "source") if site.kind == "cross" else ("query", "key")
    lines = [f"head  {label:>12}  strongest link ({query} → {key})"]
    for head in trace.heads(None, of, kind):
        weights = np.array(head.weights, dtype=np.float64)
        if site.kind == "cross":
            weights[:, -1] = 0.0
        elif site.of == "encoder":
            weights[_distance(weights) == 0] = 0.0
            weights[:, -1] = 0.0
        else:
            weights[_distance(weights) < 1] = 0.0
            weights[:, : _starts(trace)] = 0.0
        row, column = np.unravel_index(int(weights.argmax()), weights.shape)
        link = f"{head.query_labels[row]} → {head.key_labels[column]} {weights[row, column]:.2f}"
        lines.append(f"{head.name:<8}{measure(head):>10.2f}  {link}")
    return "\n".join(lines)


def _starts(trace: Any) -> int:
    """Start tokens before the text: 0 or 1."""
    return int(trace.start_added or any(site.kind == "cross" for site in trace.sites))
