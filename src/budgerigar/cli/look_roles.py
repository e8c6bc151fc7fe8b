"""`budgie look RUN --roles`: which head does what, since when, and what is lost without it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from budgerigar.errors import UserError

NOT_HERE = (
    "text", "out", "head", "layer", "grid", "link", "step", "surprise", "target", "prefix",
    "no_source", "gate", "unit", "analogy", "map", "words", "reach", "lens", "attribution",
)  # fmt: skip


def refuse(options: argparse.Namespace) -> None:
    """`UserError` where something of --roles stands without it."""
    if options.json:
        raise UserError("--json belongs to --roles here; the other views are pictures and text")
    for name in ("born", "how"):
        if getattr(options, name):
            raise UserError(f"--{name} belongs to --roles: what each head does")


def show(model: Any, options: argparse.Namespace) -> None:
    """The table, or with --json all numbers of all heads."""
    from budgerigar.cli.output import print_json

    others = [name for name in NOT_HERE if getattr(options, name, None) not in (None, False, [])]
    if others:
        flags = ["TEXT" if name == "text" else f"--{name.replace('_', '-')}" for name in others]
        raise UserError(
            f"--roles measures every head on texts of its own; give it without {' and '.join(flags)}"
        )
    found, explained = _found(model, options)
    if options.json:
        print_json(found.as_dict())
        return
    print(found)
    if not options.quiet and explained:
        print(f"\n{explained}", file=sys.stderr)


def _found(model: Any, options: argparse.Namespace) -> tuple[Any, str]:
    """What was asked for, and what explains it."""
    from budgerigar.api import heads
    from budgerigar.inspection.role_text import EXPLAINED

    if options.head_off:
        if options.born:
            raise UserError("--born and --head-off are two questions; ask one of them")
        of, kind = options.of, options.kind
        if model.translates and of is None and kind is None:
            kind = "cross"
        off = list(dict.fromkeys(options.head_off))
        return heads.switched(model, off, options.how, of, kind), ""
    if options.how or options.of or options.kind:
        raise UserError("--how, --of and --kind say of --head-off which heads, and what instead")
    if options.born:
        return heads.born(model), ""
    return heads.head_roles(model), EXPLAINED
