"""Flags: the ones that mean the same everywhere, and those made from the fields of a dataclass.

A dataclass field becomes a flag of the same name with dashes; the line below the field is its
help. Only flags that were typed are passed on, so that a recipe's own values stay as they are.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from budgerigar.cli.table import Command
from budgerigar.errors import UserError

COMMON = ("out", "device", "seed", "threads", "json", "quiet", "debug")


class Parser(argparse.ArgumentParser):
    """Raises `UserError` where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the flags are explained."""
        needed = [a.metavar for a in self._positionals._group_actions if a.nargs not in ("*", "?")]
        if message.startswith(
            "the following arguments are required"
        ):  # it also lists optional ones
            message = f"{' and '.join(map(str, needed))} must be given"
        raise UserError(f"{message}. `{self.prog} --help` explains the flags.")


def parse(command: Command, module: ModuleType, arguments: list[str]) -> argparse.Namespace | None:
    """Read a command's arguments; None when its help was asked for and printed.

    `module` has `add_flags(parser)`, `USES` (the common flags with an effect there), and maybe
    `EXAMPLES`, a few lines to type that end the help page.
    """
    parser = Parser(
        prog=f"budgie {command.name}",
        usage=f"budgie {command.name} {command.usage} [flags]".replace("  ", " "),
        description=(module.__doc__ or "").strip(),
        epilog=getattr(module, "EXAMPLES", None),
        formatter_class=_formatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser._positionals.title = "arguments"
    module.add_flags(parser)
    _add_common(parser, module.USES)
    before, after = _split_at_dashes(arguments)
    if "-h" in before or "--help" in before:
        parser.print_help()
        return None
    options, extra = parser.parse_known_intermixed_args(before + after)
    _refuse_unknown(parser, extra)
    for name in COMMON:
        if name not in (*module.USES, "quiet", "debug") and _given(options, name):
            print(f"note: --{name} has no effect on `budgie {command.name}`", file=sys.stderr)
    return options


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=100)


def _split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What comes before `--` may hold flags; what follows is text, whatever it starts with."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at:]


def _given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name, None) not in (None, False)


def _refuse_unknown(parser: argparse.ArgumentParser, extra: list[str]) -> None:
    """An argument that fits nowhere is an error that names the flags nearest to it."""
    if not extra:
        return
    flags = [word for word in extra if word.startswith("-")]
    if not flags:
        hint = ""
        if any(action.metavar == "TEXT" for action in parser._positionals._group_actions):
            hint = "; a text of several words needs quotes around it"
        raise UserError(f"{parser.prog} takes no further argument {extra[0]!r}{hint}")
    wrong = flags[0].split("=")[0]
    known = [option for action in parser._actions for option in action.option_strings]
    near = get_close_matches(wrong, known, n=3, cutoff=0.55)
    hint = f" Near it: {', '.join(near)}." if near else ""
    raise UserError(
        f"{parser.prog} has no flag {wrong}.{hint} `{parser.prog} --help` lists them; "
        "a text that starts with a dash goes after --"
    )


def _add_common(parser: argparse.ArgumentParser, uses: Iterable[str]) -> None:
    """The flags that mean the same everywhere; those without effect are taken but not shown."""
    group = parser.add_argument_group("everywhere")

    def add(name: str, help_text: str, **settings: Any) -> None:
        shown = name in uses or name in ("quiet", "debug")
        group.add_argument(f"--{name}", help=help_text if shown else argparse.SUPPRESS, **settings)

    add("out", "where the result goes (a new file or folder)", metavar="PATH")
    add("device", "auto, cpu, cuda, cuda:1 or mps", metavar="NAME")
    add("seed", "seed of every random draw", type=whole_number, metavar="N")
    add("threads", "CPU threads: a number, or auto", type=_threads, metavar="N")
    add("json", "one JSON object on stdout", action="store_true")
    add("quiet", "no progress and no remarks", action="store_true")
    add("debug", "show the traceback of an error", action="store_true")
    group.add_argument("-h", "--help", action="store_true", help="this page")


def whole_number(text: str) -> int:
    """An int, or an error in plain words (also `1_000` and `1e3`)."""
    try:
        value = float(text) if "e" in text.lower() else int(text)
        if value == int(value):
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")


def number(text: str) -> float:
    """A float, or an error in plain words."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


