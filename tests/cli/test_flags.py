"""Flags made from a dataclass, by a small one written here."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

import pytest

from budgerigar.cli.flags import Parser, add_dataclass, field_lines, given, parse
from budgerigar.cli.table import Command
from budgerigar.errors import UserError


@dataclass(frozen=True)
class Settings:
    """A sample of every type that a flag can have."""

    n_heads: int = 4
    """heads, 100 % of them"""
    rate: float = 0.5
    """a rate"""
    window: int | None = None
    """positions; None: all"""
    norm: Literal["layer", "rms"] = "layer"
    """layer or rms"""
    scale: float | Literal["sqrt"] = "sqrt"
    """sqrt or a number"""
    tied: bool = True
    """tied or not"""
    no_source: bool = False
    """a switch whose name says no itself"""
    no_repeat: int = 0
    """a number whose name does"""
    name: str = "auto"
    """any text"""
    pair: tuple[int, int] = (0, 1)
    """a list: left to files"""


def read(*arguments: str) -> dict[str, object]:
    parser = Parser(allow_abbrev=False)
    add_dataclass(parser, Settings, "settings", "part")
    return given(parser.parse_args(list(arguments)), "part")


def test_only_what_was_typed_is_given() -> None:
    assert read() == {}
    assert read("--n-heads", "8") == {"n_heads": 8}


def test_each_type() -> None:
    assert read("--n-heads", "1_000", "--rate", "3e-4") == {"n_heads": 1000, "rate": 3e-4}
    assert read("--window", "none") == {"window": None}
    assert read("--window", "16") == {"window": 16}
    assert read("--norm", "rms") == {"norm": "rms"}
    assert read("--scale", "sqrt") == {"scale": "sqrt"}
    assert read("--scale", "0.125") == {"scale": 0.125}
    assert read("--no-tied") == {"tied": False}
    assert read("--no-source", "--no-repeat", "3") == {"no_source": True, "no_repeat": 3}
    assert read("--name", "x y") == {"name": "x y"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--n-heads", "2.5"], "not a whole number"),
        (["--rate", "fast"], "not a number"),
        (["--norm", "none"], "not one of layer, rms"),
        (["--pair", "1"], "pair"),
    ],
)
def test_wrong_values(arguments: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(*arguments)


def test_lines_become_help() -> None:
    assert field_lines(Settings)["n_heads"] == "heads, 100 % of them"
    parser = Parser(allow_abbrev=False)
    add_dataclass(parser, Settings, "settings", "part")
    page = " ".join(parser.format_help().split())
    assert "--n-heads N heads, 100 % of them [4]" in page
    assert "--window N positions; None: all" in page


class Module:
    """Stands for a command's module."""

    USES = ("seed",)

    @staticmethod
    def add_flags(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("words", nargs="*")


def test_text_after_two_dashes_may_start_with_one() -> None:
    options = parse(Command("x", "", ""), Module, ["a", "--seed", "3", "b", "--", "--quiet"])  # type: ignore[arg-type]
    assert options is not None
    assert options.words == ["a", "b", "--quiet"]
    assert options.seed == 3
    assert not options.quiet
