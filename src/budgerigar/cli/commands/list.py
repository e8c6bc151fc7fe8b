"""Corpora and models of the catalogue with size and licence, recipes, papers' shapes, and the runs
in this folder. LIST is corpora, models, recipes, papers or runs.
"""

from __future__ import annotations

import argparse
from typing import Any

USES = ("json",)
EXAMPLES = """examples:
  budgie list
  budgie list corpora      those with two languages are sentence pairs, to learn translating from
  budgie list models       made by others: budgie chat smollm2-135m-instruct"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which list."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=("corpora", "models", "recipes", "papers", "runs"),
        help="one list only",
        metavar="LIST",
    )


def run(options: argparse.Namespace) -> None:
    """Print each list as a small table."""
    from budgerigar.api.data import listing
    from budgerigar.cli.output import print_json, table

    lists = listing()
    if options.what:
        lists = {options.what: lists[options.what]}
    if options.json:
        print_json(lists)
        return
    blocks = []
    for title, entries in lists.items():
        rows = [(name, *_columns(title, entry)) for name, entry in entries.items()]
        blocks.append(f"{title}\n{table(rows) or '  none yet'}")
    print("\n\n".join(blocks))


def _columns(title: str, entry: dict[str, Any]) -> tuple[str, ...]:
    """What stands beside a name."""
    from budgerigar.cli.output import size

    if title == "corpora":
        languages = "-".join(entry["languages"].values())
        return size(entry["n_bytes"]), languages, entry["licence"], entry["title"]
    if title == "models":
        return size(entry["n_bytes"]), entry["licence"], entry["title"]
    return (str(entry.get("about") or entry.get("folder")).split("\n")[0],)
