"""The back-off of an n-gram as a picture: nats of each token, and which length its probability is from.

Above, a bar per token: its nats, coloured and numbered by the longest n-gram seen. Below, a column per
token: the share of its probability that each length adds; a frame marks the longest context known. Long
texts are cut into lines. Tokens that were asked about are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.inspection.back_off import BackOff
from budgerigar.inspection.back_off_text import NAMES
from budgerigar.inspection.labels import is_wide, shorten, width
from budgerigar.inspection.plots import Texts, blank_figure, fit, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 42  # tokens of a line
MOST_LINES = 12
_CELL, _ROW, _BARS = (
    0.27,
    0.17,
    0.85,
)  # inches: width of a token, height of a length and of the bars
_LEFT, _RIGHT, _GAP = 1.05, 0.85, 0.3
_LABEL, _POINTS = 10, 8.5


def back_off_figure(found: BackOff, marked: Sequence[int] = (), text_only: bool = False) -> Figure:
    """See the head of this file. marked: positions; text_only: for SVG, whose reader brings the
    fonts."""
    n_lines = min(MOST_LINES, -(-len(found.tokens) // COLUMNS))
    n_shown = min(len(found.tokens), n_lines * COLUMNS)
    across = min(COLUMNS, n_shown)
    labels = [shorten(label, _LABEL) for label in found.trace.labels[:n_shown]]
    foot = _label_inches(labels)
    heat = (found.order + 1) * _ROW
    pitch = 0.12 + _BARS + 0.05 + heat + foot + _GAP
    inches = (max(_LEFT + across * _CELL + _RIGHT, 6.4), 0.85 + n_lines * pitch + 0.35)
    figure = blank_figure(inches)
    texts = Texts([*labels, found.about], text_only)
    top = max((token.nats for token in found.predicted if token.position < n_shown), default=1.0)
    image = None
    for line in range(n_lines):
        places = range(line * COLUMNS, min((line + 1) * COLUMNS, n_shown))
        wide = len(places) * _CELL
        y = inches[1] - 0.85 - line * pitch - _BARS
        bars = _axes(figure, (_LEFT, y, wide, _BARS))
        _draw_bars(bars, found, places, top)
        below = _axes(figure, (_LEFT, y - 0.05 - heat, wide, heat))
        image = _draw_shares(below, found, places)
        _write_labels(below, labels[places.start : places.stop], texts)
        _mark((bars, below), [at - places.start for at in marked if at in places])
        if line == 0:
            bar = _axes(figure, (_LEFT + across * _CELL + 0.15, y - 0.05 - heat, 0.14, heat))
            _colour_bar(figure, image, bar)
    title = f"How the order-{found.order} n-gram ({NAMES[found.smoothing]}) backed off"
    if marked:
        title = f"{title}: “{texts(found.joined([found.trace.labels[at] for at in marked]))}”"
    write_title(figure, title, texts(fit(found.about, inches[0])), texts.families)
    figure.text(
        0.12 / inches[0], 0.1 / inches[1], _footer(found, n_shown), size=7.5, color="#444444"
    )
    return figure


def _axes(figure: Figure, box: tuple[float, float, float, float]) -> Axes:
    """Axes at (left, bottom, width, height) in inches."""
    wide, high = figure.get_size_inches()
    left, bottom, across, up = box
    return figure.add_axes((left / wide, bottom / high, across / wide, up / high))


def _footer(found: BackOff, n_shown: int) -> str:
    words = (
        "number on a bar: length of the longest n-gram seen, context and token; frame: the longest "
        f"context known\nparts add up to the model's own probabilities within {found.difference:.0e}"
    )
    left = len(found.tokens) - n_shown
    return f"{words}; {left:,} more tokens are not drawn" if left else words


def _draw_bars(axes: Axes, found: BackOff, places: range, top: float) -> None:
    from matplotlib import colormaps

    tokens = [token for place in places if (token := found.tokens[place]) is not None]
    x = [token.position - places.start for token in tokens]
    colours = colormaps["viridis"](np.array([token.matched / found.order for token in tokens]))
    axes.bar(x, [token.nats for token in tokens], width=0.82, color=colours, linewidth=0)
    for at, token in zip(x, tokens, strict=True):
        high = token.nats + 0.03 * top
        axes.text(at, high, str(token.matched), ha="center", va="bottom", size=6.5)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_ylim(0, 1.18 * top)
    axes.set_xticks([])
    axes.set_ylabel("nats", size=8.5)
    axes.tick_params(labelsize=7, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_shares(axes: Axes, found: BackOff, places: range) -> Any:
    """The longest length at the top, "any token" at the bottom."""
    shares = np.full((found.order + 1, len(places)), np.nan)
    for x, place in enumerate(places):
        token = found.tokens[place]
        if token is None:
            continue
        shares[:, x] = token.shares[::-1]
        longest = found.order - token.context_matched - 1  # row of the context, with its token
        frame: Any = {"fill": False, "edgecolor": "#d55e00", "linewidth": 1.1}
        axes.add_patch(_rectangle(x, longest, frame))
    image = axes.imshow(
        shares, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    axes.set_xlim(-0.5, len(places) - 0.5)
    rows = [f"{length} token{'s' * (length > 1)}" for length in range(found.order, 0, -1)]
    axes.set_yticks(range(found.order + 1), [*rows, "any token"], fontsize=7)
    axes.tick_params(length=0, pad=3)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)
    return image


def _mark(axes: Sequence[Axes], columns: Sequence[int]) -> None:
    """A band behind the bars, and a bold label, of each token that was asked about."""
    bars, below = axes
    for x in columns:
        bars.axvspan(x - 0.5, x + 0.5, color="#d55e00", alpha=0.22, linewidth=0, zorder=0)
        label = below.get_xticklabels()[x]
        label.set_color("#d55e00")
        label.set_fontweight("bold")


def _rectangle(x: float, y: float, style: dict[str, Any]) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, **style)


def _upright(labels: list[str]) -> bool:
    """Whether a label is too wide to be written across its column."""
    return any(width(label) > 2 for label in labels)


def _label_inches(labels: list[str]) -> float:
    if not _upright(labels):
        return 0.2
    em = _POINTS / 72
    return (
        max(_stacked(label) if is_wide(label) else width(label) * 0.62 * em for label in labels)
        + 0.08
    )


def _stacked(label: str) -> float:
    return len(label) * 1.25 * _POINTS / 72


def _write_labels(axes: Axes, labels: list[str], texts: Texts) -> None:
    style: Any = {"fontsize": _POINTS, "family": texts.families, "parse_math": False}
    names = [texts("\n".join(label) if is_wide(label) else label) for label in labels]
    axes.set_xticks(range(len(labels)), names, **style)
    for tick, label in zip(axes.get_xticklabels(), labels, strict=True):
        tick.set_rotation(0 if width(label) <= 2 or is_wide(label) else 90)


def _colour_bar(figure: Figure, image: Any, axes: Axes) -> None:
    bar = figure.colorbar(image, cax=axes, ticks=(0, 0.5, 1))
    bar.ax.tick_params(labelsize=7, length=2)
    bar.set_label("share of p", size=8)
    bar.outline.set_linewidth(0.6)
