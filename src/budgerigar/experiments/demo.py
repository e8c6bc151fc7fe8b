"""`budgie demo`: a word game and the head that wins it, a translation, a real text. Read it from top
to bottom.

Each part keeps its run under runs/demo-*; a part that is finished is shown again, one that was
stopped goes on. Nothing here waits for a key; off a terminal the frames become lines of a log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.text import Text

from budgerigar import progress
from budgerigar.experiments.demo_models import TRANSLATION, WORDS, WRITER
from budgerigar.experiments.demo_runs import StoppedError
from budgerigar.experiments.demo_screen import Screen, results_table

PAGE = "http://127.0.0.1:7007/"
"""where `budgie explore` puts it; the demo itself serves nothing, for it comes to an end"""
OPENING = """
Budgerigar trains language models on this machine and shows what goes on inside them.
"""
PLAN = (
    (
        "1",
        "The word game, about a minute",
        "A story names a pet; many words later it asks for the pet. An n-gram, the ancestor of "
        "all language models, cannot know. A small GPT is trained before your eyes until it can, "
        "and you see which of its attention heads does it, and what becomes of it without.",
    ),
    (
        "2",
        "A translation, less than a minute",
        "A Transformer learns Chinese to English from sentence pairs, and writes the English of a "
        "sentence that it has never read, word by word. What it looks at meanwhile turns out to be "
        "an alignment of the words; and without the source it can only guess.",
    ),
    (
        "3",
        "A real text, about four minutes",
        "The same kind of model learns to write like Shakespeare, one character at a time, past "
        "the best that counting can do.",
    ),
)


@dataclass
class Summary:
    """What the parts leave for the last screen."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    writer: Path | None = None
    """the run that learnt the real text, if that part was done"""
    first_look: float | None = None
    """seconds from the start of the demo to the first weights of a trained network on the screen"""


def demo(
    quick: bool = False,
    folder: Path = Path("runs"),
    threads: int | str | None = None,
    screen: Screen | None = None,
) -> Summary:
    """Run all parts; `quick`: not the real text. Raises KeyboardInterrupt when it is stopped."""
    from budgerigar.experiments.demo_text import real_text
    from budgerigar.experiments.demo_translation import translation
    from budgerigar.experiments.demo_words import word_game

    screen = screen or Screen()
    started = time.perf_counter()
    summary = Summary()
    _opening(screen, quick)
    settings: dict[str, Any] = {} if threads is None else {"threads": threads}
    with _remarks_off():
        try:
            word_game(screen, folder / WORDS, settings, summary, started)
            translation(screen, folder / TRANSLATION, settings, summary)
            if not quick:
                real_text(screen, folder / WRITER, settings, summary)
        except StoppedError as stop:
            screen.say(f"Stopped, and saved. The next `budgie demo` goes on there. ({stop})")
            raise KeyboardInterrupt from None
    _closing(screen, summary, folder, quick)
    return summary


def _opening(screen: Screen, quick: bool) -> None:
    """One screen: what will happen, how long it takes, how to stop."""
    screen.heading("Budgerigar")
    screen.say(OPENING)
    for number, title, text in PLAN[:2] if quick else PLAN:
        screen.show(Text(f"{number}  {title}", style="bold"), Text(text, style="dim"))
    screen.say("Stop any time with Ctrl-C: the next start goes on where it stopped.")


@contextmanager
def _remarks_off() -> Iterator[None]:
    """The demo tells its own story; the remarks of training would tear the frames."""
    before = progress.is_quiet()
    progress.set_quiet(True)
    try:
        yield
    finally:
        progress.set_quiet(before)


def _closing(screen: Screen, summary: Summary, folder: Path, quick: bool) -> None:
    """A table, the pictures, five commands to type next."""
    screen.heading("What you have seen")
    if summary.rows:
        screen.show(results_table([("", "result", "how"), *summary.rows]))
    if summary.first_look is not None:
        screen.say(
            f"First weights of the model in training: after {summary.first_look:.0f} seconds."
        )
    if summary.pictures:
        screen.line(Text("Pictures", style="bold"))
        for path in summary.pictures:
            screen.line(f"  {path}")
        screen.line("")
    screen.line(Text("Five commands to type next", style="bold"))
    for command, what in _next(screen, summary, folder, quick):
        screen.line(Text.assemble("  ", (command, "bold green")))
        screen.line(Text(f"      {what}", style="dim"))


def _next(screen: Screen, summary: Summary, folder: Path, quick: bool) -> list[tuple[str, str]]:
    """(command, what it does): the page, one's own text, one's own sentences."""
    words, translation = folder / WORDS, folder / TRANSLATION
    runs = "" if folder == Path("runs") else f" {words} {translation}"
    where = f"; it opens {PAGE}" if screen.animated else ""
    if summary.writer is not None:
        last = (f'budgie generate {summary.writer} "ROMEO:"', "let it write")
    elif quick:
        last = ("budgie demo", "the real text as well")
    else:
        last = (f'budgie generate {words} "Mei has a"', "let the word game's model tell a story")
    return [
        (
            f"budgie explore{runs}",
            f"look inside these models in your browser, with sentences of your own{where}",
        ),
        (
            "budgie train your.txt",
            "your own text: it makes a plan, trains ten minutes, says how it did",
        ),
        (
            f'budgie look {words} "Xuanyuan has a budgerigar ; it has green feathers ."',
            "any sentence: what each head looks at, in numbers",
        ),
        (f"budgie translate {translation} 小梅有一只猫", "translate another sentence"),
        last,
    ]
