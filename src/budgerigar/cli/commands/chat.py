"""Talk with a model that was taught to answer. Its answers stream to stdout as they are made.

On a terminal it asks for one message after the other; otherwise each line of stdin is a message.
What was said is kept: a new message costs what is new, not the whole conversation again.
Ctrl-C stops an answer. Commands: /reset (begin again), /quit (or Ctrl-D), /help.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from budgerigar.cli.flags import add_dataclass, given, whole_number
from budgerigar.errors import UserError

USES = ("device", "seed", "threads", "json")
EXAMPLES = """examples:
  budgie chat smollm2-135m-instruct.gguf
  budgie chat last --system "You answer in one sentence." --temperature 0
  echo "What is the capital of France?" | budgie chat model.gguf --temperature 0
  budgie chat runs/mine-1 --template chatml.jinja"""
COMMANDS = "/reset begins again, /quit or Ctrl-D ends the chat, Ctrl-C stops an answer"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Who the model is to be, and how tokens are chosen."""
    from budgerigar.generation.options import SamplingOptions

    parser.add_argument("model", metavar="RUN", help="a run's or model's folder or file, or last")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told before all else")
    parser.add_argument(
        "--template", metavar="FILE", help="a chat template (Jinja2) instead of the model's own"
    )
    parser.add_argument("--encoding", metavar="NAME", help="encoding of stdin, if not UTF-8")
    parser.add_argument("--stop", action="append", metavar="TEXT", help="end an answer before this")
    parser.add_argument(
        "--max-new-tokens",
        type=whole_number,
        metavar="N",
        help="most tokens of an answer [512]",
    )
    skipped = ("seed", "stop", "max_new_tokens")
    add_dataclass(parser, SamplingOptions, "how tokens are chosen", "sampling", skipped)


def run(options: argparse.Namespace) -> None:
    """Load the model, then a turn for each message."""
    sampling = given(options, "sampling")
    for name in ("seed", "max_new_tokens"):
        if getattr(options, name) is not None:
            sampling[name] = getattr(options, name)
    if options.stop:
        sampling["stop"] = tuple(options.stop)
    template = None
    if options.template:
        from budgerigar.text.reading import read_text

        template = read_text(options.template)

    from budgerigar import api

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    opening = [{"role": "system", "content": options.system}] if options.system else ()
    talk = api.conversation(model, opening, template, **sampling)
    if sys.stdin is not None and sys.stdin.isatty() and not options.json:
        _interactive(talk)
    else:
        _piped(talk, options.json, options.encoding)


def _interactive(talk: Any) -> None:
    from budgerigar import progress

    progress.note(COMMANDS)
    while True:
        try:
            text = input("> ").strip()
        except KeyboardInterrupt:
            print()
            progress.note(COMMANDS)
            continue
        except EOFError:
            print()
            return
        if text == "/quit":
            return
        if text in ("/reset", "/help", ""):
            if text == "/reset":
                talk.reset()
            if text:
                progress.note("the conversation begins again" if text == "/reset" else COMMANDS)
            continue
        try:
            _answer(talk, text)
        except UserError as error:  # the next message may do better
            print(f"budgie: {error}", file=sys.stderr)


def _piped(talk: Any, as_json: bool, encoding: str | None) -> None:
    """Each line is a message; blank lines are none."""
    for text in _lines(encoding):
        if text == "/quit":
            break
        if text == "/reset":
            talk.reset()
        elif as_json and text:
            for _ in talk.say(text):
                pass
        elif text:
            _answer(talk, text)
    if as_json:
        from budgerigar.cli.output import print_json

        print_json({"messages": talk.messages, "finish": talk.finish})


def _lines(encoding: str | None) -> Iterator[str]:
    if sys.stdin is None:
        return
    if encoding is not None and hasattr(sys.stdin, "buffer"):  # line ends may be two bytes long
        from budgerigar.text.reading import decode_text

        whole = decode_text(sys.stdin.buffer.read(), "stdin", encoding)
        yield from (line.strip() for line in whole.split("\n"))
        return
    for line in getattr(sys.stdin, "buffer", sys.stdin):
        if isinstance(line, bytes):
            from budgerigar.text.reading import decode_text

            line = decode_text(line, "stdin", None)
        yield line.strip()


def _answer(talk: Any, text: str) -> None:
    """Print an answer as it is made; Ctrl-C ends it there."""
    from budgerigar import progress

    pieces = talk.say(text)
    with _interruptible() as interrupted:
        for piece in pieces:
            print(piece, end="", flush=True)
            if interrupted():
                pieces.close()
                break
    print(flush=True)
    if interrupted():
        progress.note("(stopped)")
    elif talk.finish == "length":
        progress.note("(cut here: --max-new-tokens says how long an answer may be)")


@contextmanager
def _interruptible() -> Iterator[Any]:
    """A first Ctrl-C is only remembered, so that the model is never stopped within a step; a second
    one ends the command as usual."""
    seen: list[int] = []
    usual = signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: object) -> None:
        seen.append(number)
        signal.signal(signal.SIGINT, usual)

    try:
        signal.signal(signal.SIGINT, remember)
    except ValueError:  # not the main thread
        yield lambda: False
        return
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, usual)
