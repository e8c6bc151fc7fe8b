"""The page: type a sentence and see, live, what a model does with it: every head, every step of
attention, every number real. It is served to this machine alone and asks nothing of any other; the
browser opens by itself where there is a desktop. Without a RUN it shows the models of the demo. The
lesson is on it: why each part of a Transformer is there, in eight pages. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import os
import sys

from budgerigar.cli.flags import whole_number
from budgerigar.errors import UserError

USES = ("device", "threads")
EXAMPLES = """examples:
  budgie explore
  budgie explore last
  budgie explore runs/my-1 gpt2 --port 8000
  budgie explore last --tour my-tour.md
  budgie explore last --site public --text "the cat sat on the mat"
  budgie explore last --no-open     the address alone, as over ssh -L 7007:127.0.0.1:7007"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which models, and where."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="models to look into, side by side")
    parser.add_argument(
        "--port",
        type=whole_number,
        metavar="N",
        help="of the address; 0: any that is free [7007, or any that is free where it is taken]",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="NAME",
        help="127.0.0.1, localhost or ::1: this machine [127.0.0.1]",
    )
    parser.add_argument(
        "--tour",
        metavar="FILE",
        action="append",
        default=[],
        help="a walk-through of your own, a text file (the README says how to write one)",
    )
    parser.add_argument(
        "--site",
        metavar="DIR",
        help="serve nothing: write the page into a folder, for any web server; an older site there "
        "is replaced",
    )
    parser.add_argument(
        "--text",
        metavar="TEXT",
        action="append",
        default=[],
        help="--site: a sentence that its models read (repeatable) [the lesson's sentences]",
    )
    parser.add_argument("--no-open", action="store_true", help="open no browser")


def run(options: argparse.Namespace) -> None:
    """Load, print the address, serve until Ctrl-C."""
    if options.site is not None:
        _write(options)
        return
    if options.text:
        raise UserError("--text is for --site DIR; on the page itself any text can be typed")
    from budgerigar.explorer.opening import explore

    rests = explore(
        options.runs,
        device=options.device or "auto",
        threads=options.threads,
        host=options.host,
        port=options.port,
        browser=not options.no_open,
        say=lambda line: print(line, flush=True),
        debug=options.debug,
        tours=options.tour,
    )
    if not rests:
        _end_now()


def _end_now() -> None:
    """End the process while a model computes: leaving in order would wait for it, or end in a crash."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)


def _write(options: argparse.Namespace) -> None:
    """The page as files."""
    from budgerigar.explorer.site import site
    from budgerigar.progress import note

    folder = site(
        options.site,
        options.runs,
        options.text,
        own_tours=options.tour,
        device=options.device or "auto",
        threads=options.threads,
    )
    print(folder / "index.html")
    note(f"any web server shows it, for example: python -m http.server --directory {folder}")
