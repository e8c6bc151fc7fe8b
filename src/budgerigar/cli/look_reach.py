"""`budgie look RUN [TEXT] --reach`: how far back the gradient of a prediction reaches."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

NOT_HERE = (
    "head", "layer", "grid", "link", "step", "surprise", "head_off", "target", "prefix", "no_source",
    "kind", "of", "gate", "unit", "analogy", "map", "words",
)  # fmt: skip


def refuse(options: argparse.Namespace) -> None:
    """`UserError` where something of --reach stands without it."""
    for name in ("beside", "distance"):
        if getattr(options, name) is not None:
            raise UserError(
                f"--{name} belongs to --reach: how far back a prediction's gradient goes"
            )


def show(model: Any, options: argparse.Namespace) -> None:
    """The table of all models; with --out their picture."""
    from budgerigar import api
    from budgerigar.api import reach
    from budgerigar.inspection.reach_text import EXPLAINED, reach_table

    others = [name for name in NOT_HERE if getattr(options, name) not in (None, False, [])]
    if others:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in others)
        raise UserError(f"--reach asks for another picture than {flags}; give one of them")
    if options.out:
        _check_out(Path(options.out))
    models = [model]
    for folder in options.beside or ():
        models.append(api.load(folder, device=options.device or "auto", threads=options.threads))
    found = reach.reaches(models, options.text, distance=options.distance)
    if options.text is None and not options.quiet:
        print(f"on the validation text of {model.name}", file=sys.stderr)
    print(reach_table(found))
    if not options.quiet:
        print(EXPLAINED, file=sys.stderr)
        if not reach.same_tokens(models, options.text):
            print("note: these models cut a text into different tokens, so their distances do not "
                  "compare one to one", file=sys.stderr)  # fmt: skip
    if options.out:
        about = "" if options.text is None else f"“{' '.join(options.text.split())}”"
        about = about or f"on the validation text of {model.name}"
        print(reach.draw_reaches(found, options.out, about))


def _check_out(out: Path) -> None:
    """Before something is measured that could then not be written."""
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"{out}: a picture's name ends in .png, .svg or .pdf")
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} to write {out.name} into")
