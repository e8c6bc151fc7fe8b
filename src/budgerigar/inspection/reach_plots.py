"""The reach of several models in one picture: gradient norm by distance, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.plots import Texts, blank_figure, fit, write_title
from budgerigar.inspection.reach import Reach
from budgerigar.inspection.reach_text import THRESHOLD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe & Ito's, told apart by colour-blind eyes too."""
STYLES = ("-", "--", "-.", ":")
INCHES = (8.6, 5.2)
LOWEST = 1e-8  # shares below are not drawn


def reach_figure(found: Sequence[Reach], about: str = "", text_only: bool = False) -> Figure:
    """One line per model, its quartiles over predictions behind it; a model's end as a cliff."""
    if not found:
        raise UserError("there is nothing to draw")
    names = [one.name or "this model" for one in found]
    texts = Texts([*names, about], text_only)
    figure = blank_figure(INCHES)
    axes = figure.add_axes((0.105, 0.125, 0.865, 0.745))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for n, (one, name) in enumerate(zip(found, names, strict=True)):
        style: Any = {"color": COLOURS[n % len(COLOURS)], "linestyle": STYLES[n % len(STYLES)]}
        _line(axes, one, texts(name), style)
    _ends(axes, found)
    style = {"family": texts.families, "size": 9}
    axes.legend(loc="lower left", framealpha=0.85, edgecolor="none", prop=style)
    axes.set_xlabel("tokens back from the predicted one (1: directly before it)")
    axes.set_ylabel("gradient norm / that of the nearest token")
    axes.grid(alpha=0.2, which="major")
    about = texts(fit(about, INCHES[0]))
    write_title(figure, "How far back the gradient of a prediction reaches", about, texts.families)
    return figure


def _line(axes: Any, one: Reach, name: str, style: dict[str, Any]) -> None:
    if not len(one.distances):  # an n-gram
        label = f"{name}: sees {one.sees}, has no gradient"
        axes.axvline((one.sees or 0) + 0.5, label=label, linewidth=1.4, **style)
        return
    smooth = one.smooth()
    seen = smooth > 0
    last = int(np.flatnonzero(seen)[-1]) + 1 if seen.any() else 0
    how = "state carried" if one.carried else f"window of {len(smooth)}"
    cliff = one.sees is not None and one.sees < len(smooth)
    label = f"{name} ({f'sees {one.sees}' if cliff else how})"
    x = one.distances[:last]
    axes.plot(x, smooth[:last], label=label, linewidth=1.8, zorder=3, **style)
    low, high = np.maximum(one.band[:, :last], LOWEST / 10)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
    if cliff and last:  # exactly 0 from here on
        axes.vlines(last, LOWEST / 10, smooth[last - 1], linewidth=1.2, **style)
        axes.plot([last], [smooth[last - 1]], "o", color=style["color"], markersize=4, zorder=4)


def _ends(axes: Any, found: Sequence[Reach]) -> None:
    """The axes' limits, and the line below which a gradient counts as faded."""
    from matplotlib.ticker import FuncFormatter

    ends = [len(one.distances) or (one.sees or 0) + 0.5 for one in found]  # 0.5: an n-gram's line
    longest = max([*ends, *(one.sees or 0 for one in found)])
    drawn = [one.smooth() for one in found if len(one.distances)]
    positive = np.concatenate([values[values > 0] for values in drawn] or [np.ones(1)])
    lowest = max(LOWEST, float(positive.min(initial=1.0)) / 3)
    axes.set_ylim(min(lowest, THRESHOLD / 3), max(2.0, float(positive.max(initial=1.0)) * 1.6))
    axes.set_xlim(0.93, max(2.0, longest * 1.08))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.axhline(THRESHOLD, color="#888888", linewidth=0.8, linestyle=(0, (1, 2)))
    label = f"{THRESHOLD:.0%} of the nearest"
    axes.text(0.995, THRESHOLD, label, transform=axes.get_yaxis_transform(), size=7.5,
              color="#666666", ha="right", va="bottom")  # fmt: skip
