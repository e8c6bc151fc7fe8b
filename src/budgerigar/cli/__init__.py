"""The command `budgie`: read the arguments, call one function of `api`, print. No logic here.

`main` knows the commands by name only; a command's module is imported when it is asked for, and
torch when it computes, so that every help page is there at once.
"""

from __future__ import annotations

import sys

from budgerigar.errors import UserError


def main(argv: list[str] | None = None) -> int:
    """Run `budgie` with the given arguments (default: the process's) and return its exit status.

    0: done; 2: the user's mistake, or the surroundings' (a file, the disk, the network);
    130: stopped by Ctrl-C; 1: a fault of the program itself.
    """
    from budgerigar.cli.dispatch import dispatch

    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    _make_output_robust()
    try:
        status = dispatch(arguments)
        if sys.stdout is not None:  # None where the caller closed it
            sys.stdout.flush()
        return status
    except (KeyboardInterrupt, BrokenPipeError, UserError, OSError, MemoryError) as error:
        if debug and not isinstance(error, BrokenPipeError):
            raise
        return _report(error)
    except Exception as error:
        if debug:
            raise
        print(
            f"budgie: a fault of the program, not of yours: {type(error).__name__}: {error}\n"
            "The same command with --debug shows where it happened.",
            file=sys.stderr,
        )
        return 1


def _make_output_robust() -> None:
    """A character that the terminal's encoding lacks is written as its code, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _report(error: BaseException) -> int:
    """Say in words what stopped the command, and give its exit status."""
    if isinstance(error, BrokenPipeError):  # as in `budgie generate last | head -1`
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, KeyboardInterrupt):
        print("\nbudgie: stopped", file=sys.stderr)
        return 130
    if isinstance(error, MemoryError):
        words = "not enough memory; a smaller batch, context or model needs less"
    elif isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        words = f"{where}{error.strerror}"
    else:
        words = str(error)
    print(f"budgie: {words}", file=sys.stderr)
    return 2
