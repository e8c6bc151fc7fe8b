"""Train a model on a text, a translator on pairs of sentences, or go on with one.

With no option but the file, the machine is measured for a second, the plan is printed (documents,
tokenizer, model size, minutes, the loss to expect) and training starts. Each of these overrides
the one before: the recipe, the --config file, the flags. The result is a folder under runs/.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from budgerigar.cli.flags import number
from budgerigar.cli.recipe_flags import (
    add_pair_files,
    add_settings,
    check_pairs,
    pair_files,
    typed_settings,
)
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
  budgie train --source a.de --target a.en           learn to translate: line n belongs to line n
  budgie train --pairs deu.tsv --columns 2,1         the same from one file, tab between the two
  budgie train --corpus multi30k --source-language en --target-language de
  budgie train --recipe stories-zh-en                a translator within a minute, generated pairs
  budgie train --resume last                         go on where it stopped
  budgie train --resume last --out runs/longer --steps 9000
                                                     branch off where the rate began to fall
  budgie train new.txt --from runs/my-1              fine-tune on another text
  budgie train new.txt --from model.gguf --lora 8    adapters beside a model that stays as it is
  budgie train my.txt --recipe bert-tiny             an encoder that fills in words
  budgie train questions.tsv --classify --from last  which class a text is of, on top of it
  budgie train my.txt --pairs tasks.tsv --recipe t5-tiny
                                                     spans of a text, and tasks told by a prefix"""

STOPPED = 130  # as a shell says of a command that Ctrl-C ended


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What to learn from, and every setting of text, training and model."""
    parser.add_argument("files", metavar="FILE", nargs="*", help="text files, or a folder of them")
    add = parser.add_argument_group("what to start from").add_argument
    add_pair_files(add)
    add(
        "--classify",
        action="store_true",
        help="FILE is a table of labels and texts: tell them apart",
    )
    add("--corpus", metavar="NAME", help='a corpus of `budgie list`, or "stories" (generated)')
    add("--recipe", metavar="NAME", help="a recipe of `budgie list`, or a TOML file")
    add("--config", metavar="FILE", help="a TOML file whose settings override the recipe's")
    add("--resume", metavar="RUN", help="go on with a run, bit by bit as if it had not stopped")
    add(
        "--from",
        dest="start_from",
        metavar="RUN",
        help="start from the weights of another run or model",
    )
    add("--minutes", metavar="X", type=number, help="time budget [the recipe's; 10 without one]")
    add_settings(parser, {"corpus"})


def run(options: argparse.Namespace) -> int:
    """Train; the folder goes to stdout, everything on the way to stderr. 130: it was stopped."""
    files = options.files
    settings = typed_settings(options)
    if options.classify:
        settings.setdefault("training", {})["objective"] = "classification"
    _check(options, files, settings)

    from budgerigar import api

    run = api.train(
        *files,
        **pair_files(options),
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
        print(_next(run), file=sys.stderr)
    return 0


def _next(run: Any) -> str:
    """What to type now."""
    from budgerigar import api

    if run.model.role == "fill-in" or api.fills_spans(run.model):
        return (
            f'next: budgie fill {run.folder} "…a word or [MASK]…"    budgie evaluate {run.folder}'
        )
    if run.model.role == "classes":
        return f"next: budgie evaluate {run.folder} [FILE.tsv]    budgie classify {run.folder} TEXT"
    if run.model.role == "vectors":
        word = run.model.words[min(100, len(run.model.words) - 1)].strip()
        look = f"budgie look {run.folder}"
        return f"next: {look} {word}    {look} --map words.png"
    verb = "translate" if run.model.translates else "generate"
    return f"next: budgie {verb} {run.folder}    budgie look {run.folder} 'a line of text'"


def _check(options: argparse.Namespace, files: list[str], settings: dict[str, Any]) -> None:
    """Refuse combinations without meaning before anything is read."""
    pairs = [f"--{name.replace('_', '-')}" for name in pair_files(options)]
    if options.resume:
        others = [("FILE", files), ("--corpus", options.corpus), ("--recipe", options.recipe)]
        others += [("--config", options.config), ("--from", options.start_from)]
        clash = [name for name, value in others if value] + pairs
        if clash:
            raise UserError(
                f"--resume goes on with a run as it was asked for, so {', '.join(clash)} cannot be "
                "given with it. To start from its weights on something else, use --from."
            )
    check_pairs(options)
    if (files or pairs) and options.corpus:
        raise UserError("give files or --corpus, not both")
    named = files or pairs or options.corpus or options.resume or options.recipe or options.config
    if not named:
        raise UserError(
            "what shall it learn from? A text file (budgie train my.txt), a text and its "
            "translation (budgie train --source a.de --target a.en), a corpus (budgie train "
            "--corpus shakespeare) or nothing but generated stories (budgie train --recipe stories)"
        )
