"""Train a model on a text, or go on with one.

With no option but the file, the machine is measured for a second, the plan is printed (documents,
tokenizer, model size, minutes, the loss to expect) and training starts. Each of these overrides
the one before: the recipe, the --config file, the flags. The result is a folder under runs/.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from budgerigar.cli.flags import add_dataclass, given, number
from budgerigar.errors import UserError

USES = ("out", "device", "seed", "threads")
EXAMPLES = """A flag that is not given leaves the recipe's value; [in brackets]: the value without one.
Settings that are lists or tables (filler_words, layers, rotary_scaling) go into a
--config FILE.toml, with the parts [text], [model] and [training].

examples:
  budgie train my.txt                                plan, train 10 minutes
  budgie train poems/ --minutes 30 --out runs/poems  every file of a folder is a document
  budgie train --corpus shakespeare --recipe shakespeare
  budgie train my.txt --n-layers 6 --d-model 192 --norm rms --activation swiglu
  budgie train --resume last                         go on where it stopped
  budgie train new.txt --from runs/my-1              fine-tune on another text"""

STOPPED = 130  # as a shell says of a command that Ctrl-C ended
BY_FLAG = {"minutes", "seed", "device", "threads", "corpus"}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What to learn from, and every setting of text, training and model."""
    from budgerigar.layers.config import TransformerConfig
    from budgerigar.models.configs import NgramConfig
    from budgerigar.training.recipe import TextRecipe, TrainingRecipe

    parser.add_argument("files", metavar="FILE", nargs="*", help="text files, or a folder of them")
    add = parser.add_argument_group("what to start from").add_argument
    add("--corpus", metavar="NAME", help='a corpus of `budgie list`, or "stories" (generated)')
    add("--recipe", metavar="NAME", help="a recipe of `budgie list`, or a TOML file")
    add("--config", metavar="FILE", help="a TOML file whose settings override the recipe's")
    add("--resume", metavar="RUN", help="go on with a run, bit by bit as if it had not stopped")
    add("--from", dest="start_from", metavar="RUN", help="start from the weights of another run")
    add("--minutes", metavar="X", type=number, help="time budget [the recipe's; 10 without one]")
    add_dataclass(parser, TextRecipe, "text", "text", BY_FLAG)
    add_dataclass(parser, TrainingRecipe, "training", "training", BY_FLAG)
    add_dataclass(parser, TransformerConfig, "model (a Transformer)", "model", {"vocab_size"})
    add_dataclass(
        parser, NgramConfig, "model (an n-gram, as in --recipe ngram)", "model", NGRAM_SKIP
    )


NGRAM_SKIP = {"vocab_size"}


def run(options: argparse.Namespace) -> int:
    """Train; the folder goes to stdout, everything on the way to stderr. 130: it was stopped."""
    files = options.files
    settings = _settings(options)
    _check(options, files, settings)

    from budgerigar import api

    run = api.train(
        *files,
        corpus=options.corpus,
        recipe=options.recipe,
        config=options.config,
        minutes=options.minutes,
        out=options.out,
        resume=options.resume,
        start_from=options.start_from,
        settings=settings,
    )
    print(run.folder)
    if not run.report["finished"]:
        return STOPPED
    if not options.quiet:
        print(
            f"next: budgie generate {run.folder}    budgie look {run.folder} 'a line of text'",
            file=sys.stderr,
        )
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that were typed, by part of the recipe."""
    parts = {part: given(options, part) for part in ("text", "training", "model")}
    for name in ("seed", "device", "threads"):
        if getattr(options, name) is not None:
            parts["training"][name] = getattr(options, name)
    return {part: values for part, values in parts.items() if values}


def _check(options: argparse.Namespace, files: list[str], settings: dict[str, Any]) -> None:
    """Refuse combinations without meaning before anything is read."""
    if options.resume:
        others = [("FILE", files), ("--corpus", options.corpus), ("--recipe", options.recipe)]
        others += [("--config", options.config), ("--from", options.start_from)]
        clash = [name for name, value in [*others, ("--out", options.out)] if value]
        if clash:
            raise UserError(
                f"--resume goes on with a run as it was asked for, so {', '.join(clash)} cannot be "
                "given with it. To start from its weights on something else, use --from."
            )
    if files and options.corpus:
        raise UserError("give files or --corpus, not both")
    if not (files or options.corpus or options.resume or options.recipe or options.config):
        raise UserError(
            "what shall it learn from? A text file (budgie train my.txt), a corpus "
            "(budgie train --corpus shakespeare) or nothing but generated stories "
            "(budgie train --recipe stories)"
        )
