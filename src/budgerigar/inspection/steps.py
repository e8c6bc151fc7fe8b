"""The four steps of attention for one token, as text with its own numbers.

1 compare (q . k for every key), 2 scale, 3 mask, 4 softmax; then the average of the values by these
weights (Vaswani et al. 2017, equation 1). Steps that a model has besides (soft-cap, position bias,
sink) are shown where they happen, those that it lacks are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from budgerigar.inspection.labels import Word, pad, width
from budgerigar.inspection.matrix import MASKED
from budgerigar.layers.additive_attention import AdditiveAttention

if TYPE_CHECKING:
    from budgerigar.inspection.heads import Head

_SHOWN = 6  # numbers of a vector that are written out


def four_steps(head: Head, word: Word, occurrence: int | None = None, top: int = 12) -> str:
    """The steps for the query `word` (its last token when it has several); `top` keys at most."""
    positions = head.site.query_spelling.find(word, occurrence)
    row = positions[-1]
    label = head.query_labels[row]
    lines = [f"{head.name}: what “{label}” (position {row}) looks at, step by step"]
    if len(positions) > 1:
        lines.append(f"(“{word}” is {len(positions)} tokens; this is its last)")
    if head.site.predicts:
        lines.append("(the token that the model is about to write; it has read those before it)")
    else:
        lines.append("(here the model has read this token; what it predicts is the one after it)")
    lines += [head.trace.about, "", *_vectors(head, row), ""]
    keys, hidden = _chosen(head, row, top)
    columns = _columns(head, row)
    lines += [*_explained(head, row), "", *_table(head, row, keys, columns, hidden), ""]
    lines += _weighted_values(head, row, keys)
    return "\n".join(lines)


def _vectors(head: Head, row: int) -> list[str]:
    query = head.queries[row]
    width_of = "d_attention" if is_additive(head) else "d_head"
    lines = [
        f"its query q has {len(query)} numbers ({width_of}): {_numbers(query)}  "
        f"length {_norm(query)}",
    ]
    if not np.array_equal(query, head.queries_unrotated[row]):
        lines.append(
            f"  before rotation to position {row}: {_numbers(head.queries_unrotated[row])}"
        )
    if head.module.n_kv_heads != head.module.n_heads:
        lines.append(
            f"keys and values come from key-value head {head.kv_head} of {head.module.n_kv_heads}, "
            f"shared by {head.module.n_heads // head.module.n_kv_heads} query heads"
        )
    return lines


def _columns(head: Head, row: int) -> list[tuple[str, np.ndarray]]:
    """(heading, numbers (S,)) of each step that the model has."""
    if is_additive(head):
        found = [("v·tanh(q+k)", head.scores[row])]
        return [*found, ("masked", head.masked[row]), ("weight", head.weights[row])]
    found = [("q·k", head.scores[row]), (scale_in_words(head)[0], head.scaled[row])]
    if head.module.softcap is not None:
        found.append(("capped", head.capped[row]))
    if has_position_bias(head):
        found.append(("+ bias", head.biased[row]))
    return [*found, ("masked", head.masked[row]), ("weight", head.weights[row])]


def is_additive(head: Head) -> bool:
    """Bahdanau's attention, which has neither scale nor output projection."""
    return isinstance(head.module, AdditiveAttention)


def has_position_bias(head: Head) -> bool:
    """Whether a number for the distance is added to its scores: ALiBi's, or T5's."""
    own = head.module.slopes is not None or head.module.relative_bias is not None
    return own or head.site.bias is not None


def scale_in_words(head: Head) -> tuple[str, str]:
    """Heading and sentence of the second step, with the model's real scale."""
    scale, width_of = head.module.scale, head.module.d_head
    if abs(scale - width_of**-0.5) < 1e-9:
        root = width_of**0.5
        return f"÷ {root:.4g}", f"divided by sqrt(d_head) = sqrt({width_of}) = {root:.4g}"
    if scale == 1.0:
        return "× 1", "not scaled: this model's scale is 1"
    return f"× {scale:.4g}", f"multiplied by this model's scale, {scale:.4g}"


def _compared(head: Head, row: int) -> list[str]:
    """The first two steps in words."""
    if is_additive(head):
        return [
            "1 compare   v·tanh(q+k): add q to the key of every source token, bend each sum by tanh,",
            "            multiply with the learned v, number by number, and add up",
            "2 scale     not scaled: tanh keeps each number within -1 and 1",
        ]
    lines = [
        "1 compare   q·k: multiply q with the key of every token, number by number, and add up",
        f"2 scale     {scale_in_words(head)[1]}",
    ]
    if head.module.softcap is not None:
        cap = head.module.softcap
        lines.append(f"            soft-cap: {cap:g} × tanh(x / {cap:g})")
    if any(heading == "+ bias" for heading, _ in _columns(head, row)):
        lines.append("            position bias: a number for the distance is added")
    return lines


