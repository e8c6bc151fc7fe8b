"""Words of an ejected file: what it says of its model, and how the texts of that begin and end."""

from __future__ import annotations

from typing import Any

from budgerigar.errors import UserError
from budgerigar.formats.eject_template import ACTIVATIONS
from budgerigar.layers.config import TransformerConfig


def ends_of_texts(tokenizer: Any, documents: bool | None) -> dict[str, bool]:
    """Which parts the file has: our `<end>`, which opens and ends texts, or an imported one's ends."""
    imported = bool(getattr(tokenizer, "imported", False))
    ours = tokenizer.end_id is not None and documents is not False
    return {"documents": ours and not imported, "ends": imported and bool(tokenizer.end_ids)}


def texts(tokenizer: Any, flags: dict[str, bool], documents: bool | None) -> dict[str, Any]:
    """Prompts, and how a text begins and ends."""
    first = "END" if flags["documents"] else ", ".join(map(str, _starts(tokenizer, documents)))
    ends = flags["documents"] or flags["ends"]
    return {
        "prompt": "Once",
        "end_id": tokenizer.end_id,
        "end_ids": sorted(getattr(tokenizer, "end_ids", ())),
        "first_ids": f"[{first}, *" if first else "",
        "last_ids": "]" if first else "",
        "until_end": "; stops where the model ends its text" if ends else "",
        "default_prompt": '""' if first else repr(_first_text(tokenizer)).replace("'", '"'),
        "forbidden": ", forbidden" if flags["never_seen"] else "",
    }


def _starts(tokenizer: Any, documents: bool | None) -> tuple[int, ...]:
    """What stands before a text of an imported tokenizer, as when we run it."""
    if not getattr(tokenizer, "imported", False) or documents is False:
        return ()
    if documents and not tokenizer.start_ids and tokenizer.end_id is not None:
        return (tokenizer.end_id,)
    return tuple(tokenizer.start_ids)


def _first_text(tokenizer: Any) -> str:
    """Something to start from: a newline, or the first piece of the vocabulary that is text."""
    try:
        newline = tokenizer.encode("\n")
    except UserError:
        newline = []
    if len(newline) and not tokenizer.never_seen[newline[0]]:
        return "\n"
    seen = (i for i in range(tokenizer.vocab_size) if not tokenizer.never_seen[i])
    return next((text for i in seen if (text := tokenizer.decode([i])).isalpha()), " ")


def words(c: TransformerConfig, flags: dict[str, bool]) -> dict[str, str]:
    """Comments and docstrings that depend on the model."""
    norm = "RMSNorm" if c.norm_of(0) == "rms" else "LayerNorm"
    kinds = {
        "none": "no positions",
        "learned": "learned positions",
        "relative": "relative positions",
    }
    positions = kinds.get(c.positions, f"{c.positions} positions")
    summary = f"{c.n_layers} layers of {c.n_heads} heads, {c.d_model} wide, {positions}, {norm}"
    blocks = {
        "pre": "attention and feed-forward each read a normalised x and add to it",
        "post": "attention and feed-forward each add to x, which is then normalised",
        "sandwich": "attention and feed-forward, normalised before and after, each add to x",
        "output": "attention and feed-forward each add their normalised output to x",
    }
    if c.parallel_residual:
        block = "attention and feed-forward read the same normalised x and both add to it"
    elif not c.residual:
        block = "attention, then feed-forward, without residual connections"
    else:
        block = blocks[c.norm_place]
    seen = f"of the last {c.window_of(0)}" if flags["windowed"] else "up to itself"
    if flags["mixed_windows"]:
        seen = "in its window, if any"
    if flags["sinks"]:
        seen += f", and the first {c.sink_tokens}"
    centre = "" if norm == "RMSNorm" else "centre each vector and "
    learned = ", times learned weights" if c.norm_weight else ""
    return {
        "summary": summary,
        "kv_legend": ", K key-value heads" if flags["grouped"] else "",
        "block_words": block,
        "visible_words": seen,
        "norm_words": f"{norm}: {centre}scale it to mean square 1{learned}."
        if centre
        else f"{norm}: scale each vector to mean square 1{learned}.",
        "activation_words": ACTIVATIONS[c.activation][1],
    }
