"""What a text file is like, before training on it: encoding, line ends, odd characters, very long
lines, duplicates, and how it would split into documents, with line numbers. With --pairs the two
files are a source and its translation, line by line.
"""

from __future__ import annotations

import argparse

USES = ("json",)
EXAMPLES = """examples:
  budgie check my.txt
  budgie check --pairs train.zh train.en"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which files."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="text files")
    parser.add_argument("--pairs", action="store_true", help="two files, line by line")
    parser.add_argument("--encoding", metavar="NAME", help="their encoding, if not UTF-8")


def run(options: argparse.Namespace) -> int:
    """Check and print the report; the status is 2 where something must be mended first."""
    from budgerigar.api.data import check

    report = check(options.files, pairs=options.pairs, encoding=options.encoding)
    if options.json:
        from budgerigar.cli.output import print_json

        print_json(report.as_dict())
    else:
        print("\n".join(report.lines()))
    return 0 if report.ok else 2
