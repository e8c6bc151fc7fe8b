"""The texts that a command works on: its arguments, the lines of --file, or those of stdin."""

from __future__ import annotations

import argparse
import sys

from budgerigar.errors import UserError


def add_text_flags(parser: argparse.ArgumentParser, verb: str) -> None:
    """`TEXT…`, `--file` and `--encoding`; `verb`: what is done to the lines."""
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="a text")
    parser.add_argument("--file", metavar="FILE", help=f"{verb} the lines of a file")
    parser.add_argument(
        "--encoding", metavar="NAME", help="encoding of that file or of stdin, if not UTF-8"
    )


def given_texts(options: argparse.Namespace) -> list[str]:
    """The texts, from the one place that holds some. Of a file and stdin, one a line, blank ones too.

    Raises:
        UserError: there are arguments and a file.
    """
    from budgerigar.text.reading import decode_text, read_text

    if options.texts and options.file:
        raise UserError("give the texts as arguments or with --file, not both")
    if options.texts:
        return list(options.texts)
    if options.file:
        return _lines(read_text(options.file, options.encoding))
    if sys.stdin is None or sys.stdin.isatty():
        return []
    if not hasattr(sys.stdin, "buffer"):  # text put in its place by a program
        return _lines(sys.stdin.read())
    return _lines(decode_text(sys.stdin.buffer.read(), "stdin", options.encoding))


def _lines(text: str) -> list[str]:
    """Lines end at LF alone; the last one may do without."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