def _sink(head: Head) -> bool:
    return getattr(head.module, "sink_logit", None) is not None


def _explained(head: Head, row: int) -> list[str]:
    reasons = head.mask_reason[row]
    visible = int((reasons == "").sum())
    lines = _compared(head, row)
    counts = [f"{int((reasons == r).sum())} {MASKED[r]}" for r in MASKED if (reasons == r).any()]
    hidden = "; ".join(counts).replace("masked: ", "")
    if hidden:
        lines.append(f"3 mask      {visible} keys are visible; set to minus infinity: {hidden}")
    else:
        lines.append(f"3 mask      all {visible} keys are visible, nothing is masked")
    lines.append("4 softmax   e to the power of each, divided by the sum: weights that sum to 1;")
    lines.append("            minus infinity becomes a weight of exactly 0")
    if _sink(head):
        logit = float(head.module.sink_logit.detach()[head.head])
        lines.append(
            f"            the sink, a learned logit of {logit:.4f}, takes its share of the sum"
        )
    return lines


def _chosen(head: Head, row: int, top: int) -> tuple[list[int], list[int]]:
    """Keys to show, in order of the text: the strongest visible ones; and the visible rest."""
    weights, visible = head.weights[row], np.flatnonzero(head.mask_reason[row] == "")
    order = visible[np.argsort(-weights[visible], kind="stable")]
    return sorted(int(k) for k in order[:top]), sorted(int(k) for k in order[top:])


def _table(
    head: Head,
    row: int,
    keys: list[int],
    columns: list[tuple[str, np.ndarray]],
    hidden: list[int],
) -> list[str]:
    weights = head.weights[row]
    size = min(18, max([12, *(width(head.key_labels[k]) for k in keys)]))
    digits = len(str(len(head.key_labels)))
    blank = " " * (digits + 1)
    lines = [blank + pad("key", size) + "".join(f"{heading:>11}" for heading, _ in columns)]
    for key in keys:
        numbers = "".join(_cell(heading, values[key]) for heading, values in columns)
        lines.append(f"{key:>{digits}} {pad(head.key_labels[key], size)}{numbers}")
    gap = 11 * (len(columns) - 1)
    if hidden:
        text = f"{len(hidden)} weaker keys, their sum"
        lines.append(blank + pad(text, size + gap) + f"{weights[hidden].sum():>11.6f}")
    for reason, words in MASKED.items():
        masked = np.flatnonzero(head.mask_reason[row] == reason)
        if len(masked):
            text = f"{len(masked)} {words}"
            lines.append(
                blank + pad(text, size + gap - 11) + f"{'-inf':>11}{weights[masked].sum():>11.6f}"
            )
    if _sink(head):
        lines.append(blank + pad("the sink", size + gap) + f"{1 - weights.sum():>11.6f}")
    total = weights.sum() + (1 - weights.sum() if _sink(head) else 0.0)
    lines.append(blank + pad("sum of the row", size + gap) + f"{total:>11.6f}")
    return lines


def _cell(heading: str, value: float) -> str:
    if np.isneginf(value):
        return f"{'-inf':>11}"
    return f"{value:>11.6f}" if heading == "weight" else f"{value:>11.4f}"


def _weighted_values(head: Head, row: int, keys: list[int]) -> list[str]:
    """The sum of the values by their weights, and how near it is to the model's own."""
    weights, values = head.weights[row], head.values
    lines = ["then add up the values, each times its weight (the first numbers of each):"]
    strongest = sorted(keys, key=lambda key: -weights[key])[:5]
    for key in strongest:
        part = weights[key] * values[key]
        lines.append(
            f"  {weights[key]:.6f} × v({pad(head.key_labels[key] + ')', 17)} {_numbers(part)}"
        )
    rest = np.delete(weights, strongest) @ np.delete(values, strongest, axis=0)
    left = len(weights) - len(strongest)
    if left:
        lines.append(f"  {pad(f'{left} other keys together', 30)} {_numbers(rest)}")
    lines.append(f"  {pad('= head output', 30)} {_numbers(head.head_output[row])}")
    lines.append(f"  {pad('the model computed', 30)} {_numbers(head.model_output[row])}")
    if is_additive(head):
        lines.append("  which enters the decoder's cell beside the word just read")
    else:
        added = head.contribution[row]
        lines.append(
            f"  through its slice of W_O it adds {len(added)} numbers of length {_norm(added)} to "
            "the attention's output"
        )
    lines.append(f"  largest difference to the model's own output, relative: {head.difference:.1e}")
    return lines


def _numbers(vector: np.ndarray) -> str:
    shown = " ".join(f"{value:>8.4f}" for value in vector[:_SHOWN])
    return shown + (" …" if len(vector) > _SHOWN else "")


def _norm(vector: np.ndarray) -> str:
    return f"{float(np.linalg.norm(vector)):.3f}"
