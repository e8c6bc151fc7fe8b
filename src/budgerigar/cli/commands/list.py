"""Corpora of the catalogue with size and licence, recipes, and the runs in this folder."""

from __future__ import annotations

import argparse

USES = ("json",)
EXAMPLES = """examples:
  budgie list
  budgie list corpora"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which list."""
    parser.add_argument(
        "what", nargs="?", choices=("corpora", "recipes", "runs"), help="one list only"
    )


def run(options: argparse.Namespace) -> None:
    """Print each list as a small table."""
    from budgerigar.api.data import listing
    from budgerigar.cli.output import print_json, size, table

    lists = listing()
    if options.what:
        lists = {options.what: lists[options.what]}
    if options.json:
        print_json(lists)
        return
    blocks = []
    for title, entries in lists.items():
        if title == "corpora":
            rows = [
                (name, size(e["bytes"]) if e.get("bytes") else "", e.get("licence", ""), e["about"])
                for name, e in entries.items()
            ]
        elif title == "recipes":
            rows = [(name, e["about"].split("\n")[0]) for name, e in entries.items()]
        else:
            rows = [(name, str(e["folder"])) for name, e in entries.items()]
        blocks.append(f"{title}\n{table(rows) or '  none yet'}")
    print("\n\n".join(blocks))
