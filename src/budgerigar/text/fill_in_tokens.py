"""The special tokens of models that fill in: `[MASK]` for one token, sentinels for whole spans.

A sentinel stands in a source for a span that was taken out, and in the target before that span
(Raffel et al. 2020). They have T5's names; no text that is typed leads to any of them.
"""

from __future__ import annotations

from typing import Any

from budgerigar.errors import UserError
from budgerigar.said import said
from budgerigar.text.tokenizer import END, MASK

N_SENTINELS = 100  # as T5 has: spans of a text at most
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(N_SENTINELS))

MASKED_WORDS = (MASK,)
"""special tokens that masked words need"""
CORRUPTED_SPANS = (END, *SENTINELS)
"""special tokens that corrupted spans need; `<end>` ends source and target"""


def need_mask(tokenizer: Any) -> int:
    """The id of `[MASK]`, or a `UserError` where the vocabulary has none."""
    if tokenizer.mask_id is None:
        raise UserError(
            said(
                "this vocabulary has no {mask}: the model that it belongs to was not trained to fill "
                "anything in",
                mask=MASK,
            )
        )
    return int(tokenizer.mask_id)


def sentinel_ids(tokenizer: Any) -> list[int]:
    """The ids of the sentinels in their order, as many as the vocabulary has."""
    known = tokenizer.special_ids
    return [int(known[name]) for name in SENTINELS if name in known]


def need_sentinels(tokenizer: Any) -> list[int]:
    """The same, or a `UserError` where there are none."""
    found = sentinel_ids(tokenizer)
    if not found:
        raise UserError(
            f"this vocabulary has no sentinels such as {SENTINELS[0]}: the model that it belongs to "
            "was not trained to fill in spans"
        )
    return found
