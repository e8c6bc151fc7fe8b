"""The four steps of attention with every number, for one query or for all.

Shapes: S keys, D d_model, E d_head (additive attention: A d_attention, C width of an annotation).
"""

from __future__ import annotations

from typing import Any

from budgerigar.inspection.views.look import Look


def steps(
    look: Look,
    layer: int,
    head: int,
    query: int | None = None,
    of: str | None = None,
    kind: str | None = None,
    full: bool = True,
) -> dict[str, Any]:
    """From the residual stream through W_Q, W_K, W_V, scores and softmax back into it.

    query null: for all T queries at once; every array marked * gains a first axis T, and "weighted"
    is null. full false: arrays are stored as f2 (weights, scores and codes stay exact enough: see
    "within" of each).

    {"name", "layer", "head", "kv_head", "of", "kind", "title", "query": int|null, "label": str|null,
     "predicts": bool (the row is named by the token that it predicts), "additive": bool,
     "sizes": {"d_model": D, "d_head": E, "n_heads", "n_kv_heads", "keys": S},
     "before": {"name": tap, "vector": * (D)} (the residual stream that the sublayer reads),
     "normed": * (D)|null (after the norm that stands before it; null: none does),
     "rms"|"layer" as "norm": str|null, "norm_place": str|null,
     "key_side": "same"|"encoder" (keys and values are made from the same rows, or the encoder's),
     "key_inputs": (S,D) (what W_K and W_V read),
     "W_Q": MATRIX, "W_K": MATRIX, "W_V": MATRIX, "W_O": MATRIX (additive: W_O null),
     "q_unrotated": * (E)|null, "q": * (E), "k_unrotated": (S,E)|null, "k": (S,E), "v": (S,E),
     "qk_norm": str|null ("head" or "full": q and k were normalised),
     "scores": * (S), "scaled": * (S), "capped": * (S)|null, "biased": * (S)|null (null: the model
       lacks that step), "codes": u1 * (S) (masked keys, see `read`'s "reasons"; their score is minus
       infinity), "weights": * (S) (exactly 0 where masked), "sink": {"logit", "weight": *float}|null,
     "weighted": (S,E)|null (weights * v), "head_output": * (E), "model_output": * (E) (the model's
       own), "contribution": * (D)|null (what this head adds), "all_heads": * (D) (what all heads and
       the bias add), "after_norm": * (D)|null (sandwich and output: normed before it is added),
     "after": {"name": tap, "vector": * (D)} (the residual stream after this sublayer),
     "scale": {"factor": float, "heading": "÷ 4", "words": str}, "softcap": float|null,
     "difference": float (max abs(recomputed - the model's own head output) / max abs(own)), "off"}

    MATRIX: {"shape": [rows out, columns in], "weights": f2|f4 (rows, columns)|null where it has more
    than 16,384 numbers, "bias": (rows)|null}; y = weights @ x + bias. The bias of W_O is that of all
    heads together.
    """
    raise NotImplementedError
