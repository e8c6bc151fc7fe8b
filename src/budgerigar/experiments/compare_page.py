"""The files of a comparison: table.csv, two pictures (PNG, SVG) and one page that needs no network."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.experiments.compare_words import (
    HEAD,
    best_so_far,
    context_lines,
    heading,
    rows,
    time_lines,
    verdict,
)
from budgerigar.experiments.why.pictures import COLOURS, MARKS
from budgerigar.formats.atomic import write_text
from budgerigar.inspection.plots import Texts, blank_figure, fit, save, write_title
from budgerigar.training.report import STYLE

if TYPE_CHECKING:
    from budgerigar.experiments.compare import Comparison

CSV_FIELDS = (
    "name", "about", "parameters", "training_seconds", "tokens_read", "tokens_per_second",
    "nats_per_token", "bits_per_byte", "standard_error", "streaming_bits_per_byte",
    "streaming_standard_error", "generation_tokens_per_second", "carried_bytes",
)  # fmt: skip


def write_files(found: Comparison) -> None:
    """All files into the comparison's folder."""
    folder = found.folder
    table = [[getattr(one, name) for name in CSV_FIELDS] for one in found.results]
    write_csv(folder / "table.csv", [CSV_FIELDS, *table])
    curves = [(one.name, best_so_far(one.curve)) for one in found.results]
    context = context_lines(found)
    by_context = [
        (name, [(x, y) for x, y in zip(context.x, values, strict=True) if math.isfinite(y)])
        for name, values in context.series.items()
    ]
    time, about = time_lines(found), heading(found)
    for ending in ("png", "svg"):
        for name, lines, panel in (("time", curves, time), ("context", by_context, context)):
            title = f"{panel.y_label}, {panel.title}"
            path = folder / f"{name}.{ending}"
            draw(lines, panel.x_label, panel.y_label, path, title=title, about=about)
    write_text(folder / "compare.html", page(found))


def write_csv(path: Path, lines: Sequence[Sequence[Any]]) -> None:
    """Lines of values, the first of them the head."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    write_text(path, out.getvalue())


def draw(
    curves: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    x_label: str,
    y_label: str,
    path: Path,
    *,
    title: str,
    about: str = "",
    line: tuple[str, float] | None = None,
    log_y: bool = False,
    log_x: bool = True,
) -> None:
    """One line per name over its own points; a single point becomes a level line from there on.

    title, about: two lines above it, of what and on what.
    """
    high = 4.9
    figure = blank_figure((7.2, high))
    axes = figure.add_axes((0.1, 0.57 / high, 0.87, 1 - 1.25 / high))
    texts = Texts([title, about, *(name for name, _ in curves)], path.suffix == ".svg")
    write_title(figure, texts(title), texts(fit(about, 7.2)), texts.families)
    right = max((x for _, points in curves for x, _ in points), default=1.0)
    for n, (name, points) in enumerate(curves):
        if not points:
            continue
        xs, ys = [x for x, _ in points], [y for _, y in points]
        single = len(points) == 1 and right > xs[0]
        axes.plot(
            [*xs, right] if single else xs,
            [*ys, ys[0]] if single else ys,
            label=name,
            color=COLOURS[n % len(COLOURS)],
            marker=MARKS[n % len(MARKS)],
            markersize=4.5,
            linewidth=1.6,
            linestyle="--" if single else "-",
        )
    if line is not None:
        axes.axhline(line[1], color="#555555", linestyle=":", linewidth=1.2, label=line[0])
    if log_x and right > 0:
        _log_axis(axes, curves)
    if log_y:
        axes.set_yscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    if curves:
        axes.legend(fontsize=8.5, frameon=False)
    save(figure, path)


def _log_axis(axes: Any, curves: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> None:
    """Powers of two along the axis; where zero is a place too, the places that were measured."""
    xs = sorted({x for _, points in curves for x, _ in points})
    if xs[0] > 0:
        axes.set_xscale("log", base=2)
    else:
        first = xs[1] if len(xs) > 1 else 1.0
        axes.set_xscale("symlog", base=2, linthresh=first)
        axes.set_xlim(-first / 4, xs[-1] * 1.2 or 1.0)
        apart = [x for x, after in pairwise(xs) if after > 1.5 * x]  # or their numbers would touch
        axes.set_xticks([*apart, xs[-1]])
        axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,g}")


def page(found: Comparison) -> str:
    """The page; pictures are inside it."""
    escape = html.escape
    asked = found.asked
    budget = (
        f"{asked.budget:g} minutes each" if asked.budget else f"{asked.passes:g} passes each"
    ) + (f", about {asked.parameters:,} parameters each" if asked.parameters else "")
    body = [
        f"<h1>{escape(found.corpus)}: from the n-gram to the Transformer</h1>",
        f"<p>{found.train_tokens:,} tokens to learn from, the same for all; {found.n_tokens:,} scored, "
        f"each once, in windows of {found.window} (streaming: with the state carried on). Networks: "
        f"{budget}, seed {asked.seed}. ± is one standard error over windows; writes/s: tokens of one "
        "text, one after the other; carries: bytes handed from token to token.</p>",
        html_table(HEAD, rows(found)),
        *(f"<p>{escape(sentence)}</p>" for sentence in verdict(found)),
        "<h2>Bits per byte by time of training</h2>",
        inline_svg(found.folder / "time.svg"),
        "<p>The best so far of each, on the beginning of the validation split; evaluations are "
        "not counted as time. The n-gram is there when its order has been chosen, on the end of the "
        "text to learn from.</p>",
        "<h2>Bits per byte by how much can be seen</h2>",
        inline_svg(found.folder / "context.svg"),
        "<p>Tokens grouped by how many before them their window (and document) shows.</p>",
        "<h2>One sample of each</h2>",
        *(
            f"<h3>{escape(one.name)}</h3><p>{escape(one.about)}</p><pre>{escape(one.sample)}</pre>"
            for one in found.results
        ),
    ]
    return html_page(found.corpus, body)


def html_page(title: str, body: Sequence[str]) -> str:
    """A whole page from its parts."""
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n"
        f'<meta name="viewport" content="width=device-width">\n<style>{STYLE}</style>\n'
        + "\n".join(body)
        + "\n</html>\n"
    )


def html_table(head: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows as a table: the first `left` columns to the left, numbers to the right."""
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    openings = ["<td>"] * left + ['<td class="number">'] * (len(head) - left)
    made = [
        "<tr>"
        + "".join(f"{o}{html.escape(c)}</td>" for o, c in zip(openings, line, strict=True))
        + "</tr>"
        for line in lines
    ]
    return f"<table><tr>{cells}</tr>\n" + "\n".join(made) + "</table>"


def inline_svg(path: Path) -> str:
    """The drawing as an element of a page."""
    text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :]
