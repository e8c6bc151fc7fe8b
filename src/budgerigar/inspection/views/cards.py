"""The card of the model that is looked at."""

from __future__ import annotations

from typing import Any

from budgerigar.inspection.views.look import Look


def about(look: Look) -> dict[str, Any]:
    """What the model is. Needs no text.

    {"name": str, "kind": one of `look.KINDS`, "pair": bool (asked by source and target),
     "checkpoint": str|null, "off": ["L2.H3"]|null, "blank": bool,
     "layers": int, "heads": int|null, "parameters": int|null (an n-gram has none),
     "vocab_size": int, "context_length": int|null, "most_tokens": int (of a question),
     "words": [a sentence each: what the configuration means],
     "facts": [[section, [[name, value as people read it], …]], …],
     "positions": "rotary"|…|null, "norm": "layer"|"rms"|null, "norm_place": "pre"|…|null,
     "tokenizer": {"kind": str, "lowercase": bool, "mask": bool (it can be asked to fill in)},
     "sites": [see `read`, without "queries" and "keys"],
     "views": [names], "refused": {name of another view: why, in words}}
    """
    raise NotImplementedError
