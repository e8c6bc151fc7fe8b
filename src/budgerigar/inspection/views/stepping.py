"""The four steps of attention with every number, for one query or for all.

Shapes: S keys, D d_model, E d_head (additive attention: A d_attention, C width of an annotation).

The value of `steps`, of one query; for all T queries at once every array marked * gains a first axis T
(they are named in "rows"), and "weighted" is null. full false: arrays are stored as f2, marked so by
"within". A step that the model lacks is null.
parts, for files that hold every head: "layer" has what all heads of a layer share alone (the
vectors marked L), "head" what they do not; the rest is null, and so is what can be had otherwise:
"scaled" (scores times the scale's factor), "weights" and "codes" (in `head`, finer), vectors before
rotation, matrices, contributions, the model's own output.

{"name": "L2.H3", "layer", "head", "kv_head", "of", "kind", "title", "query_axis", "key_axis",
 "queries", "keys", "query": int|null, "label": str|null, "predicts": bool (the row is named by the
 token that it predicts), "additive": bool, "off": bool (the question switched the head off),
 "sizes": {"d_model": D, "d_head": E, "n_heads", "n_kv_heads", "n_keys": S},

 "rows": ["q", "before.vector", …] (arrays with a first axis T; none for one query),
 "before": {"name": tap, "vector": L * (D)} (the residual stream that the sublayer reads; additive:
   the decoder's state before it reads the word),
 "norm": "layer"|"rms"|null, "norm_place": "pre"|"post"|"sandwich"|"output"|null,
 "normed": L * (D)|null (after the norm that stands before; null: none stands there),
 "key_side": "same"|"source" (what keys and values are made from: the same rows, or what the
   encoder wrote), "places": L i4 (S)|null (positions of the tokens, which begin anew with each
   document; null for a source), "key_inputs": L (S,D)|null (the vectors that W_K and W_V read;
   null beyond 65,536 numbers),
 "W_Q": MATRIX, "W_K": MATRIX, "W_V": MATRIX|null, "W_O": MATRIX|null (additive: no V, no O),

 "q_unrotated": * (E)|null (no rotation), "q": * (E), "k_unrotated": (S,E)|null, "k": (S,E),
 "v": (S,E), "qk_norm": "head"|"full"|null (q and k are normalised before they are compared),
 "score_vector": (A)|null (additive: v of v . tanh(q + k)),
 "scores": * (S), "scaled": * (S), "capped": * (S)|null, "biased": * (S)|null,
 "codes": u1 * (S) (why a key is masked, see `read`'s "reasons"; its score is minus infinity),
 "weights": * (S) (exactly 0 where masked), "sink": {"logit": float, "weight": * ()}|null,
 "weighted": (S,E)|null (weight times value), "head_output": * (E) (their sum),
 "model_output": * (E) (the same as the model itself computed it),
 "contribution": * (D)|null (through this head's columns of W_O),
 "all_heads": L * (D) (what all heads and the bias of W_O add up to),
 "after_norm": L * (D)|null (normed before it is added: sandwich, output),
 "feed_forward": L * (D)|null (parallel blocks add it in the same sum), "residual": bool,
 "after": {"name": tap, "vector": L * (D)}|null (the residual stream then; in a post-norm block
   after the norm of the sum),

 "scale": {"factor": float, "heading": "÷ 4", "words": str}|null, "softcap": float|null,
 "difference": float (max abs(recomputed - the model's own head output) / max abs(own))}

MATRIX: {"shape": [rows out, columns in], "weights": (rows, columns)|null beyond 16,384 numbers,
"bias": (rows)|null}; y = weights @ x + bias. W_Q, W_K, W_V: this head's rows; W_O: its columns,
with the bias of all heads together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from budgerigar.errors import UserError
from budgerigar.inspection.heads import Head
from budgerigar.inspection.passes import array
from budgerigar.inspection.steps import has_position_bias, is_additive, scale_in_words
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.payload import Kind, Stored
from budgerigar.inspection.views.sides import head_at, is_off, named, row_at, which

_MOST_INPUTS, _MOST_WEIGHTS = 65_536, 16_384
_MATRICES = {"W_Q": "query", "W_K": "key", "W_V": "value", "W_O": "output"}
"""name -> of the attention's part that holds it"""


