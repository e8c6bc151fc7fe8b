"""Why each part of the Transformer is there: the smallest real experiment without it and with it, the
problem, both results, a picture, the next problem. Everything is measured now; an effect that does
not appear is said not to.

PART is attention, heads, scale, positions, feed-forward, residual, mask, cross-attention or cache, each
under a minute; without one all nine run, some minutes, and end in one table. One more is run by its
name only: in-context, what the parts make possible together: a model uses a map of words that only
its text told it, from the step on at which an induction head appears. With --model it measures a
model that is there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

USES = ("out", "seed", "threads", "json")
EXAMPLES = """examples:
  budgie why scale
  budgie why residual --seed 3
  budgie why in-context
  budgie why in-context --model smollm2-135m-instruct
  budgie why --out why-pictures      all nine, and a PNG of each"""
MOST_COLUMNS = 96


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which part, and of which model."""
    parser.add_argument("part", nargs="?", metavar="PART", help="one part only (default: all nine)")
    parser.add_argument(
        "--model",
        metavar="RUN",
        help="in-context: measure this model instead of training a small one",
    )


def run(options: argparse.Namespace) -> None:
    """Run one experiment or all, show each as soon as it is done."""
    from budgerigar import progress
    from budgerigar.api import why
    from budgerigar.experiments.seeds import refuse_seed
    from budgerigar.experiments.why import checked

    seed = 1 if options.seed is None else options.seed
    refuse_seed(seed)  # before a folder is made
    if options.part:
        checked(options.part)
    folder = _folder(options.out)
    show = None if options.json else _shower()

    def watch(result: Any) -> None:
        picture = result.picture(folder / f"{result.part}.png") if folder else None
        if show is not None:
            show(result, picture)

    if options.part:
        try:
            result = why(options.part, seed, model=options.model, watch=watch)
        except UserError:  # a model that is not there: leave no empty folder
            if folder is not None and not any(folder.iterdir()):
                folder.rmdir()
            raise
        if options.json:
            _print_json(result.as_dict())
        progress.note(f"next: budgie why{_after(result, options.model)}")
        return
    results = why(seed=seed, model=options.model, watch=watch)
    if options.json:
        _print_json({"seed": seed, "parts": [result.as_dict() for result in results]})
    else:
        _table(results)
    progress.note("next: budgie train my.txt, with all of them; budgie why PART for one again")


def _after(result: Any, model: str | None) -> str:
    if result.following:
        return f" {result.following}"
    if result.part == "in-context" and model is None:
        return " in-context --model smollm2-135m-instruct, a real one"
    return ", all nine in one table"


def _folder(out: str | None) -> Path | None:
    if out is None:
        return None
    folder = Path(out)
    if folder.suffix.lower() in (".png", ".svg", ".pdf", ".html"):
        raise UserError(
            f"--out {out}: the pictures go into a folder, each named after its part; give a folder's "
            f"name, such as --out {folder.stem}"
        )
    if folder.exists():
        raise UserError(f"{folder} exists already; choose another --out or remove it")
    folder.mkdir(parents=True)
    return folder


def _shower() -> Any:
    from rich.console import Console
    from rich.text import Text

    from budgerigar.api import why_screen

    console = Console(highlight=False)
    width = min(console.width, MOST_COLUMNS)

    def show(result: Any, picture: Path | None) -> None:
        rule = "─" * max(2, width - len(result.part) - 8)
        console.print(
            Text.assemble(("── ", "dim"), (f"why {result.part}", "bold"), (f" {rule}", "dim"))
        )
        console.print()
        console.print(why_screen(result, width), width=width)
        if picture is not None:
            console.print(f"picture: {picture}", markup=False)
        console.print()

    return show


def _table(results: Any) -> None:
    from rich.console import Console

    from budgerigar.api import why_table

    Console(highlight=False).print(why_table(results))
    held = sum(result.held for result in results)
    seconds = sum(result.seconds for result in results)
    print(f"{held} of {len(results)} held, in {seconds:.0f} s")


def _print_json(value: Any) -> None:
    from budgerigar.cli.output import print_json

    print_json(value)
