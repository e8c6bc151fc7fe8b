"""Vary settings of a recipe, each combination over several seeds, and see what is more than noise.

Every cell of the matrix reads the same text in the same budget and is scored on the whole validation
split. A table gives mean and deviation over seeds, the difference to the base (the recipe's own
values) with its 95 % interval, paired by seed, and whether it is larger than the noise, all
comparisons considered. Pictures, a page and CSV come along in the output folder, every run is kept
there, and the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from budgerigar.cli.flags import number, whole_number
from budgerigar.cli.output import print_json
from budgerigar.cli.recipe_flags import (
    add_pair_files,
    add_settings,
    check_pairs,
    pair_files,
    typed_settings,
)
from budgerigar.errors import UserError

USES = ("out", "device", "seed", "threads", "json")
EXAMPLES = """examples:
  budgie ablate shakespeare my.txt --dial positions=rotary,learned,none --steps 300
  budgie ablate shakespeare my.txt --dial positions=rotary,alibi --dial norm_place=pre,post
                                                     the matrix of both; its dials' effects, too
  budgie ablate shakespeare --dial n_layers=2,4,6 --minutes 2 --seeds 5
                                                     equal time; the recipe's own corpus
  budgie ablate shakespeare my.txt --dial training.learning_rate=0.003,0.01 \\
      --dial activation=gelu,swiglu --one-at-a-time  each dial alone, against the recipe
  budgie ablate shakespeare my.txt --dial activation=gelu,swiglu --equal-parameters
                                                     d_ff chosen so that all have as many weights
  budgie ablate stories-zh-en --dial norm_place=pre,post --steps 400
                                                     a translator: losses, and BLEU beside them"""
STOPPED = 130  # as a shell says of a command that Ctrl-C ended


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which settings over which values, on what, for how long."""
    parser.add_argument("recipe", metavar="RECIPE", help="of `budgie list`, or a TOML file")
    parser.add_argument("files", metavar="FILE", nargs="*", help="the text [the recipe's corpus]")
    add = parser.add_argument_group("the ablation").add_argument
    add(
        "--dial",
        metavar="NAME=A,B",
        action="append",
        help="a setting of model or training, and its values (repeatable: all combinations)",
    )
    add("--seeds", metavar="N", type=whole_number, default=3, help="runs of each cell [3]")
    add("--minutes", metavar="X", type=number, help="of training for each run, not --steps")
    add("--one-at-a-time", action="store_true", help="vary each dial alone, not all combinations")
    add(
        "--equal-parameters",
        action="store_true",
        help="give each cell the d_ff (d_hidden) with which it has as many weights as the base",
    )
    add("--corpus", metavar="NAME", help="a corpus of `budgie list` instead of the recipe's")
    add("--config", metavar="FILE", help="a TOML file whose settings override the recipe's")
    add_pair_files(add)
    add_settings(parser, {"corpus"})


def run(options: argparse.Namespace) -> int:
    """Ablate and print."""
    dials = _dials(options.dial or [])
    check_pairs(options)

    from budgerigar import api
    from budgerigar.experiments.demo_runs import StoppedError

    try:
        found = api.ablate(
            options.recipe,
            dials,
            *options.files,
            **pair_files(options),
            seeds=options.seeds,
            minutes=options.minutes,
            one_at_a_time=options.one_at_a_time,
            equal_parameters=options.equal_parameters,
            corpus=options.corpus,
            config=options.config,
            out=options.out,
            settings=typed_settings(options),
        )
    except StoppedError as stop:
        print(f"stopped, and saved in {stop}; the same command goes on there", file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt:  # between two runs
        print("stopped; the same command goes on after the runs that are done", file=sys.stderr)
        return STOPPED
    if options.json:
        print_json(found.as_dict())
    else:
        print(found)
        print(f"page, pictures, tables and runs: {found.folder}")
    return 0


def _dials(typed: list[str]) -> dict[str, Any]:
    """NAME=A,B of each flag."""
    found: dict[str, Any] = {}
    for text in typed:
        name, equals, values = text.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--dial {text}: it must be NAME=A,B, as in --dial norm_place=pre,post")
        if name in found:
            raise UserError(f"--dial {name} is given twice; put its values into one: {name}=A,B,C")
        found[name] = values
    if not found:
        raise UserError(
            "what shall be varied? --dial NAME=A,B with a setting of the recipe's model or training, "
            "as in --dial positions=rotary,learned --dial norm_place=pre,post"
        )
    return found
