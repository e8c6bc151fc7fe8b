"""Loss, bits per byte, perplexity and accuracy of a model on its validation text or on a file.

Every token but the first is scored once, in consecutive windows of the context length (the
windowed figure). With --streaming the state is carried through the whole text, and that figure
stands beside the windowed one.
"""

from __future__ import annotations

import argparse

from budgerigar.cli.output import count, print_json, table

USES = ("device", "threads", "json")
EXAMPLES = """examples:
  budgie evaluate last
  budgie evaluate runs/shakespeare-1 other_play.txt --streaming
  budgie evaluate last --json"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which model, which text."""
    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a text; without one, the run's validation text"
    )
    parser.add_argument("--encoding", metavar="NAME", help="encoding of FILE, if not UTF-8")
    parser.add_argument(
        "--streaming", action="store_true", help="also with the state carried through the text"
    )


def run(options: argparse.Namespace) -> None:
    """Evaluate and print one row per way of reading."""
    from budgerigar import api

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    results = {"windowed": model.evaluate(options.file, encoding=options.encoding)}
    if options.streaming:
        results["streaming"] = model.evaluate(
            options.file, streaming=True, encoding=options.encoding
        )
    if options.json:
        print_json({"run": str(model.folder), "text": options.file or "validation", **results})
        return
    print(f"{model.folder} on {options.file or 'its validation text'}")
    rows: list[tuple[str, ...]] = [("", *results)]
    for label, name, form in ROWS:
        values = [form(getattr(result, name)) for result in results.values()]
        rows.append((label, *values))
    print(table(rows))


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


ROWS = (
    ("nats per token", "nats_per_token", _nats),
    ("standard error", "standard_error", _nats),
    ("nats per character", "nats_per_character", _nats),
    ("bits per byte", "bits_per_byte", _nats),
    ("perplexity per token", "perplexity", lambda value: f"{value:,.2f}"),
    ("next token right", "accuracy", lambda value: f"{100 * value:.1f} %"),
    ("tokens scored", "n_tokens", count),
)