def steps(
    look: Look,
    layer: int,
    head: int,
    query: int | None = None,
    of: str | None = None,
    kind: str | None = None,
    full: bool = True,
    parts: str = "all",
) -> dict[str, Any]:
    """From the residual stream through W_Q, W_K, W_V, scores and softmax back into it.

    query null: for all T queries at once. full false: arrays are stored as f2. parts, for files that
    hold every head: "layer", "head" or "all". The value: see the head of this file.
    """
    found = head_at(look, layer, head, of, kind)
    rows: Any = slice(None) if query is None else row_at(found, query)
    store: Kind = "f4" if full else "f2"
    value = {
        **named(found),
        **which(found.trace, found.site),
        "query": query,
        "label": None if query is None else found.query_labels[query],
        "predicts": found.site.predicts,
        "additive": is_additive(found),
        "off": is_off(look, found),
        **_inside(found, rows),
        **(_bahdanau(found, rows) if is_additive(found) else _around(found, rows)),
        "difference": found.difference,
    }
    value = _only(value, parts)
    value["rows"] = _rows(value) if query is None else []
    return {name: _stored(part, store) for name, part in value.items()}


_OF_LAYER = ("before", "normed", "places", "key_inputs", "all_heads", "after_norm", "feed_forward",
             "after")  # fmt: skip
_OF_HEAD = ("q", "k", "v", "scores", "capped", "biased", "sink", "weighted", "head_output")
_OTHERWISE = ("scaled", "weights", "codes", "q_unrotated", "k_unrotated", "W_Q", "W_K", "W_V", "W_O",
              "contribution", "model_output")  # fmt: skip
_PER_QUERY = ("q_unrotated", "q", "scores", "scaled", "capped", "biased", "codes", "weights",
              "sink.weight", "head_output", "model_output", "before.vector", "normed",
              "contribution", "all_heads", "after_norm", "feed_forward", "after.vector")  # fmt: skip


def _only(value: dict[str, Any], parts: str) -> dict[str, Any]:
    """`value` without what `parts` leaves out."""
    if parts == "all":
        return value
    out = {*_OTHERWISE, *(_OF_HEAD if parts == "layer" else _OF_LAYER)}
    if parts == "layer" and value["key_side"] == "same":
        out.add("key_inputs")  # the same rows as `normed`, or as `before`
    return {name: None if name in out else part for name, part in value.items()}


def _rows(value: dict[str, Any]) -> list[str]:
    """Names of the arrays of `value` that have a row for each query."""
    found = []
    for name in _PER_QUERY:
        first, _, inner = name.partition(".")
        part = value[first]
        if part is not None and (not inner or part[inner] is not None):
            found.append(name)
    return found


def _stored(part: Any, store: Kind) -> Any:
    """`part` with its float arrays stored as asked."""
    if isinstance(part, dict):
        return {name: _stored(inner, store) for name, inner in part.items()}
    floats = isinstance(part, np.ndarray) and part.dtype.kind == "f"
    return Stored(part, store) if floats else part


def _inside(head: Head, rows: Any) -> dict[str, Any]:
    """From queries and keys to the head's output."""
    module, weights = head.module, head.weights[rows]
    turned = not is_additive(head) and _turned(head)
    one = not isinstance(rows, slice)
    return {
        "q_unrotated": head.queries_unrotated[rows] if turned else None,
        "q": head.queries[rows],
        "k_unrotated": head.keys_unrotated if turned else None,
        "k": head.keys,
        "v": head.values,
        "scores": head.scores[rows],
        "scaled": head.scaled[rows],
        "capped": None if getattr(module, "softcap", None) is None else head.capped[rows],
        "biased": head.biased[rows] if not is_additive(head) and has_position_bias(head) else None,
        "codes": head.mask.codes[rows],
        "weights": weights,
        "sink": _sink(head, weights),
        "weighted": weights[:, None] * head.values if one else None,
        "head_output": head.head_output[rows],
        "model_output": head.model_output[rows],
    }


