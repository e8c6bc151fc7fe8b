"""Tell which class each text is of, with its probability: a line for each text, tabs between.

The texts are the arguments, the lines of --file, or those of stdin. `budgie evaluate RUN FILE.tsv`
scores a classifier on texts whose labels are known.
"""

from __future__ import annotations

import argparse

from budgerigar.cli.lines import add_text_flags, given_texts
from budgerigar.errors import UserError

USES = ("device", "threads", "json")
EXAMPLES = """examples:
  budgie classify last "How far is it from Denver to Aspen ?"
  budgie classify runs/trec-1 --file questions.txt > answers.tsv
  budgie classify last "Who was Galileo ?" --all"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which model, which texts."""
    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    add_text_flags(parser, "classify")
    parser.add_argument("--all", action="store_true", help="the probability of every class")


def run(options: argparse.Namespace) -> None:
    """Load the model, classify what there is, print line by line."""
    lines = [line for line in given_texts(options) if line.strip()]

    from budgerigar import api

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    classifier = api.need_classifier(model)
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
