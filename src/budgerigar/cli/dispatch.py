"""From the arguments to the command's module: help, unknown commands, the common flags."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from budgerigar.cli.table import COMMANDS, GROUPS
from budgerigar.errors import UserError


def dispatch(arguments: list[str]) -> int:
    """Run the command that the first argument names; the rest are its own."""
    if not arguments or arguments in (["-h"], ["--help"], ["help"]):
        print(overview())
        return 0
    if arguments[0] == "--version":
        from budgerigar import __version__

        print(f"budgerigar {__version__}")
        return 0
    if arguments[0] == "help":
        arguments = [arguments[1], "--help"]
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise UserError(_unknown_command(name))
    from budgerigar.cli.flags import parse

    module = import_module(f"budgerigar.cli.commands.{name}")
    options = parse(COMMANDS[name], module, rest)
    if options is None:  # help was asked for and printed
        return 0
    _apply_common(options)
    return module.run(options) or 0


def overview() -> str:
    """The page of `budgie --help`: every command on one line, grouped."""
    width = max(len(f"{row.name} {row.usage}") for row in COMMANDS.values())
    lines = ["Budgerigar trains, runs and looks inside language models.", ""]
    for group, rows in GROUPS.items():
        for number, row in enumerate(rows):
            head = group if number == 0 else ""
            lines.append(f"  {head:<7} budgie {f'{row.name} {row.usage}':<{width}}  {row.about}")
        lines.append("")
    lines += [
        "RUN is a run's folder, `last` for the newest under runs/, or a model that others made: its",
        "folder, its .gguf file, or its name (`budgie list models`).",
        "`budgie COMMAND --help` explains a command; start with `budgie demo`.",
    ]
    return "\n".join(lines)


def _unknown_command(name: str) -> str:
    from difflib import get_close_matches

    if name.startswith("-"):
        return f"flags come after the command, as in `budgie train my.txt {name}`"
    if Path(name).exists():
        return f"{name!r} is no command. To train on that file: budgie train {name}"
    near = get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"there is no command {name!r}.{meant} `budgie --help` lists them."


def _apply_common(options: object) -> None:
    """Quiet and threads hold for the whole process and must be set before torch is loaded."""
    from budgerigar import progress

    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle workers sleep: see the design notes
    progress.set_quiet(bool(getattr(options, "quiet", False)))
    threads = getattr(options, "threads", None)
    if isinstance(threads, int) and "torch" not in sys.modules:
        os.environ["OMP_NUM_THREADS"] = str(threads)
