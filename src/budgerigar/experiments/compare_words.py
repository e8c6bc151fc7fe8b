"""A comparison in words: the table, who wins and after how long, drawings for a terminal."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from budgerigar.experiments.compare_measure import Result, context_labels
from budgerigar.experiments.why.drawing import panel_text
from budgerigar.experiments.why.frame import Lines

if TYPE_CHECKING:
    from budgerigar.experiments.compare import Comparison

HEAD = (
    "model", "parameters", "training", "tokens/s", "bits per byte", "streaming", "writes/s", "carries",
)  # fmt: skip
GRID = 24  # points in time that a terminal's drawing has


def rows(found: Comparison) -> list[tuple[str, ...]]:
    """The table, best first; its head is `HEAD`."""
    return [
        (
            one.name,
            f"{one.parameters:,}" + (" n-grams" if one.name == "ngram" else ""),
            duration(one.training_seconds),
            f"{one.tokens_per_second:,.0f}",
            f"{one.bits_per_byte:.4f}{_error(one.standard_error)}",
            f"{one.streaming_bits_per_byte:.4f}{_error(one.streaming_standard_error)}",
            f"{one.generation_tokens_per_second:,.0f}",
            f"{one.carried_bytes:,} B",
        )
        for one in ranked(found.results)
    ]


def ranked(results: Sequence[Result]) -> list[Result]:
    """Best windowed score first."""
    return sorted(results, key=lambda one: one.bits_per_byte)


def heading(found: Comparison) -> str:
    """On what the models are compared."""
    return (
        f"{found.corpus}: {found.train_tokens:,} tokens to learn from, {found.n_tokens:,} scored in "
        f"windows of {found.window} tokens"
    )


def verdict(found: Comparison) -> list[str]:
    """Who wins, by how much, and after how long; a sentence each."""
    order = ranked(found.results)
    said = [_winner(order, found)] if len(order) > 1 else []
    ngram = next((one for one in order if one.name == "ngram"), None)
    if ngram is not None:
        said += [_against(ngram, one) for one in found.results if one is not ngram]
    leaders = lead(found.results)
    if len(leaders) > 1:
        parts = [f"{name} from {duration(start)}" for start, name in leaders]
        said.append(f"In the lead by time of training: {', '.join(parts)}.")
    cut = [one for one in found.results if 0 < one.steps < one.total_steps]
    said += [
        f"{one.name} stopped learning at step {one.steps:,} of {one.total_steps:,} and was ended."
        for one in cut
    ]
    return said


def _winner(order: list[Result], found: Comparison) -> str:
    first, second = order[:2]
    gap = second.bits_per_byte - first.bits_per_byte
    error = paired_error(first, second, found.n_tokens)
    if error is not None and gap < 2 * error:
        return (
            f"No clear winner: {first.name} and {second.name} differ by {gap:.4f} bits per byte "
            f"(windowed), less than twice the standard error of the difference, {error:.4f}."
        )
    sure = "" if error is None else f" ± {error:.4f}"
    return (
        f"{first.name} wins: {first.bits_per_byte:.4f} bits per byte (windowed), {gap:.4f}{sure} "
        f"less than {second.name}, after {duration(first.training_seconds)} of training."
    )


def paired_error(one: Result, other: Result, n_tokens: int) -> float | None:
    """Standard error of the difference in bits per byte, over the same windows; None: too few."""
    a, b = np.array(one.window_nats), np.array(other.window_nats)
    if len(a) != len(b) or len(a) < 2:
        return None
    differences = a - b
    nats = math.sqrt(len(a)) * float(differences.std(ddof=1)) / n_tokens
    return nats * one.bits_per_byte / one.nats_per_token if one.nats_per_token else None


def _against(ngram: Result, one: Result) -> str:
    """When a network passes the n-gram, on the part that curves are measured on."""
    line = ngram.curve[-1][1]
    passed = next((seconds for seconds, bits in one.curve if bits < line), None)
    least = f"its best {min((b for _, b in one.curve), default=math.inf):.3f} against {line:.3f}"
    if passed is None:
        return (
            f"{one.name} does not pass the n-gram (which needs {duration(ngram.training_seconds)}) "
            f"within {duration(one.training_seconds)}: {least} bits per byte."
        )
    return (
        f"{one.name} passes the n-gram after {duration(passed)} of training or shortly before: "
        f"{least} bits per byte."
    )


def lead(results: Sequence[Result]) -> list[tuple[float, str]]:
    """(from when, who) has the best evaluation so far."""
    events = sorted((s, bits, one.name) for one in results for s, bits in one.curve)
    found: list[tuple[float, str]] = []
    best = math.inf
    for seconds, bits, name in events:
        if bits < best:
            best = bits
            if not found or found[-1][1] != name:
                found.append((seconds, name))
    return found


def duration(seconds: float) -> str:
    """0.8 s · 42 s · 5 min 3 s · 20.7 hours."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds >= 7200:
        return f"{seconds / 3600:,.1f} hours"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _error(value: float | None) -> str:
    return "" if value is None else f" ±{value:.4f}"


# -- drawings -------------------------------------------------------------------------------------


def best_so_far(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """(seconds, the least bits per byte up to then): the weights that are kept are the best ones."""
    least = np.minimum.accumulate([bits for _, bits in curve]) if curve else ()
    return [(seconds, float(bits)) for (seconds, _), bits in zip(curve, least, strict=True)]


def time_lines(found: Comparison) -> Lines:
    """Best so far by time of training, every curve at the same points."""
    ends = [s for one in found.results for s, _ in one.curve if s > 0]
    low, high = min(ends, default=0.1), max(ends, default=1.0)
    grid = np.geomspace(low, max(high, low * 1.01), GRID)
    series = {}
    for one in found.results:
        bits = [b for _, b in best_so_far(one.curve)]
        places = np.searchsorted([s for s, _ in one.curve], grid * 1.0001) - 1
        series[one.name] = [bits[p] if p >= 0 else math.nan for p in places]
    return Lines(
        "best so far, by time of training",
        "seconds of training",
        "bits per byte",
        [float(f"{s:.3g}") for s in grid],
        series,
        log_x=True,
    )


def context_lines(found: Comparison) -> Lines:
    """Loss by how many tokens can be seen."""
    series = {
        one.name: [math.nan if v is None else v for v in one.by_context] for one in found.results
    }
    return Lines(
        "by how much a model may see",
        "tokens before (from so many to twice as many)",
        "bits per byte",
        [2.0**n for n in range(len(context_labels(found.window)))],
        series,
        log_x=True,
    )


def as_text(found: Comparison, width: int = 116) -> str:
    """Table, drawings, verdict, samples."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, color_system=None)
    console.print(heading(found), markup=False)
    console.print(table(found))
    for panel in (time_lines(found), context_lines(found)):
        if found.results:
            console.print(f"  {panel.title}", markup=False)
            console.print(panel_text(panel, width))
            console.print()
    for sentence in verdict(found):
        console.print(sentence, markup=False)
    console.print()
    for one in found.results:
        line = " ".join(one.sample.split())[:200]
        console.print(f"  {one.name} writes: {line}", markup=False)
    return out.getvalue()


def table(found: Comparison) -> object:
    """The table for rich."""
    return lined_up(HEAD, rows(found))


def lined_up(
    head: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1, wrap: bool = False
) -> object:
    """Rows as a table for rich: the first `left` columns to the left, numbers to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for n, name in enumerate(head):
        made.add_column(name, justify="left" if n < left else "right", no_wrap=not wrap or n < left)
    for line in lines:
        made.add_row(*line)
    return made
