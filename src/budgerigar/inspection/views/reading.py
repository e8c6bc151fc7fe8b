"""What the model read and what it predicted: tokens, surprise, the next token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.evaluation.losses import ranks_of
from budgerigar.generation.streaming import forbidden_ids
from budgerigar.inspection.labels import visible
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.passes import array
from budgerigar.inspection.places import predicts_words
from budgerigar.inspection.surprise import FULL_SCALE
from budgerigar.inspection.views.look import Look
from budgerigar.inspection.views.payload import Stored
from budgerigar.inspection.views.sides import REASONS, Names, site_facts, spellings

LIKELIEST = 200
"""next tokens that are given by name; the logits of all are given besides"""


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
     "groups": [{"start": t, "length": n, "text": str, "hex": ["E8 99 8E", …] n of them, or []}],
     "added": [positions of tokens that are not of the text, such as <end>, [CLS], [SEP]]}
     groups: every token is in one; those that share a character are together (n > 1, with their
     bytes), so that the character is drawn once over its n columns. text: what to show, blanks
     visible; of a single token its label.

    SURPRISE: how unexpected each token of the spelling "side" was, "scored" of them from "first" on;
    other entries are 0 and mean nothing (nothing predicts a first token).
    {"side": "read"|"predicted", "first": 0|1, "scored": int, "nats": f4 (T), "p": f4 (T),
     "rank": i4 (T), "entropy": f4 (T), "top_ids": i4 (T,k), "top_p": f4 (T,k), "total": nats,
     "mean": nats|null (nothing is scored), "full_scale": nats at the end of the colours}

    NEXT: the true softmax after the text (a translation's end; after a prefix: what comes next).
    {"ids": i4 (n <= 200), likeliest first, "p": f4 (n), "rest": sum of all others, "logits": f4 (V),
     "never": i4 (ids that generation leaves out: never met in training, or special but no end),
     "end": {"id": the first, "ids": [all that end a text], "p": that any of them comes}|null,
     "row": the position it is read from}

    SITE: one kind of attention.
    {"of": "encoder"|"decoder", "kind": "self"|"cross", "title": "decoder, cross-attention",
     "layers": int, "heads": int, "kv_heads": int, "d_head": int, "windows": [int|null per layer],
     "query_axis": words, "key_axis": words, "queries": name of the rows' spelling, "keys": name of
     the columns', "predicts": bool (rows are named by the token being predicted),
     "blank": bool (the source is switched off), "causal": bool, "additive": bool (Bahdanau's)}
    """
    trace, names = look.trace, Names(look.tokenizer)
    pair = trace if isinstance(trace, PairTrace) else None
    why = _no_surprise(look)
    value = {
        "about": trace.about,
        "text": visible(trace.text, spaces=False),
        "source": None if pair is None else visible(pair.source, spaces=False),
        "own": pair is not None and pair.own,
        "prefix": pair is not None and pair.prefix,
        "start_added": bool(trace.start_added),
        "spellings": spellings(look),
        "surprise": None if why else _surprise(look, top, names),
        "why_no_surprise": why,
        "next": None if why else next_token(look, -1, names),
        "fill": _fill(look, names),
        "classes": _classes(look),
        "sites": [site_facts(trace, site) for site in trace.sites],
        "reasons": list(REASONS),
    }
    return {**value, "words": names.words}


def _no_surprise(look: Look) -> str:
    """Why nothing can be said about what was expected; "" where it can."""
    if look.kind != "encoder":
        return ""
    return (
        "an encoder sees the tokens that it would have to predict, so none of them can surprise it"
    )


def _surprise(look: Look, top: int, names: Names) -> dict[str, Any]:
    """SURPRISE; the numbers are those of `Trace.surprise`, all positions at once."""
    trace = look.trace
    pair = isinstance(trace, PairTrace)
    targets = trace.targets if isinstance(trace, PairTrace) else trace.ids[1:]
    if isinstance(trace, PairTrace) and trace.prefix:
        targets = targets[:-1]
    found = _expected(trace.logits[: len(targets)], targets, top)
    first = 0 if pair else 1
    whole = len(trace.targets) if isinstance(trace, PairTrace) else len(trace.ids)
    # entries that nothing predicts, before the first or after a prefix, stay 0
    value = {name: _placed(part, first, whole) for name, part in found.items()}
    names.add(found["top_ids"])
    nats = found["nats"]
    return {
        "side": "predicted" if pair else "read",
        "first": first,
        "scored": len(nats),
        **value,
        "total": float(nats.sum()),
        "mean": float(nats.mean()) if len(nats) else None,
        "full_scale": FULL_SCALE,
    }


