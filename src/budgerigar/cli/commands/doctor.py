"""Try the classic faults on a model's files and say which are there: tokens put twice or ends that
disagree, a template of another tokenizer, rotary pairs in another order, an output layer left random,
missing shards and tensors, numbers that overflowed, a context beyond training. Of a run's folder, a
Hugging Face folder or a GGUF file. The status is 0 for a healthy one, 1 where a fault was found, 2
where nothing could be examined.
"""

from __future__ import annotations

import argparse

USES = ("json",)
EXAMPLES = """examples:
  budgie doctor last
  budgie doctor model.gguf --text 'A sentence in the language of the model.'"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Of what."""
    parser.add_argument(
        "model", metavar="PATH", help="a run's or model's folder, a .gguf file, or a name"
    )
    parser.add_argument(
        "--text", metavar="TEXT", help="what perplexity is measured on [a few English sentences]"
    )


def run(options: argparse.Namespace) -> int:
    """Examine and print what was found."""
    from budgerigar import api

    found = api.doctor(options.model, options.text)
    if options.json:
        from budgerigar.cli.output import print_json

        print_json(found.as_dict())
    else:
        print("\n".join(found.lines()))
    return 0 if found.healthy else 1
