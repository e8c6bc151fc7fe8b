"""Translate with a trained encoder-decoder: N lines in, N lines out, a blank one for a blank one.

The lines are the arguments, those of --file, or those of stdin, translated as they arrive. On a
terminal and without any, a prompt asks for them: an empty line or Ctrl-D ends it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from budgerigar.cli.flags import add_dataclass, given
from budgerigar.errors import UserError

USES = ("out", "device", "seed", "threads", "json")
EXAMPLES = """With --scores and --alignments a tab separates columns: text, score (higher is better),
word alignment (0-2: source word 0 belongs to target word 2). --n-best 5 prints Moses' lists:
number of the line ||| text ||| score.

examples:
  budgie translate last "轩辕有一只虎皮鹦鹉"
  budgie translate runs/multi30k-1 --file test.de --out test.en
  budgie translate last < test.de > test.en
  budgie translate last "Ein Hund läuft." --n-best 3
  budgie translate last "Ein Hund läuft." --prefix "A cat" --alignments"""

CJK = "\u2e80"  # from here on scripts write a sentence without blanks


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which lines, what to print, and how the search goes."""
    from budgerigar.generation.translation_options import TranslationOptions

    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="a line to translate")
    parser.add_argument("--file", metavar="FILE", help="translate the lines of a file")
    parser.add_argument(
        "--encoding", metavar="NAME", help="encoding of that file or of stdin, if not UTF-8"
    )
    parser.add_argument("--prefix", metavar="TEXT", help="words that every translation begins with")
    parser.add_argument("--scores", action="store_true", help="a column with the score of each")
    parser.add_argument(
        "--alignments",
        action="store_true",
        help="a column of word alignments, read off the heads of the last layer but one",
    )
    add_dataclass(parser, TranslationOptions, "how it translates", "translation", ("seed",))


def run(options: argparse.Namespace) -> None:
    """Load the model, translate what there is, print line by line."""
    chosen = given(options, "translation")
    if options.seed is not None:
        chosen["seed"] = options.seed
    if options.texts and options.file:
        raise UserError("give the lines as arguments or with --file, not both")
    if options.out and Path(options.out).exists():
        raise UserError(f"{options.out} exists already; choose another --out or remove it")

    from budgerigar import api

    search = api.translation_options(chosen)
    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    api.need_translator(model)
    if _at_a_prompt(options):
        _converse(model, search, options)
        return
    made = _made(model, _blocks(options), search, options, _count(options))
    with _printer(options) as write:
        if options.json:
            from budgerigar.cli.output import print_json

            print_json({"translations": [_as_dict(one, links) for one, links in made]}, write)
            return
        for number, (one, links) in enumerate(made):
            for line in _lines_of(number, one, links, search.n_best, options):
                write(line)
    if options.out:
        print(options.out)


def _made(
    model: Any,
    blocks: Iterable[list[str]],
    search: Any,
    options: argparse.Namespace,
    total: int | None = None,
) -> Iterator[tuple[Any, list[str]]]:
    """Each translation, with the word alignments of its hypotheses if they are asked for."""
    from budgerigar import api

    shown = bool(options.out) or not (sys.stdout and sys.stdout.isatty())  # a bar among lines: no
    settings = {"prefix": options.prefix, "options": search, "total": total}
    settings["show_progress"] = shown
    if options.alignments:
        yield from api.aligned_translations(model, blocks, **settings)
        return
    for one in api.translations(model, blocks, **settings):
        yield one, []


# -- lines in ------------------------------------------------------------------------------------


def _at_a_prompt(options: argparse.Namespace) -> bool:
    if options.texts or options.file:
        return False
    if sys.stdin is None:
        raise UserError(
            "there is nothing to translate: stdin is closed. Give the lines as arguments, or with "
            "--file"
        )
    return sys.stdin.isatty()