def _placed(part: np.ndarray, first: int, whole: int) -> np.ndarray:
    """(n, …) at rows `first` and after of (whole, …); zeros elsewhere."""
    placed = np.zeros((whole, *part.shape[1:]), dtype=part.dtype)
    placed[first : first + len(part)] = part
    return placed


def _expected(logits: Tensor, targets: list[int], top: int) -> dict[str, np.ndarray]:
    """What `surprise` says of each row of logits (n,V), in float64 and a few rows at a time."""
    k, rows = min(top, logits.shape[-1]), max(1, 2**22 // logits.shape[-1])
    parts: dict[str, list[np.ndarray]] = {
        name: [] for name in ("nats", "p", "rank", "entropy", "top_ids", "top_p")
    }
    for at in range(0, max(len(targets), 1), rows):
        wanted = torch.tensor(targets[at : at + rows], device=logits.device, dtype=torch.long)
        some = logits[at : at + rows]
        lead = some.max(dim=-1, keepdim=True).values.double()
        below = some.double() - lead
        shares = below.exp()
        total = shares.sum(-1)
        nats = total.log() - below.gather(1, wanted[:, None])[:, 0]
        best = some.topk(k, dim=-1).indices
        numbers = {
            "nats": nats,
            "p": (-nats).exp(),
            "rank": ranks_of(some, wanted),
            "entropy": total.log() - (shares * below.nan_to_num(neginf=0.0)).sum(-1) / total,
            "top_ids": best,
            "top_p": shares.gather(1, best) / total[:, None],
        }
        for name, number in numbers.items():
            parts[name].append(number.cpu().numpy())
    return {name: np.concatenate(found) for name, found in parts.items()}


def next_token(look: Look, row: int, names: Names) -> dict[str, Any]:
    """NEXT: the softmax of one row of the trace's logits, in float64."""
    logits = look.trace.logits[row]
    chances = torch.softmax(logits.double(), dim=-1)
    best = chances.topk(min(LIKELIEST, len(chances)))
    shown = best.values.cpu().numpy()
    names.add(best.indices.cpu().numpy())
    ends = look.end_ids
    names.add(ends)
    return {
        "ids": best.indices.cpu().numpy(),
        "p": shown,
        "rest": max(0.0, float(chances.sum()) - float(shown.sum())),
        "logits": Stored(array(logits), "f4"),
        "never": never_drawn(look),
        "end": {"id": ends[0], "ids": ends, "p": float(chances[ends].sum())} if ends else None,
        "row": row % len(look.trace.logits),
    }


def never_drawn(look: Look) -> np.ndarray:
    """Ids that generation leaves out, whatever the model thinks of them; none of an encoder."""
    forbidden = np.zeros(look.network.vocab_size, dtype=bool)
    reader = look.tokenizer  # a trace's own may know nothing of its training
    if look.kind != "encoder" and getattr(reader, "never_seen", None) is not None:
        known = forbidden_ids(reader)[: len(forbidden)]
        forbidden[: len(known)] = known
        forbidden[len(known) :] = True  # a head that is padded beyond the vocabulary
    return np.flatnonzero(forbidden).astype(np.int32)


def _fill(look: Look, names: Names) -> list[dict[str, Any]]:
    """What an encoder with an output layer over its vocabulary would put at the masked positions."""
    if not look.masked or not predicts_words(look.config):
        return []
    return [{"position": at, **next_token(look, at, names)} for at in look.masked]


def _classes(look: Look) -> Mapping[str, Any] | None:
    """The classes of an encoder that tells them, as it tells this text."""
    if not getattr(look.config, "n_classes", 0):
        return None
    chances = torch.softmax(look.trace.logits.double().reshape(-1), dim=-1)
    given = getattr(look.model, "classes", None)
    names = list(given) if given else [str(number) for number in range(len(chances))]
    return {"names": names, "p": chances.cpu().numpy()}
