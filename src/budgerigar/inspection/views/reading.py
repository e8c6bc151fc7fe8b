"""What the model read and what it predicted: tokens, surprise, the next token."""

from __future__ import annotations

from typing import Any

from budgerigar.inspection.views.look import Look


def read(look: Look, top: int = 10) -> dict[str, Any]:
    """The text as the model sees it, and what it expected. T tokens, V vocab_size, k = `top`.

    {"about": str (a title), "text": str, "source": str|null, "own": bool (the model's translation),
     "prefix": bool, "start_added": bool (token 0 was put before the text),
     "spellings": {"read": SPELLING, and of a pair "predicted": SPELLING, "source": SPELLING},
     "words": {str(id): label} of every token id below,
     "surprise": SURPRISE|null, "why_no_surprise": str ("" where there is one),
     "next": NEXT|null, "fill": [{"position": int, **NEXT}] (masked positions of an encoder),
     "classes": {"names": [str], "p": f4 (C)}|null (an encoder that tells classes),
     "sites": [SITE], "reasons": ["", "masked: later tokens", …] (place: the mask's code)}

    SPELLING: tokens of one side.
    {"labels": [T names, blanks visible], "pieces": [T pieces of running text], "ids": i4 (T),
     "groups": [{"start": t, "length": n, "text": str, "hex": ["E8 99 8E", …] n of them}]}
     groups: every token is in one; those that share a character are together (n > 1), so that the
     character is drawn once over its n columns. text: what to show, blanks visible.

    SURPRISE: how unexpected each token of the spelling "side" was. Entries before "first" are 0 and
    mean nothing (nothing predicts the first token).
    {"side": "read"|"predicted", "first": 0|1, "nats": f4 (T), "p": f4 (T), "rank": i4 (T),
     "entropy": f4 (T), "top_ids": i4 (T,k), "top_p": f4 (T,k), "total": nats, "mean": nats,
     "full_scale": nats at the end of the colours}

    NEXT: the true softmax after the text (a translation's end; after a prefix: what comes next).
    {"ids": i4 (n <= 200), likeliest first, "p": f4 (n), "rest": sum of all others, "logits": f4 (V),
     "end": {"id": int, "p": float}|null, "row": the position it is read from}

    SITE: one kind of attention.
    {"of": "encoder"|"decoder", "kind": "self"|"cross", "title": "decoder, cross-attention",
     "layers": int, "heads": int, "kv_heads": int, "d_head": int, "windows": [int|null per layer],
     "query_axis": words, "key_axis": words, "queries": name of the rows' spelling, "keys": name of
     the columns', "predicts": bool (rows are named by the token being predicted),
     "blank": bool (the source is switched off), "causal": bool, "additive": bool (Bahdanau's)}
    """
    raise NotImplementedError
