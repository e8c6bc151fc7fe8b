"""Tell which class each text is of, with its probability: a line for each text, tabs between.

The texts are the arguments, the lines of --file, or those of stdin. `budgie evaluate RUN FILE.tsv`
scores a classifier on texts whose labels are known.
"""

from __future__ import annotations

import argparse
import sys

from budgerigar.errors import UserError

USES = ("device", "threads", "json")
EXAMPLES = """examples:
  budgie classify last "How far is it from Denver to Aspen ?"
  budgie classify runs/trec-1 --file questions.txt > answers.tsv
  budgie classify last "Who was Galileo ?" --all"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which model, which texts."""
    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="a text")
    parser.add_argument("--file", metavar="FILE", help="classify the lines of a file")
    parser.add_argument(
        "--encoding", metavar="NAME", help="encoding of that file or of stdin, if not UTF-8"
    )
    parser.add_argument("--all", action="store_true", help="the probability of every class")


def run(options: argparse.Namespace) -> None:
    """Load the model, classify what there is, print line by line."""
    if options.texts and options.file:
        raise UserError("give the texts as arguments or with --file, not both")

    from budgerigar import api

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    classifier = api.need_classifier(model)
    lines = [line for line in _lines(options) if line.strip()]
    if not lines:
        raise UserError("there is no text to classify: give it as an argument, or with --file")
    found = classifier.classify(lines)
    if options.json:
        from budgerigar.cli.output import print_json

        print_json({"texts": [one.as_dict() for one in found]})
        return
    for one in found:
        shown = one.classes if options.all else one.classes[:1]
        print("\t".join([*(f"{name} {p:.3f}" for name, p in shown), one.text]))


def _lines(options: argparse.Namespace) -> list[str]:
    """The texts, from the one place that holds some; a blank line is none."""
    from budgerigar.text.reading import decode_text, read_text

    if options.texts:
        return list(options.texts)
    if options.file:
        return read_text(options.file, options.encoding).split("\n")
    if sys.stdin is None or sys.stdin.isatty():
        return []
    if not hasattr(sys.stdin, "buffer"):  # text put in its place by a program
        return sys.stdin.read().split("\n")
    return decode_text(sys.stdin.buffer.read(), "stdin", options.encoding).split("\n")
