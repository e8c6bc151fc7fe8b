"""What can stand in a tour (tour.py): a page's head, numbers in the text, lines that show something."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LEVELS = ("beginner", "intermediate", "advanced")
_WORD = "a word or a position"
_PAIR = {"query": _WORD, "key": _WORD, "head": "a head such as L2.H3"}
_SITE = {"of": "encoder or decoder", "kind": "self or cross"}
_LINK = {**_PAIR, **_SITE}

NUMBERS: dict[str, dict[str, str]] = {
    "model": {},
    "layers": {},
    "heads": {},
    "parameters": {},
    "vocabulary": {},
    "context": {},
    "tokens": {},
    "likeliest": {},
    "d_head": _SITE,
    "root": _SITE,
    **dict.fromkeys(
        ("weight", "head", "distance", "uniform", "untrained", "score", "scaled"), _LINK
    ),
    "difference": _LINK,
    "p": {"word": "a word"},
    "translation": {},
    "cells": {"length": "a number"},
    "cache": {"length": "a number"},
}
"""name of a number in the text -> its parameters. `weight`, `head`, …: of the head that looks most
from `query` at `key`, or of the one that is named. A word of several tokens looks from its last one;
a weight on it is the sum over all of them, a score that of the token that gets most; p: the product of
their shares. root: of d_head. cells: weights that all heads
compute for a text of that length; cache: bytes of keys and values for it."""


@dataclass(frozen=True)
class Directive:
    """params: name -> what it is; needed: those that must be there; rest: what the line's text is."""

    params: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    rest: str = ""
    choices: tuple[str, ...] = ()
    closes: bool = False
    """blocks follow until `:: end`"""


_TOP = {"top": "a number"}

ASKING = ("tokens", "row", "heat", "steps", "links", "heads", "next", "stream", "shuffle",
          "translation", "lengths", "open")  # fmt: skip
"""directives that need a sentence"""

DIRECTIVES: dict[str, Directive] = {
    "tokens": Directive(),
    "row": Directive({**_LINK, **_TOP}, ("query",)),
    "heat": Directive(_LINK),
    "steps": Directive({**_LINK, **_TOP}, ("query",)),
    "links": Directive({**_LINK, **_TOP}, ("query", "key")),
    "heads": Directive(_SITE),
    "next": Directive({**_TOP, "word": "a word"}),
    "stream": Directive({"position": _WORD}),
    "shuffle": Directive(),
    "translation": Directive(),
    "lengths": Directive(),
    "worked": Directive(rest="a hand-set model", choices=("it", "apple")),
    "why": Directive(rest="a part"),
    "command": Directive(rest="a command line"),
    "open": Directive({**_LINK, "part": "a card of the view"}, rest="a view"),
    "sentence": Directive(rest="a sentence"),
    "question": Directive(rest="a question", closes=True),
    "card": Directive(rest="a name", closes=True),
    "end": Directive(),
}
"""What a line that begins with `::` can show:

tokens             the sentence as the model reads it
row, heat, steps   one head: a row of weights, its matrix, the four steps of a query
links              every head by its weight from `query` to `key`
heads              all heads, each with its strongest link
next               the likeliest next tokens
stream             the residual stream through the layers
shuffle            the same words in another order: what each vector becomes
translation        an encoder-decoder's translation, each word with the source word it looks at
lengths            what this model computes and keeps for 100 to a million tokens
worked it|apple    a hand-set model whose numbers can be dragged
why PART           an experiment, run when asked for
command …          a command line to copy
open VIEW          a button that shows a view of the page with this sentence
sentence …         another sentence for what follows on this page
question … end     a question whose answer opens, with answers to choose from where it has some;
card … end         a card of facts
"""

FIELDS: dict[str, str] = {
    "title": "",
    "level": "beginner",
    "minutes": "",
    "model": "any",
    "sentence": "",
    "source": "",
}
"""of a page's head, with what holds where they are not given"""

CHECKS: dict[str, Callable[[str], Any]] = {
    "a number": lambda value: re.fullmatch(r"[0-9]{1,9}", value),
    "a head such as L2.H3": lambda value: re.fullmatch(r"L[0-9]{1,3}\.H[0-9]{1,3}", value),
    "encoder or decoder": lambda value: value in ("encoder", "decoder"),
    "self or cross": lambda value: value in ("self", "cross"),
}
"""what a parameter is -> whether a value is one; of anything else every text is"""
