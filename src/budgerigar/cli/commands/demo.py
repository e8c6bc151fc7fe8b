"""The guided tour, under six minutes: a word game that a small GPT learns to win in half a minute
while you watch what it looks at; a translator that is trained as quickly, and the alignment that it
finds; then a real text. Stop any time with Ctrl-C; the next start goes on where it stopped. It keeps
what it makes under runs/demo-*.
"""

from __future__ import annotations

import argparse
from pathlib import Path

USES = ("out", "threads")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """How much of it."""
    parser.add_argument(
        "--quick", action="store_true", help="the word game and the translation only, two minutes"
    )


def run(options: argparse.Namespace) -> None:
    """Run the tour."""
    from budgerigar.experiments.demo import demo

    demo(quick=options.quick, folder=Path(options.out or "runs"), threads=options.threads)