def _turned(head: Head) -> bool:
    """Whether rotary positions turn this head's queries and keys."""
    return head.site.kind == "self" and head.trace.network.config.positions == "rotary"


def _sink(head: Head, weights: np.ndarray) -> dict[str, Any] | None:
    logits = getattr(head.module, "sink_logit", None)
    if logits is None:
        return None
    rest = 1.0 - weights.sum(axis=-1, dtype=np.float64)
    return {"logit": float(logits.detach()[head.head]), "weight": np.asarray(rest)}


# -- the Transformer's -----------------------------------------------------------------------------


def _around(head: Head, rows: Any) -> dict[str, Any]:
    """From the residual stream to queries and keys, and from the head's output back into it."""
    module, trace, config = head.module, head.trace, head.trace.network.config
    block = _block(head)
    cross = head.site.kind == "cross"
    norm = block.cross_attention_norm if cross else block.attention_norm
    before, after = _taps(head, block)
    stream, output = trace.tap(before), trace.tap(f"{module.name}.output")
    first = norm if block.place in ("pre", "sandwich") else None
    read = stream if first is None else _normed(first, stream)
    inputs = _memory(head) if cross else read
    factor, heading_words = module.scale, scale_in_words(head)
    return {
        "sizes": {
            "d_model": stream.shape[-1],
            "d_head": module.d_head,
            "n_heads": module.n_heads,
            "n_kv_heads": module.n_kv_heads,
            "n_keys": len(head.site.key_spelling),
        },
        "before": {"name": before, "vector": stream[rows]},
        "norm": None if norm is None else norm.kind,
        "norm_place": block.place,
        "normed": None if first is None else read[rows],
        "key_side": "source" if cross else "same",
        "places": None if cross else _places(head),
        "key_inputs": inputs if inputs.size <= _MOST_INPUTS else None,
        **_matrices(head),
        "qk_norm": None if config.qk_norm == "none" else config.qk_norm,
        "score_vector": None,
        "contribution": head.contribution[rows],
        "all_heads": output[rows],
        **_added(block, cross, norm, output, rows, trace),
        "residual": block.residual,
        "after": {"name": after, "vector": trace.tap(after)[rows]},
        "scale": {"factor": factor, "heading": heading_words[0], "words": heading_words[1]},
        "softcap": module.softcap,
    }


def _places(head: Head) -> np.ndarray:
    """(T,): where the tokens stand, which rotary positions turn by."""
    given = head.trace.inputs.get("positions")
    if given is None:
        return np.arange(len(head.site.key_spelling))
    return np.asarray(given[0].cpu().numpy())


def _block(head: Head) -> Any:
    stack = getattr(head.trace.network, head.site.of)
    return list(stack.blocks())[head.layer]


def _taps(head: Head, block: Any) -> tuple[str, str]:
    """Names of the residual stream before and after this attention."""
    stem = f"{head.site.of}.{head.layer}"
    if head.site.kind == "cross":
        return f"{stem}.residual_crossing", f"{stem}.residual_middle"
    crosses = f"{stem}.residual_crossing" in head.trace.recorded
    after = "after" if block.parallel else "crossing" if crosses else "middle"
    return f"{stem}.residual_before", f"{stem}.residual_{after}"


def _normed(norm: Any, rows: np.ndarray) -> np.ndarray:
    """A norm of the model applied to rows of a trace."""
    like = next(norm.parameters(), None)
    given = torch.from_numpy(rows)
    with torch.no_grad():
        return array(norm(given if like is None else given.to(like)))


def _memory(head: Head) -> np.ndarray:
    """(S,D): what the encoder wrote, which cross-attention's keys and values are made from."""
    names = head.trace.recorded
    last = head.trace.network.encoder.depth - 1
    final = "encoder.final_norm"
    return head.trace.tap(final if final in names else f"encoder.{last}.residual_after")


