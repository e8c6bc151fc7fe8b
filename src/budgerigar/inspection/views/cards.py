"""The card of the model that is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgerigar.inspection.places import predicts_words
from budgerigar.inspection.views.look import Look, most_tokens
from budgerigar.inspection.views.sides import places_of
from budgerigar.layers.packed_linear import n_weights
from budgerigar.models.card import card
from budgerigar.models.card_words import quantity
from budgerigar.text.pair_store import encode_source
from budgerigar.text.words import word_keys


def about(look: Look) -> dict[str, Any]:
    """What the model is. Needs no text.

    {"name": str, "kind": one of `look.KINDS`, "pair": bool (asked by source and target),
     "checkpoint": str|null, "off": ["L2.H3"]|null, "blank": bool,
     "layers": int, "heads": int|null, "parameters": int|null (an n-gram has none),
     "vocab_size": int, "context_length": int|null, "most_tokens": int (of a question),
     "words": [a sentence each: what the configuration means],
     "facts": [[section, [[name, value as people read it], …]], …],
     "positions": "rotary"|…|null, "norm": "layer"|"rms"|null, "norm_place": "pre"|…|null,
     "tokenizer": {"kind": str, "lowercase": bool, "mask": bool (it can be asked to fill in),
       "words": int|null (that one of kind "word" has whole; others are spelled)},
     "sites": [{"of", "kind", "title", "layers", "heads", "kv_heads", "d_head", "windows", "causal",
       "additive"}: see SITE in `read`],
     "views": [names], "refused": {name of another view: why, in words}}
    """
    from budgerigar.inspection.views import VIEWS

    config, network = look.config, bare(look.network)
    facts = card(config, look.name)
    refused = {name: view.refusal(look.network) for name, view in VIEWS.items()}
    sites = places_of(look)
    return {
        "name": look.name,
        "kind": look.kind,
        "pair": look.pair,
        "checkpoint": look.question.get("checkpoint"),
        "off": look.question.get("off") or None,
        "blank": bool(look.question.get("blank")),
        "layers": _layers(config),
        "heads": max((site["heads"] for site in sites), default=None),
        "parameters": n_weights(network) if hasattr(network, "parameters") else None,
        "vocab_size": int(network.vocab_size),
        "context_length": network.context_length,
        "most_tokens": most_tokens(network),
        "words": list(facts.words),
        "facts": [
            [
                section.replace("_", " "),
                [[key, quantity(key, value)] for key, value in rows.items()],
            ]
            for section, rows in facts.facts.items()
        ],
        "positions": getattr(config, "positions", None),
        "norm": getattr(config, "norm", None),
        "norm_place": getattr(config, "norm_place", None),
        "tokenizer": _tokenizer(look),
        "sites": sites,
        "views": [name for name, words in refused.items() if not words],
        "refused": {name: words for name, words in refused.items() if words},
    }


def count(look: Look, texts: list[str]) -> dict[str, Any]:
    """How many tokens texts (of an encoder-decoder: sources) have, read by nobody yet.

    {"tokens": i4 (one for each text), "most_tokens": int (of a question)}
    """
    return {
        "tokens": np.array([_length(look, text) for text in texts], dtype=np.int32),
        "most_tokens": most_tokens(look.network),
    }


def _length(look: Look, text: str) -> int:
    """Of a source with its `<end>`; the model itself would refuse one that is too long."""
    if not look.pair:
        return len(look.model.encode(text))
    line = text.lower() if getattr(look.model, "lowercase", False) else text
    return len(encode_source(look.source_tokenizer, line))


def bare(network: Any) -> Any:
    """The network itself, where `network` is a view of it."""
    while "network" in vars(network):
        network = network.network
    return network


def _layers(config: Any) -> int:
    """Layers of the model; of a translator those of its decoder."""
    found = getattr(config, "n_decoder_layers", None) or getattr(config, "n_layers", None)
    return int(found or 1)


def _tokenizer(look: Look) -> dict[str, Any]:
    reader = look.tokenizer
    fills = look.kind == "encoder" and predicts_words(look.config)
    return {
        "kind": reader.kind,
        "lowercase": bool(getattr(look.model, "lowercase", False)),
        "mask": fills and getattr(reader, "mask_id", None) is not None,
        "words": _words(reader) if reader.kind == "word" else None,
    }


def _words(reader: Any) -> int:
    """How many words it has whole; what others are spelled with, letters and digits, are none."""
    keys = {key for key in word_keys(reader, lowercase=False) if key}
    return sum(len(key) > 1 or not key.isascii() for key in keys)
