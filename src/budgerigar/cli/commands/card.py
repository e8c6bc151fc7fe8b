"""What a model is and what it costs, from shapes alone: layers, heads, widths, parameters counted,
memory, cache, arithmetic. Of a run, a recipe, or a shape that a paper published.
"""

from __future__ import annotations

import argparse
from typing import Any

from budgerigar.cli.flags import whole_number

USES = ("json",)
EXAMPLES = """examples:
  budgie card last
  budgie card shakespeare
  budgie card gpt3-175b"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Of what."""
    parser.add_argument(
        "thing", metavar="NAME", help="a run's folder, a recipe, or a paper's shape"
    )
    parser.add_argument(
        "--vocab-size", type=whole_number, metavar="N", help="vocabulary to count a recipe with"
    )


def run(options: argparse.Namespace) -> None:
    """Print the card."""
    from budgerigar.api.cards import card
    from budgerigar.cli.output import print_json, table

    found = card(options.thing, options.vocab_size)
    if options.json:
        print_json(found)
        return
    print(found.name + (f": {found.about}" if found.about else ""))
    print(table([(name, _words(value)) for name, value in found.facts.items()]))
    if found.costs:
        print("\n" + table(_cost_rows(found.costs)))
    if found.training:
        print("\n" + table([(name, _words(value)) for name, value in found.training.items()]))


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cost_rows(costs: dict[str, Any]) -> list[tuple[str, str]]:
    from budgerigar.cli.output import count, size

    total = costs["parameters"]
    rows = [("parameters", f"{count(total)}  ({total:,})")]
    for part, n in sorted(costs["parts"].items(), key=lambda item: -item[1]):
        rows.append((f"  {part}", f"{count(n)}  {100 * n / total:.1f} %"))
    rows.append(("weights", f"{size(costs['weights_bytes_bfloat16'])} in bfloat16"))
    training = size(costs["training_bytes_float32"])
    rows.append(
        ("training", f"{training} (float32 weights, gradients, two moments), activations besides")
    )
    if costs["cache_bytes_per_token_bfloat16"]:
        token = size(costs["cache_bytes_per_token_bfloat16"])
        full = size(costs["cache_bytes_full_context_bfloat16"])
        rows.append(("KV cache", f"{token} per token, {full} for a full context (bfloat16)"))
    flops = costs["flops_per_token"]
    rows.append(
        (
            "arithmetic",
            f"{count(flops)} FLOP per token forward, {count(3 * flops)} FLOP to train on it",
        )
    )
    rows.append(("attention", costs["attention"]))
    return rows
