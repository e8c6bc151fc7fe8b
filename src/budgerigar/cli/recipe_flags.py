"""Flags of commands that train from a recipe: every setting of it, and files of sentence pairs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from budgerigar.cli.flags import add_dataclass, given, one_of
from budgerigar.errors import UserError

COMMON = ("seed", "device", "threads")  # settings that are flags of all commands
MODELS = {
    "transformer": "model (a Transformer)",
    "recurrent": "model (--kind recurrent, as in --recipe rnn, gru or lstm)",
    "feed-forward": "model (--kind feed-forward, as in the recipe of that name)",
    "ngram": "model (an n-gram, as in --recipe ngram)",
}
PAIR_FILES = (
    "source", "target", "pairs", "validation_source", "validation_target", "validation_pairs",
)  # fmt: skip


def add_pair_files(add: Callable[..., Any]) -> None:
    """Files of sentence pairs, to learn from and to validate on."""
    add(
        "--source", metavar="FILE", action="append", help="sentences to translate from (repeatable)"
    )
    add("--target", metavar="FILE", action="append", help="their translations, line by line")
    add("--pairs", metavar="FILE", action="append", help="both in one file: .tsv or JSON lines")
    add("--validation-source", metavar="FILE", action="append", help="pairs to validate on")
    add("--validation-target", metavar="FILE", action="append", help="their translations")
    add("--validation-pairs", metavar="FILE", action="append", help="both in one file")


def pair_files(options: argparse.Namespace) -> dict[str, list[str]]:
    """The files of sentence pairs that were named."""
    return {name: getattr(options, name) for name in PAIR_FILES if getattr(options, name)}


def check_pairs(options: argparse.Namespace) -> None:
    """A source needs its target."""
    for start in ("", "validation_"):
        source, target = (getattr(options, start + side) for side in ("source", "target"))
        if bool(source) == bool(target):
            continue
        named, missing = ("source", "target") if source else ("target", "source")
        flag = f"--{start.replace('_', '-')}"
        raise UserError(
            f"{flag}{named} needs {flag}{missing} beside it: line n of one is the translation of "
            "line n of the other. For both in one file there is "
            f"{flag}pairs"
        )


def add_settings(parser: argparse.ArgumentParser, skip: set[str]) -> None:
    """Every setting of text, training and model, but those that have another flag."""
    from budgerigar.models.configs import KINDS
    from budgerigar.training.recipe import TextRecipe, TrainingRecipe

    skip = {*skip, "minutes", *COMMON}
    add_dataclass(parser, TextRecipe, "text", "text", skip)
    add_dataclass(parser, TrainingRecipe, "training", "training", skip)
    parser.add_argument_group("model").add_argument(
        "--kind",
        dest="model.kind",
        default=argparse.SUPPRESS,
        type=one_of(KINDS),
        metavar="NAME",
        help=f"kind of model: {', '.join(KINDS)} [the recipe's]",
    )
    for name, config in KINDS.items():
        title = MODELS.get(name, f"model (--kind {name}, besides what it shares with those above)")
        add_dataclass(parser, config, title, "model", {"vocab_size"})


def typed_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that were typed, by part of the recipe."""
    parts = {part: given(options, part) for part in ("text", "training", "model")}
    for name in COMMON:
        if getattr(options, name) is not None:
            parts["training"][name] = getattr(options, name)
    return {part: values for part, values in parts.items() if values}