def _blocks(options: argparse.Namespace) -> Iterable[list[str]]:
    """The lines, in blocks that are there at the same time."""
    from budgerigar.text.reading import open_lines, read_lines

    if options.file:
        return open_lines(options.file, options.encoding)
    if options.texts:
        _note_words(options.texts)
        return [[line for text in options.texts for line in _typed_lines(text)]]
    if not hasattr(sys.stdin, "buffer"):  # text put in its place by a program
        lines = sys.stdin.read().split("\n")
        return [lines[:-1] if lines[-1] == "" else lines]
    return read_lines(sys.stdin.buffer, "stdin", options.encoding)


def _count(options: argparse.Namespace) -> int | None:
    """How many lines there are, for progress; None where only reading would tell, or none is shown."""
    from budgerigar import progress

    if options.file:  # a named pipe can be read once only
        once = progress.shown() and Path(options.file).is_file()
        return sum(map(len, _blocks(options))) if once else None
    return sum(len(_typed_lines(text)) for text in options.texts) or None


def _typed_lines(text: str) -> list[str]:
    """The lines of an argument; a CR inside of one is a space, as it would end a line in a file."""
    return text.replace("\r\n", "\n").replace("\r", " ").split("\n")


def _note_words(texts: list[str]) -> None:
    """Several words without quotes are several lines; say so (in scripts that have blanks)."""
    from budgerigar import progress

    if len(texts) > 1 and not any(" " in text or max(text, default="") >= CJK for text in texts):
        progress.note(
            f"note: these are {len(texts)} lines, each translated by itself; a line of several words "
            "needs quotes around it"
        )


# -- lines out -----------------------------------------------------------------------------------


@contextmanager
def _printer(options: argparse.Namespace) -> Iterator[Callable[[str], object]]:
    """What writes one line: to stdout at once, or to --out, which appears when it is whole."""
    if not options.out:
        yield lambda line: print(line, flush=True)
        return
    from budgerigar.formats.atomic import file_aside

    with (
        file_aside(Path(options.out)) as aside,
        open(aside, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield lambda line: file.write(line + "\n")


def _lines_of(
    number: int, one: Any, links: list[str], n_best: int, options: argparse.Namespace
) -> Iterator[str]:
    """One line of text with its columns, or the Moses lines of an n-best list."""
    for place, hypothesis in enumerate(one.hypotheses[:n_best]):
        columns = [hypothesis.text]
        if options.scores or n_best > 1:
            columns.append(f"{hypothesis.score:.4f}")
        columns += links[place : place + 1]
        yield " ||| ".join([str(number), *columns]) if n_best > 1 else "\t".join(columns)


def _as_dict(one: Any, links: list[str]) -> dict[str, Any]:
    hypotheses = [
        {
            "text": hypothesis.text,
            "score": hypothesis.score,
            "log_probability": hypothesis.log_probability,
            "finished": hypothesis.finished,
        }
        for hypothesis in one.hypotheses
    ]
    for fields, alignment in zip(hypotheses, links, strict=False):
        fields["alignment"] = alignment
    return {"source": one.source, "hypotheses": hypotheses}


# -- a prompt on a terminal ----------------------------------------------------------------------


def _converse(model: Any, search: Any, options: argparse.Namespace) -> None:
    """Ask for lines and translate each, until an empty one, Ctrl-D or Ctrl-C."""
    if options.out or options.json:
        raise UserError(
            "--out and --json are for lines that are there: give them as arguments, with --file or "
            "through a pipe"
        )
    if not options.quiet:
        print(
            f"{model.name} translates what you type; an empty line or Ctrl-D ends", file=sys.stderr
        )
    ask = _prompt()
    while True:
        try:
            line = ask()
            if not line.strip():
                return
            for one, links in _made(model, [[line]], search, options):
                for text in _lines_of(0, one, links, search.n_best, options):
                    print(text, flush=True)
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
        except UnicodeError:
            print("budgie: this cannot be read as text; type it again", file=sys.stderr)


def _prompt() -> Callable[[], str]:
    """Asks for one line: with the terminal's own editing where the answer goes to it too."""
    if sys.stdout.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401  (arrows and history in `input`)
        return lambda: input("> ")

    def ask() -> str:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    return ask
