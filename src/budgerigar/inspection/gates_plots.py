"""Pictures of gates: units x tokens for each part of a layer, and one unit over the text.

Rows are units, the longest memory at the top; columns the tokens in order of the text. Gates are shares
from 0 (shut) to 1 (open), in viridis; what has a sign (candidate, cell, hidden) is red above 0 and blue
below, on limits of its own, which the colour bar says.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.inspection.gates import CELL_NAMES, KEEPS, LayerGates
from budgerigar.inspection.gates_text import short, tokens
from budgerigar.inspection.labels import shorten, width
from budgerigar.inspection.plots import Texts, blank_figure, fit, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 16.0  # inches of the tokens
_CELL = 0.17  # inches of a token, where they fit
_HIGH = 1.7  # inches of a part with many units
_LABEL = 10  # columns; a longer label of a token loses its middle
_LEFT, _RIGHT, _GAP = 1.25, 1.0, 0.34
_LETTER = 0.06  # inches of a letter of 7.5 points, about
_POINTS = 7.5
_UP, _DOWN = "#b2182b", "#2166ac"
MEANING = {
    "input_gate": "open lets the candidate in",
    "forget_gate": "open keeps the cell",
    "output_gate": "open shows the cell",
    "reset_gate": "open shows the candidate the past",
    "update_gate": "open keeps the state",
    "candidate": "what would be written",
    "cell": "what is remembered",
    "hidden": "what is shown on",
}
_COLOURS = {
    "input_gate": "#009e73", "forget_gate": "#0072b2", "output_gate": "#e69f00",
    "reset_gate": "#009e73", "update_gate": "#0072b2",
}  # fmt: skip


def gates_figure(
    gates: LayerGates, parts: Sequence[str] | None = None, text_only: bool = False
) -> Figure:
    """Every part of a layer (or those named), one below the other on the same tokens."""
    names = list(gates.values) if parts is None else [gates.part(part) for part in parts]
    wide = max(4.2, min(WIDEST, len(gates.labels) * _CELL))
    high = max(0.25, min(_HIGH if len(names) > 1 else 2.6 * _HIGH, gates.n_units * _CELL))
    foot = textwrap.fill(_footer(gates), int((_LEFT + wide + _RIGHT - 0.24) / _LETTER))
    floor = 0.4 + 0.13 * foot.count("\n") + _label_room(gates)
    inches = (_LEFT + wide + _RIGHT, 0.6 + len(names) * (high + _GAP) + floor)
    figure = blank_figure(inches)
    texts = Texts([*gates.labels, gates.about], text_only)
    for number, name in enumerate(names):
        bottom = inches[1] - 0.6 - (number + 1) * (high + _GAP)
        box = (_LEFT / inches[0], bottom / inches[1], wide / inches[0], high / inches[1])
        axes = figure.add_axes(box)
        image = _heat(axes, gates, name)
        axes.set_title(f"{short(name)}: {MEANING[name]}", size=8.5, loc="left", pad=3)
        axes.set_xticks([])
        if number == len(names) - 1:
            _tokens(axes, gates, wide, texts)
        _units(axes, gates, high)
        _colour_bar(figure, image, name, gates, (box[0] + box[2] + 0.12 / inches[0], *box[1:]))
    title = f"{CELL_NAMES[gates.kind]}, layer {gates.name}, {gates.n_units} units"
    write_title(figure, title, texts(fit(gates.about, inches[0])), texts.families)
    figure.text(0.12 / inches[0], 0.1 / inches[1], foot, size=7.5, color="#444444")
    return figure


def _footer(gates: LayerGates) -> str:
    by = "likeness of neighbours" if gates.kept is None else f"mean {short(KEEPS[gates.kind])} gate"
    return (
        f"rows: units, the longest memory first; beside a unit its memory in tokens (by its {by}); "
        f"computed again from the weights within {gates.difference:.0e}"
    )


def _label_room(gates: LayerGates) -> float:
    """Inches for the labels of tokens below the last part, words written upwards."""
    longest = max((width(shorten(label, _LABEL)) for label in gates.labels), default=1)
    return 0.1 + longest * 0.62 * _POINTS / 72


def _heat(axes: Axes, gates: LayerGates, name: str) -> Any:
    """One part, (H,T), its units sorted by memory."""
    values = gates.values[name][:, gates.order].T
    if name in gates.gates:
        low, high, colours = 0.0, 1.0, "viridis"
    else:
        high = largest(gates, name)
        low, colours = -high, "RdBu_r"
    image = axes.imshow(values, aspect="auto", cmap=colours, vmin=low, vmax=high,
                        interpolation="auto", interpolation_stage="data")  # fmt: skip
    axes.tick_params(length=2, labelsize=_POINTS, pad=2)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)
    return image


def largest(gates: LayerGates, name: str) -> float:
    """The end of a signed scale: 1, or for the cell what 99 of 100 values stay below."""
    if name != "cell":
        return 1.0
    return float(np.quantile(np.abs(gates.values[name]), 0.99)) or 1.0


def _tokens(axes: Axes, gates: LayerGates, wide: float, texts: Texts) -> None:
    """The tokens below the columns, every so many where they would touch."""
    stride = max(1, int(np.ceil(_POINTS * 1.1 / 72 / (wide / len(gates.labels)))))
    places = range(0, len(gates.labels), stride)
    style: Any = {"fontsize": _POINTS, "family": texts.families, "parse_math": False}
    names = [texts(shorten(gates.labels[at], _LABEL)) for at in places]
    upright = all(len(name) <= 1 for name in names)  # characters fit their columns
    axes.set_xticks(list(places), names, rotation=0 if upright else 90, **style)
    if stride > 1:
        axes.set_xlabel(f"tokens, one of {stride} labelled", size=7.5, labelpad=2)


def _units(axes: Axes, gates: LayerGates, high: float) -> None:
    """Some units by name, with their memory."""
    fitting = max(2, int(high / 0.15))
    rows = np.unique(np.linspace(0, gates.n_units - 1, min(gates.n_units, fitting)).astype(int))
    units = gates.order[rows]
    names = [f"U{unit}: {tokens(float(gates.memory_lengths[unit]))}" for unit in units]
    axes.set_yticks(rows.tolist(), names, fontsize=6.5)


def _colour_bar(
    figure: Figure, image: Any, name: str, gates: LayerGates, place: tuple[float, ...]
) -> None:
    left, bottom, _, high = place
    wide = 0.13 / figure.get_size_inches()[0]
    beyond = name == "cell" and float(np.abs(gates.values[name]).max()) > largest(gates, name)
    bar = figure.colorbar(
        image,
        cax=figure.add_axes((left, bottom, wide, high)),
        extend="both" if beyond else "neither",
    )
    if name in gates.gates:
        bar.set_ticks([0, 0.5, 1], labels=["0 shut", "0.5", "1 open"])
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_linewidth(0.6)


def unit_figure(gates: LayerGates, unit: int, text_only: bool = False) -> Figure:
    """One unit over the text: what it holds above, its gates below; dashes where a line ends."""
    parts = gates.unit(unit)
    n_tokens, places = len(gates.labels), np.arange(len(gates.labels))
    wide = max(4.5, min(WIDEST, n_tokens * _CELL))
    panels = 2 if gates.gates else 1
    inches = (0.7 + wide + _RIGHT, 0.6 + panels * 1.65 + 0.2 + _label_room(gates))
    figure = blank_figure(inches)
    texts = Texts([*gates.labels, gates.about], text_only)
    shown = gates.shown[:, unit]
    for number in range(panels):
        bottom = inches[1] - 0.6 - number * 1.65 - 1.5
        size = (wide / inches[0], 1.5 / inches[1])
        axes = figure.add_axes((0.7 / inches[0], bottom / inches[1], *size))
        if number == 0:
            axes.bar(places, shown, width=1.0, linewidth=0, color=np.where(shown > 0, _UP, _DOWN))
            axes.axhline(0, color="#444444", linewidth=0.6)
            axes.set_ylim(-1.05, 1.05)
            axes.set_ylabel("tanh(cell)" if gates.kind == "lstm" else "state", size=8.5)
        else:
            for name in gates.gates:
                line: Any = {"color": _COLOURS[name], "label": short(name), "linewidth": 1.2}
                axes.step(places, parts[name], where="mid", **line)
            axes.set_ylim(-0.03, 1.03)
            axes.set_ylabel("gates", size=8.5)
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        for end in (at for at, label in enumerate(gates.labels) if label == "↵"):
            axes.axvline(end + 0.5, color="#999999", linewidth=0.6, linestyle=(0, (2, 2)), zorder=0)
        axes.set_xlim(-0.5, n_tokens - 0.5)
        axes.set_xticks([])
        axes.tick_params(length=2, labelsize=7, pad=2)
    _tokens(axes, gates, wide, texts)
    memory = f"memory {tokens(float(gates.memory_lengths[unit]))} tokens"
    title = f"{CELL_NAMES[gates.kind]}, unit {gates.name}.U{unit}: {memory}"
    write_title(figure, title, texts(fit(gates.about, inches[0])), texts.families)
    return figure