MOST_THREADS = 1024  # beyond what machines have, the thread library itself gives up


def _threads(text: str) -> int | str:
    if text == "auto":
        return text
    value = whole_number(text)
    if not 1 <= value <= MOST_THREADS:
        raise argparse.ArgumentTypeError(f"threads must be from 1 to {MOST_THREADS}, or auto")
    return value


# -- flags made from a dataclass -----------------------------------------------------------------


def add_dataclass(
    parser: argparse.ArgumentParser,
    kind: type,
    title: str,
    prefix: str,
    skip: Iterable[str] = (),
) -> None:
    """A group of flags, one per field of `kind`; given ones are stored as `prefix.field`.

    Fields whose values are themselves structures (tables, lists of tables) are left to files.
    """
    group = parser.add_argument_group(title)
    hints, lines = get_type_hints(kind), field_lines(kind)
    taken = {option for action in parser._actions for option in action.option_strings}
    for field in dataclasses.fields(kind):
        flag = f"--{field.name.replace('_', '-')}"
        if field.name in skip or flag in taken:
            continue
        settings = _argument(hints[field.name])
        if settings is None:
            continue
        if field.name.startswith("no_") and "type" not in settings:
            settings = {"action": "store_true"}  # else --no-X would switch off what it names
        help_text = _help(lines.get(field.name, ""), field)
        destination = f"{prefix}.{field.name}"
        group.add_argument(
            flag, dest=destination, default=argparse.SUPPRESS, help=help_text, **settings
        )


def given(options: argparse.Namespace, prefix: str) -> dict[str, Any]:
    """The typed flags of one `add_dataclass` group, by field name."""
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in vars(options).items() if k.startswith(start)}


def field_lines(kind: type) -> dict[str, str]:
    """The string below each field of a dataclass, read from its source."""
    file = getattr(sys.modules[kind.__module__], "__file__", None)
    if file is None:
        return {}
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for node in tree.body:
        if not (isinstance(node, ast.ClassDef) and node.name == kind.__name__):
            continue
        for line, below in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                found[line.target.id] = " ".join(str(below.value.value).split())
    return found


def _help(line: str, field: dataclasses.Field[Any]) -> str:
    """The field's line with its default; argparse formats with %, so % is doubled."""
    default = field.default
    if default is not dataclasses.MISSING and default is not None and default != ():
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        line = f"{line} [{shown}]"
    return line.replace("%", "%%")


def _argument(hint: Any) -> dict[str, Any] | None:
    """argparse's settings for a type hint; None for types that a flag cannot say."""
    options = list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]
    words: list[str] = []
    kinds: list[type] = []
    for option in options:
        if option is type(None):
            words.append("none")
        elif get_origin(option) is Literal:
            words += [str(word) for word in get_args(option)]
        elif option in (bool, int, float, str):
            kinds.append(option)
        else:
            return None
    if kinds == [bool]:
        return {"action": argparse.BooleanOptionalAction}
    optional = type(None) in options
    if not kinds:
        return {"type": _reader(words, None, optional), "metavar": "{" + ",".join(words) + "}"}
    metavar = {int: "N", float: "X", str: "TEXT"}.get(kinds[0], "VALUE")
    return {"type": _reader(words, kinds[0], optional), "metavar": metavar}


def one_of(words: Iterable[str]) -> Callable[[str], Any]:
    """What reads one of `words`, or gives an error that names the nearest."""
    return _reader(list(words), None, False)


def _reader(words: list[str], kind: type | None, optional: bool) -> Callable[[str], Any]:
    """What turns a typed word into a value: one of `words`, or a number or text of `kind`."""

    def read(text: str) -> Any:
        if optional and text == "none":
            return None
        if text in words:
            return text
        if kind is int:
            return whole_number(text)
        if kind is float:
            return number(text)
        if kind is str:
            return text
        near = get_close_matches(text, words, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(words)}{meant}")

    return read
