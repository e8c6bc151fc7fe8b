"""The real text of the demo: a small GPT learns Shakespeare, past what counting can do."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from budgerigar.errors import UserError
from budgerigar.experiments.demo_runs import trained
from budgerigar.experiments.demo_screen import Screen, clock, loss_chart

if TYPE_CHECKING:
    from budgerigar.experiments.demo import Summary

MINUTES = 3.0
HELD_OUT = 0.02  # of 4.8 million characters: enough to test on, and tested in a second
SAMPLE_SECONDS = 20.0
SAMPLE_TOKENS = 220
SAMPLE_LINES = 7
PROMPT = "ROMEO:"
LOOKED_AT = "ROMEO:\nBut soft, what light through yonder window breaks?"


def real_text(screen: Screen, folder: Path, settings: Mapping[str, Any], summary: Summary) -> None:
    """The whole third part; without a network it says so and is skipped."""
    from budgerigar.training.recipe import load_recipe, override

    screen.heading("3  A real text")
    recipe = override(
        load_recipe("shakespeare"),
        {"corpus": "shakespeare", "sample_every": 0, "validation_fraction": HELD_OUT, **settings},
    )
    corpus = _corpus(screen, recipe)
    if corpus is None:
        return
    _introduce(screen, corpus)
    screen.line("counting n-grams to compare with, and timing this machine …")
    screen.line("")
    with screen.frames() as live:
        watch = Watch(screen, live)
        done, fresh = trained(recipe, corpus, folder, [watch], minutes=MINUTES)
    screen.line("")
    if not fresh:
        screen.say(f"It was trained by an earlier demo ({folder}); delete that folder to watch.")
    summary.writer = folder
    _conclude(screen, done, folder, summary)


def _corpus(screen: Screen, recipe: Any) -> Any:
    """The prepared text; None where it cannot be fetched."""
    from budgerigar.text.catalogue import is_fetched
    from budgerigar.training.corpora import gather_corpus

    if not is_fetched("shakespeare"):
        screen.line("fetching Shakespeare's plays (5 MB) …")
        screen.line("")
    try:
        return gather_corpus(recipe.text)
    except UserError as error:
        screen.say("The plays could not be fetched, so this part is left out:")
        screen.line(Text("  " + str(error).replace("\n", "\n  "), style="dim"))
        screen.line("")
        screen.say("With a network, `budgie demo` goes on here. A text of your own needs none.")
        return None


def _introduce(screen: Screen, corpus: Any) -> None:
    n = corpus.train.n_characters + corpus.validation.n_characters
    sources = Text(
        f"  {n:,} characters of 38 plays, {corpus.tokenizer.vocab_size} different ones; "
        f"the last {HELD_OUT:.0%} of the text are held out to test on",
        style="dim",
    )
    screen.say(
        "Now Shakespeare. The model reads one character at a time and must say which comes next. "
        "Its loss is measured in nats per character: 0 would be certainty, and a model that knows "
        "nothing pays the first line below. The lines are simple models: one that knows the "
        "character before (bigram), and the best that counting can do (n-gram)."
    )
    screen.show(sources)


class Watch:
    """A training callback: the falling loss each second, a sample every 20 seconds."""

    def __init__(self, screen: Screen, live: Any) -> None:
        self.screen, self.live = screen, live
        self.every = 1.0 if live is not None else 10.0
        self.started: float | None = None
        self.next, self.next_sample = 0.0, 0.0
        self.recent: float | None = None
        self.points: list[tuple[float, float]] = []
        self.lines: dict[str, float] = {}
        self.passed: list[str] = []
        self.sample: tuple[float, str] | None = None
        self.until = MINUTES * 60

    def on_step(self, event: Any) -> None:
        """Follow the loss; draw when it is time."""
        kept = 0.9 if self.recent is not None else 0.0
        self.recent = kept * (self.recent or 0.0) + (1 - kept) * event.loss
        now = time.perf_counter()
        if self.started is None:
            self.started, self.next_sample = now, now + SAMPLE_SECONDS
        if now < self.next:
            return
        self.next = now + self.every
        seconds = now - self.started
        self.until = max(self.until, seconds + event.seconds_left)
        if now >= self.next_sample:
            self.next_sample = now + SAMPLE_SECONDS
            self.sample = (seconds, _sample(event.network, event.tokenizer))
            if self.live is None:
                self._print_sample()
        self._draw(event, seconds)

    def on_evaluation(self, event: Any) -> None:
        """A point on the held-out text, and the lines that it passed."""
        self.lines = named_lines(event.baselines)
        seconds = time.perf_counter() - (self.started or time.perf_counter())
        self.points.append((seconds, event.loss))
        for name, value in self.lines.items():
            if event.loss < value and name not in self.passed:
                self.passed.append(name)
                if self.live is None:
                    self.screen.line(f"{clock(seconds):>12} · passed {name} ({value:.2f})")

    def _draw(self, event: Any, seconds: float) -> None:
        head = (
            f"{clock(seconds):>12} · step {event.step:,} of {event.total_steps:,} · "
            f"{event.tokens_per_second:,.0f} characters/s · {clock(event.seconds_left)} left · "
            f"loss {self.recent:.2f}"
        )
        if self.live is None:
            self.screen.line(head)
            return
        parts: list[Any] = [Text(head, "bold"), Text()]
        height = max(5, min(14, self.screen.height - SAMPLE_LINES - 10))
        width = min(self.screen.width, 90)
        parts.append(loss_chart(self.points, self.lines, self.until, width, height))
        parts.append(
            Text("  ● on the held-out text; a line turns green when it is passed\n", "dim")
        )
        if self.sample:
            parts += self._sample_parts()
        self.live.update(Group(*parts), refresh=True)

    def _sample_parts(self) -> list[Text]:
        assert self.sample is not None
        seconds, text = self.sample
        title = Text(f"  what it writes after {clock(seconds)}:", "dim")
        return [title, *indented_lines(PROMPT + text)[:SAMPLE_LINES]]

    def _print_sample(self) -> None:
        for part in self._sample_parts():
            self.screen.line(part)


def named_lines(baselines: Mapping[str, float]) -> dict[str, float]:
    """The three lines of the chart: uniform, bigram, and the best n-gram, read in windows too."""
    chosen: dict[str, float] = {}
    for name, value in baselines.items():
        short = name.split(" (")[0]
        order = re.fullmatch(r"order-(\d+) n-gram", short)
        if short in ("uniform", "bigram"):
            chosen[short] = value
        elif order:
            chosen[f"best n-gram (order {order[1]})"] = value
    return chosen


def indented_lines(text: str) -> list[Text]:
    """A sample's lines as they are, each cut at the edge of the screen."""
    return [Text("    " + line, no_wrap=True, overflow="crop") for line in text.split("\n")]