def _added(
    block: Any, cross: bool, norm: Any, output: np.ndarray, rows: Any, trace: Any
) -> dict[str, Any]:
    """What is done to the sum of all heads before it is added, and what is added with it."""
    after = None
    if block.place == "sandwich":
        after = block.cross_attention_output_norm if cross else block.attention_output_norm
    elif block.place == "output":
        after = norm
    together = None
    if block.parallel:
        together = trace.tap(f"{block.name}.feed_forward.output")
        output = output + together
    return {
        "after_norm": None if after is None else _normed(after, output)[rows],
        "feed_forward": None if together is None else together[rows],
    }


def _matrices(head: Head) -> dict[str, Any]:
    """The parts of W_Q, W_K, W_V and W_O that are this head's."""
    found = {}
    for name in _MATRICES if not is_additive(head) else ("W_Q", "W_K"):
        weights, bias = _part(head, name)
        found[name] = {
            "shape": list(weights.shape),
            "weights": weights if weights.size <= _MOST_WEIGHTS else None,
            "bias": bias,
        }
    return found


def _part(head: Head, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """This head's part of one of its matrices and of its bias; W_O's is that of all heads."""
    module = head.module
    linear = getattr(module, _MATRICES[name])
    bias = None if linear.bias is None else array(linear.bias)
    if is_additive(head):
        return array(linear.weight), bias
    number = head.kv_head if name in ("W_K", "W_V") else head.head
    own = slice(number * module.d_head, (number + 1) * module.d_head)
    if name == "W_O":
        return array(linear.weight)[:, own], bias
    return array(linear.weight)[own], None if bias is None else bias[own]


def matrix(
    look: Look,
    layer: int,
    head: int,
    part: str,
    row: int | None = None,
    of: str | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """One matrix of a head, of those too large for `steps`: all of it in 8 bits, or a row exactly.

    part: "W_Q", "W_K", "W_V" or "W_O", as of `steps`; row null: {"part", "shape": [rows, columns],
    "weights": u1 (rows, columns)}; else {"part", "shape", "row": int, "weights": f4 (columns)}.
    """
    found = head_at(look, layer, head, of, kind)
    if is_additive(found) and part in ("W_V", "W_O"):
        raise UserError(f"additive attention has no {part}")
    held, _ = _part(found, part)
    shape = list(held.shape)
    if row is None:
        return {"part": part, "shape": shape, "weights": Stored(held, "u1")}
    if row >= shape[0]:
        raise UserError(f"there is no row {row}: {part} has rows 0 to {shape[0] - 1}")
    return {"part": part, "shape": shape, "row": row, "weights": Stored(held[row], "f4")}


# -- Bahdanau's ------------------------------------------------------------------------------------


def _bahdanau(head: Head, rows: Any) -> dict[str, Any]:
    """The same of additive attention, inside a recurrent decoder."""
    module, trace = head.module, head.trace
    name = f"decoder.{head.layer}.hidden"
    states = np.concatenate([trace.tap(f"{name}.start")[None], trace.tap(name)[:-1]])
    annotations = head.values
    nothing = (
        "norm",
        "norm_place",
        "normed",
        "W_V",
        "W_O",
        "qk_norm",
        "contribution",
        "after_norm",
    )
    return {
        "sizes": {
            "d_model": states.shape[-1],
            "d_head": annotations.shape[-1],
            "n_heads": 1,
            "n_kv_heads": 1,
            "n_keys": len(head.site.key_spelling),
        },
        "before": {"name": name, "vector": states[rows]},
        **dict.fromkeys(nothing),
        "key_side": "source",
        "places": None,
        "key_inputs": annotations if annotations.size <= _MOST_INPUTS else None,
        **_matrices(head),
        "score_vector": array(module.score),
        "all_heads": head.model_output[rows],
        "feed_forward": None,
        "residual": False,
        "after": None,
        "scale": None,
        "softcap": None,
    }
