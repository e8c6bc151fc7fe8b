"""Fetch a corpus or a model of the catalogue into the cache, verified by its SHA-256.

An interrupted download goes on where it stopped; one that was tampered with leaves nothing.
"""

from __future__ import annotations

import argparse

USES = ("json",)
EXAMPLES = """examples:
  budgie get shakespeare
  budgie train --corpus shakespeare      fetches it too
  budgie get multi30k                    sentence pairs: a file per language and split
  budgie get minilm-l6                   a model: RUN of every other command may be its name"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Names of the catalogue."""
    parser.add_argument("names", metavar="NAME", nargs="+", help="see `budgie list`")


def run(options: argparse.Namespace) -> None:
    """Fetch each and print where its files lie."""
    from budgerigar import api
    from budgerigar.text.model_catalogue import FetchedModel

    found = {name: api.get(name) for name in options.names}
    if options.json:
        from budgerigar.cli.output import print_json

        print_json({name: one.files for name, one in found.items()})
        return
    for name, one in found.items():
        if isinstance(one, FetchedModel):
            print(f"{name}  {one.path}")
            continue
        for part, path in one.files.items():
            print(f"{name}  {part}  {path}")