def _sample(network: Any, tokenizer: Any) -> str:
    from budgerigar.generation.options import SamplingOptions
    from budgerigar.generation.streaming import generate_texts

    options = SamplingOptions(max_new_tokens=SAMPLE_TOKENS, temperature=0.7, seed=1)
    found = generate_texts(network, tokenizer, [PROMPT], options, starts_documents=False)
    return found[0].text


def _conclude(screen: Screen, done: Any, folder: Path, summary: Summary) -> None:
    """Where it ended, beside the lines; a picture; the last sample."""
    from budgerigar.formats.metrics import read_metrics
    from budgerigar.inspection.traces import trace

    measured = read_metrics(folder / "metrics.jsonl", "evaluation")
    baselines = read_metrics(folder / "metrics.jsonl", "baselines")
    lines = named_lines(baselines[0]["losses"] if baselines else {})
    best = min(float(row["loss"]) for row in measured)
    points = [(float(row["clock"]["training_seconds"]), float(row["loss"])) for row in measured]
    for name, value in lines.items():
        how = "passed" if best < value else "not passed"
        summary.rows.append((f"Shakespeare: {name}", f"{value:.3f} nats", how))
    n = sum(p.numel() for p in done.network.parameters())
    spent = clock(points[-1][0])
    summary.rows.append(("Shakespeare: GPT", f"{best:.3f} nats", f"{n:,} parameters, {spent}"))
    screen.say(verdict(best, lines, points))
    screen.line(Text("  what it writes now:", style="dim"))
    text = PROMPT + _sample(done.network, done.tokenizer)
    screen.show(*indented_lines(text.rstrip()))
    looked = trace(
        done.network, done.tokenizer, LOOKED_AT, record=(), name="the demo's Shakespeare"
    )
    summary.pictures.append(Path(looked.heatmap(folder / "all-heads.png")))


def verdict(best: float, lines: Mapping[str, float], points: Sequence[tuple[float, float]]) -> str:
    """In words: which lines were passed, and how long the next one would take."""
    passed = [name for name, value in lines.items() if best < value]
    missing = [name for name, value in lines.items() if best >= value]
    words = f"It ended at {best:.3f} nats per character"
    if passed:
        words += f", below {', '.join(passed)}"
    if not missing:
        return words + ": what counting can do is behind it. Longer training goes on from here."
    name = missing[-1]
    minutes = minutes_needed(points, lines[name])
    if minutes is None:
        return words + f". It is not yet below {name} ({lines[name]:.3f}); train it longer."
    return words + (
        f". It is not yet below {name} ({lines[name]:.3f}): at the pace of its second half that "
        f"would take about {minutes:.0f} minutes of training in all."
    )


def minutes_needed(points: Sequence[tuple[float, float]], target: float) -> float | None:
    """Extrapolate: late in training a loss falls about linearly in the logarithm of time.

    points: (seconds, nats). None where it does not fall.
    """
    late = [point for point in points if point[0] >= points[-1][0] / 2 and point[0] > 0]
    if len(late) < 2:
        return None
    times = [math.log(seconds) for seconds, _ in late]
    mean_time = sum(times) / len(times)
    mean_loss = sum(loss for _, loss in late) / len(late)
    spread = sum((t - mean_time) ** 2 for t in times)
    slope = sum((t - mean_time) * (p[1] - mean_loss) for t, p in zip(times, late, strict=True))
    if spread == 0 or slope >= 0:
        return None
    return math.exp(mean_time + (target - mean_loss) / (slope / spread)) / 60
