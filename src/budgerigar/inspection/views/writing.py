"""Generation, token by token, with what the model carries from one to the next."""

from __future__ import annotations

from typing import Any

from budgerigar.inspection.views.look import Look


def generate(
    look: Look,
    count: int = 20,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Go on from the text, or from a pair's target (none: from its beginning), one token at a time.

    {"tokens": [TOKEN], "text": str (what they spell), "finish": "end"|"length",
     "start_bytes": int (carried before the first), "start_tokens": int (read before the first),
     "carries": {"kind": "cache"|"hidden"|"tokens", "words": str, "per_token": bytes|null (a cache
       grows by that), "layers": int, "kv_heads": int|null, "d_head": int|null,
       "source_bytes": int (keys and values of a source, which do not grow)},
     "context_length": int|null, "words": {str(id): label}}

    TOKEN: {"id", "label", "piece" (what it adds to the text), "p": the model's own, "chance": with
     which it was drawn (after temperature, top_k, top_p), "p_end": float|null, "bytes": carried after
     it was chosen (all that was read before it), "rewound": bool (the context was full and lost its
     oldest half), "top_ids": i4 (10), "top_p": f4 (10), "top_chance": f4 (10)}
    """
    raise NotImplementedError
