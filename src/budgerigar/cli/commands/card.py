"""What a model is and what it costs, from shapes alone: layers, heads, widths, parameters counted,
memory, cache, arithmetic. Of a run, a model that others made (from the headers of its files), a
recipe, or a shape that a paper published.
"""

from __future__ import annotations

import argparse

from budgerigar.cli.flags import whole_number

USES = ("json",)
EXAMPLES = """examples:
  budgie card last
  budgie card shakespeare
  budgie card gpt3-175b
  budgie card smollm2-135m-instruct
  budgie card model.gguf"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Of what."""
    parser.add_argument(
        "thing",
        metavar="NAME",
        help="a run, a model's folder, file or name, a recipe, or a paper's shape",
    )
    parser.add_argument(
        "--vocab-size", type=whole_number, metavar="N", help="vocabulary to count a recipe with"
    )


def run(options: argparse.Namespace) -> None:
    """Print the card."""
    from budgerigar.api.cards import card

    found = card(options.thing, options.vocab_size)
    if options.json:
        from budgerigar.cli.output import print_json

        print_json(found.as_dict())
        return
    print(found.text())
