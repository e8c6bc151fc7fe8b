"""`budgie look` on an n-gram: which context it matched, and how it backed off."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

NOT_HERE = ("head", "layer", "grid", "link", "head_off")
OF_PAIRS = ("target", "prefix", "no_source", "kind", "of")


def fits(model: Any, options: argparse.Namespace) -> bool:
    """Whether it is an n-gram that is to be shown backing off; --surprise is as for any model."""
    from budgerigar import api
    from budgerigar.models.configs import NgramConfig

    if not isinstance(model.config, NgramConfig):
        return False
    for name in OF_PAIRS:
        if getattr(options, name) not in (None, False):
            api.need_translator(model, f"be looked at with --{name.replace('_', '-')}")
    asked = [name for name in NOT_HERE if getattr(options, name) not in (None, False, [])]
    if asked:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise UserError(
            f"{model.name} is an n-gram: it counts and has no heads, so {flags} cannot be used. "
            "One token in numbers: --step WORD; a picture: --out FILE"
        )
    if options.surprise and (options.step or options.out):
        flag = "--step" if options.step else "--out"
        raise UserError(f"--surprise colours the text; leave it or {flag} out")
    return not options.surprise


def show(model: Any, options: argparse.Namespace) -> None:
    """The strip over the whole text, one token's table, or a picture of either kind."""
    from budgerigar import api

    found = api.back_off(model, options.text)
    word = None if options.step is None else _word(options.step, found.trace.text)
    if word is not None:
        print(found.step_text(word))
    if options.out:
        print(_draw(found, Path(options.out), word, options.full))
    elif word is None:
        print(found)
        if not options.quiet:
            more = (
                "one token, length by length: --step WORD; a picture: --out back-off.png (or .html)"
            )
            print(f"\n{more}", file=sys.stderr)


def _word(typed: str, text: str) -> str | int:
    """A number that is not in the text is a position."""
    is_number = typed.removeprefix("-").isdigit()
    return int(typed) if is_number and typed not in text else typed


def _draw(found: Any, out: Path, word: str | int | None, full: bool) -> Path:
    if out.suffix.lower() == ".html":
        return Path(found.html(out, word, full=full))
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"{out}: a picture's name ends in .png, .svg, .pdf or .html")
    return Path(found.heatmap(out, word))
