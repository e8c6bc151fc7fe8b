"""`budgie look RUN --roles`: which head does what."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from budgerigar.errors import UserError

NOT_HERE = (
    "text", "out", "head", "layer", "grid", "link", "step", "surprise", "head_off", "target", "prefix",
    "no_source", "kind", "of", "gate", "unit", "analogy", "map", "words", "reach",
)  # fmt: skip


def refuse(options: argparse.Namespace) -> None:
    """`UserError` where --json stands without --roles."""
    if options.json:
        raise UserError("--json belongs to --roles here; the other views are pictures and text")


def show(model: Any, options: argparse.Namespace) -> None:
    """The table, or with --json all numbers of all heads."""
    from budgerigar import api
    from budgerigar.cli.output import print_json
    from budgerigar.inspection.role_text import EXPLAINED

    others = [name for name in NOT_HERE if getattr(options, name) not in (None, False, [])]
    if others:
        flags = ["TEXT" if name == "text" else f"--{name.replace('_', '-')}" for name in others]
        raise UserError(
            f"--roles measures every head on texts of its own; give it without {' and '.join(flags)}"
        )
    found = api.head_roles(model)
    if options.json:
        print_json(found.as_dict())
        return
    print(found)
    if not options.quiet:
        print(f"\n{EXPLAINED}", file=sys.stderr)
