"""Fill the gaps of a text, each written [MASK], and print the likeliest guesses of each.

An encoder (--recipe bert-tiny) puts one token of its vocabulary into a gap, told from both sides; one
that learnt corrupted spans (--recipe t5-tiny) writes as many as it likes. The last line is the text
with the best filling of all gaps together.
"""

from __future__ import annotations

import argparse
from typing import Any

from budgerigar.cli.flags import whole_number
from budgerigar.cli.output import print_json, table

USES = ("device", "threads", "json")
EXAMPLES = """examples:
  budgie fill last "The [MASK] sat on the mat."
  budgie fill runs/bert-1 "My [MASK] lord, the [MASK] is here." --top-k 3
  budgie fill last "To be or [MASK] to be." --json"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which model, which text."""
    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    parser.add_argument("text", metavar="TEXT", help="a text with one or several [MASK]")
    parser.add_argument(
        "--top-k", type=whole_number, default=5, metavar="N", help="guesses of each gap [5]"
    )


def run(options: argparse.Namespace) -> None:
    """Load the model, fill, print."""
    from budgerigar import api

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    found = model.fill(options.text, top_k=options.top_k)
    if options.json:
        print_json(found.as_dict())
        return
    for number, gap in enumerate(found.gaps, 1):
        if len(found.gaps) > 1:
            print(f"gap {number}")
        print(table([_row(guess) for guess in gap.guesses]))
    print(found.text)


def _row(guess: Any) -> tuple[str, str]:
    """Probability and what is guessed; its space is not shown, a line end is."""
    text = guess.text.removeprefix(" ").replace("\n", "↵")
    return f"{guess.probability:.3f}", text or "␣"
