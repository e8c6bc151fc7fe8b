"""The page: type a sentence and see, live, what a model does with it: every head, every step of
attention, every number real. It is served to this machine alone and asks nothing of any other; the
browser opens by itself where there is a desktop. Without a RUN it shows the models of the demo.
Ctrl-C ends it.
"""

from __future__ import annotations

import argparse

from budgerigar.cli.flags import whole_number

USES = ("device", "threads")
EXAMPLES = """examples:
  budgie explore
  budgie explore last
  budgie explore runs/my-1 gpt2 --port 8000
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
    parser.add_argument("--no-open", action="store_true", help="open no browser")


def run(options: argparse.Namespace) -> None:
    """Load, print the address, serve until Ctrl-C."""
    from budgerigar.explorer.opening import explore

    explore(
        options.runs,
        device=options.device or "auto",
        threads=options.threads,
        host=options.host,
        port=options.port,
        browser=not options.no_open,
        say=lambda line: print(line, flush=True),
        debug=options.debug,
    )
