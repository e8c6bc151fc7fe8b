"""`budgie look` on word vectors: neighbours, an analogy, a map."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgerigar.cli.output import table
from budgerigar.errors import UserError

NOT_HERE = (
    "head", "layer", "grid", "link", "step", "surprise", "head_off", "target", "prefix", "no_source",
    "kind", "of", "out",
)  # fmt: skip


def refuse(model: Any, options: argparse.Namespace) -> None:
    """`UserError` where something of word vectors is asked of another model."""
    if options.analogy or options.map:
        model.analogy("", "", "")  # says what it is, and what it can
    if options.words is not None:
        print("note: --words has no effect here: it is for word vectors", file=sys.stderr)


def show(model: Any, options: argparse.Namespace) -> None:
    """What was asked for; each word's neighbours otherwise."""
    _check(model, options)
    words = (options.text or "").split()
    if options.analogy:
        a, b, c = _three(options.analogy)
        found = model.analogy(a, b, c, 10 if options.map else options.words or 10)
        print(f"{a} : {b} = {c} : ?")
        print(_rows(found))
    if options.map:
        print(model.map(options.map, words or options.words or 300))
        return
    near = [(word, model.neighbours(word, options.words or 10)) for word in words]
    for word, found in near:
        print(f"nearest to {word}")
        print(_rows(found))


def _check(model: Any, options: argparse.Namespace) -> None:
    asked = [name for name in NOT_HERE if getattr(options, name) not in (None, False, [])]
    if asked:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        picture = " A picture of the words: --map FILE.png." if "out" in asked else ""
        raise UserError(
            f"{model.name} holds word vectors, which have no heads and read no text: {flags} cannot "
            f"be used. Give a word, --analogy or --map.{picture}"
        )
    if options.map and Path(options.map).exists():
        raise UserError(f"{options.map} exists already; choose another --map or remove it")


def _three(text: str) -> list[str]:
    words = text.split()
    if len(words) != 3:
        raise UserError(
            f"--analogy takes three words, and {text!r} has {len(words)}. What is to the third as the "
            'second is to the first: --analogy "man king woman"'
        )
    return words


def _rows(found: Sequence[tuple[str, float]]) -> str:
    return table([(word, f"{cosine:.3f}") for word, cosine in found])
