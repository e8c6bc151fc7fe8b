"""The gates of a recurrent layer in a terminal: what each token did, all units of a gate, one unit."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence

import numpy as np

from budgerigar.inspection.gates import CELL_NAMES, KEEPS, LayerGates
from budgerigar.inspection.gates_units import best_properties, followers
from budgerigar.inspection.labels import pad, shorten, width
from budgerigar.inspection.palette import Depth, depth_of, diverging, ink, paint, viridis
from budgerigar.inspection.terminal import bars, coloured_text

CLOSED, OPEN = 0.1, 0.9
"""Beyond these a gate counts as shut and as open (Karpathy et al. 2015: left- and right-saturated)."""
_MOST_TOKENS = 80  # rows of the table; a longer text shows its beginning and its end
_LABEL = 14
_LINES = 24  # of a map of units
_NAMED = 3
SHOWN = 0.05
"""Tokens of memory that would be written 0.0."""
_ALIKE = 0.15  # of values between -1 and 1


def summary(gates: LayerGates, depth: Depth | None = None) -> str:
    """The whole layer: its gates, its memory, and a row per token."""
    depth = depth or depth_of(sys.stdout)
    parts = [heading(gates), *_gate_rows(gates), *memory_lines(gates), *_following(gates), ""]
    return "\n".join([*parts, *_token_rows(gates, depth)])


def heading(gates: LayerGates) -> str:
    """What is looked at, and how far what was computed again is from it."""
    lines = [gates.about] if gates.about else []
    layers = f" of L0 to L{gates.n_layers - 1}" if gates.n_layers > 1 else ""
    lines.append(
        f"{CELL_NAMES[gates.kind]}, layer {gates.name}{layers}, {gates.n_units} units; computed again "
        f"from its weights: within {gates.difference:.0e} of the model's own values"
    )
    return "\n".join(lines)


def _gate_rows(gates: LayerGates) -> list[str]:
    if not gates.gates:
        return ["", "no gates: each state is written anew, tanh(W x + U h)"]
    rows = [f"{'gate':<8}{'mean':>6}{f'<{CLOSED:g}':>8}{f'>{OPEN:g}':>8}   most open units"]
    for name in gates.gates:
        values = gates.values[name]
        means = values.mean(0)
        best = np.argsort(-means, kind="stable")[:_NAMED]
        units = ", ".join(f"U{unit} {means[unit]:.2f}" for unit in best)
        keeps = "  (open: keeps)" if KEEPS.get(gates.kind) == name else ""
        rows.append(
            f"{short(name):<8}{values.mean():>6.2f}{100 * (values < CLOSED).mean():>6.0f} %"
            f"{100 * (values > OPEN).mean():>6.0f} %   {units}{keeps}"
        )
    return ["", *rows]


def short(part: str) -> str:
    """`forget_gate` as `forget`."""
    return part.removesuffix("_gate")


def memory_lines(gates: LayerGates) -> list[str]:
    """How long the units remember, by the gate that keeps."""
    lengths = gates.memory_lengths
    longest = ", ".join(f"U{unit} {tokens(lengths[unit])}" for unit in gates.order[:_NAMED])
    by = (
        "the likeness of neighbours"
        if gates.kept is None
        else f"the {short(KEEPS[gates.kind])} gate"
    )
    half, tenth = np.quantile(lengths, (0.5, 0.9))
    below = f"under {tokens(half)}" if half >= SHOWN else "without any"
    above = f"over {tokens(tenth)}" if tenth >= SHOWN else "with hardly any"
    return [
        "",
        f"memory by {by}, tokens until 1/e is left: half of the units {below}, a tenth {above}; "
        f"longest: {longest}",
    ]


def tokens(number: float) -> str:
    """A length of memory: 0, 0.4, 12, 1,234; far beyond any text: ∞."""
    if number >= 1e6:
        return "∞"
    if number < SHOWN:
        return "0"
    return f"{number:.1f}" if number < 9.95 else f"{number:,.0f}"


def _following(gates: LayerGates) -> list[str]:
    found = [one for one in followers(gates) if one.is_more]
    if not found:
        return []
    rows = [
        f"  {one.follows}: {gates.name}.U{one.unit}, correlation {one.correlation:+.2f} "
        f"(best of all units by chance: {one.chance:.2f})"
        for one in sorted(found, key=lambda one: abs(one.correlation), reverse=True)
    ]
    return ["", "units that follow the text:", *rows]


def _token_rows(gates: LayerGates, depth: Depth) -> list[str]:
    """A row per token: mean of each gate, what stays, how long the state is, what changed most."""
    names = gates.gates
    change = gates.memory - gates.memory_before
    state = "|cell|" if gates.kind == "lstm" else "|state|"
    norms = np.linalg.norm(gates.memory, axis=1)
    label = min(_LABEL, max(map(width, gates.labels), default=1))
    digits = len(str(len(gates.labels) - 1))
    head = "".join(f"{short(name):>8}" for name in names)
    head += f"{'kept':>8}" if gates.kept is not None else ""
    rows = [f"{pad('token', digits + label + 1)}{head}{state:>9}   changed most"]
    for at in _shown(len(gates.labels)):
        if at is None:
            rows.append(" " * digits + " …")
            continue
        cells = "".join(_cell(float(gates.values[name][at].mean()), depth) for name in names)
        if gates.kept is not None:
            cells += _cell(float(gates.kept_share[at]), depth)
        most = np.argsort(-np.abs(change[at]), kind="stable")[:2]
        moved = "  ".join(f"U{unit} {change[at, unit]:+.2f}" for unit in most)
        name = pad(gates.labels[at], label)
        rows.append(f"{at:>{digits}} {name}{cells}{norms[at]:>9.2f}   {moved}")
    return rows


def _shown(length: int) -> list[int | None]:
    """Positions with a row; None: here some are left out."""
    if length <= _MOST_TOKENS:
        return list(range(length))
    half = _MOST_TOKENS // 2
    return [*range(half), None, *range(length - half, length)]


def _cell(value: float, depth: Depth) -> str:
    """A share between 0 and 1, on its colour."""
    if np.isnan(value):
        return f"{'–':>8}"
    background = viridis(value, depth)
    return "  " + paint(f"{value:>5.2f} ", depth, background, ink(background))


def gate_map(
    gates: LayerGates, part: str, *, columns: int | None = None, depth: Depth | None = None
) -> str:
    """All units of one part over the text: the longest memory at the top, neighbours averaged."""
    columns = columns or shutil.get_terminal_size().columns
    depth = depth or depth_of(sys.stdout)
    part = gates.part(part)
    values = gates.values[part][:, gates.order].T  # (H,T), longest memory first
    groups = np.array_split(np.arange(len(values)), min(len(values), _LINES))
    means = np.stack([values[group].mean(0) for group in groups])  # (lines,T)
    names = [f"{tokens(float(np.median(gates.memory_lengths[gates.order[g]])))} " for g in groups]
    label = max(6, *map(len, names))
    share, scale = _scale(gates, part, means)
    room = max(8, (columns - label - 1) // (1 if depth != "none" else 2))
    lines = [heading(gates), "", f"{short(part)}: rows are {_what(gates, groups)}"]
    lines.append("left: tokens of memory; columns: the tokens of the text")
    for start in range(0, means.shape[1], room):
        stop = min(means.shape[1], start + room)
        lines += ["", *_panel(gates, means, names, range(start, stop), label, depth, share)]
    return "\n".join([*lines, "", scale])


def _what(gates: LayerGates, groups: Sequence[np.ndarray]) -> str:
    largest = max(map(len, groups))
    each = "single units" if largest == 1 else f"means of up to {largest} units"
    return f"{each}, the longest memory at the top"


def _scale(
    gates: LayerGates, part: str, means: np.ndarray
) -> tuple[Callable[[float, Depth], tuple[int, int, int]], str]:
    """The colour of a value, and the scale in words."""
    if part in gates.gates:
        return viridis, "colour or digit (tenths): 0 shut … 1 open"
    top = float(np.abs(means).max()) or 1.0
    words = f"blue or −: below 0, red or +: above 0, up to {top:.2g} (means of units)"
    return (lambda value, depth: diverging(value / top, depth)), words


def _panel(
    gates: LayerGates,
    means: np.ndarray,
    names: Sequence[str],
    places: range,
    label: int,
    depth: Depth,
    colour: Callable[[float, Depth], tuple[int, int, int]],
) -> list[str]:
    """Some tokens: their text above, a line of cells per group of units."""
    cell = 1 if depth != "none" else 2
    text = "".join(pad(_initial(gates.labels[at]), cell) for at in places)
    lines = [" " * label + text]
    shares = part_marks(means)
    for row, name in enumerate(names):
        cells = "".join(
            paint(" " * cell, depth, colour(float(means[row, at]), depth))
            if depth != "none"
            else pad(shares[row][at], cell)
            for at in places
        )
        lines.append(f"{name:>{label}}" + cells)
    return lines


def _initial(label: str) -> str:
    """The first character of a token that is more than a blank."""
    return next((c for c in label if c != "␣"), label[:1])


def part_marks(means: np.ndarray) -> list[list[str]]:
    """Cells without colours: tenths of a gate; of a part with signs their sign, where it is large."""
    if float(means.min(initial=0.0)) >= 0:
        return [["." if v < 0.05 else str(min(9, int(v * 10 + 0.5))) for v in row] for row in means]
    top = float(np.abs(means).max()) or 1.0
    return [["·" if abs(v) < top / 4 else "+" if v > 0 else "−" for v in row] for row in means]


def unit_text(
    gates: LayerGates, unit: int, *, columns: int | None = None, depth: Depth | None = None
) -> str:
    """One unit: the text coloured by what it holds, and where it writes and forgets most."""
    depth = depth or depth_of(sys.stdout)
    parts = gates.unit(unit)
    values = gates.shown[:, unit]
    pieces, shares = _runs(gates.spelling.pieces, values, depth)
    notes = [f"{share:+.1f}" for share in shares]
    holds = "tanh of the cell" if gates.kind == "lstm" else "the state"
    kept = None if gates.kept is None else gates.kept[:, unit]
    lines = [heading(gates), ""]
    memory = f"memory {tokens(float(gates.memory_lengths[unit]))} tokens"
    if kept is not None:
        memory += f" (mean {short(KEEPS[gates.kind])} gate {kept.mean():.3f})"
    followed = best_properties(gates)[unit]
    if followed is not None:
        memory += f"; follows best: {followed[0]} (correlation {followed[1]:+.2f})"
    lines += [f"unit {gates.name}.U{unit}: {memory}", ""]
    text = coloured_text(
        pieces, shares, columns=columns, depth=depth, notes=notes, colour=diverging
    )
    lines += [text, "", f"colour or brackets: {holds}, −1 blue … 0 … +1 red", ""]
    for name, value in parts.items():
        lines.append(_extremes(gates, name, value))
    if gates.gates:
        lines += ["", "gates, mean over the text:"]
        lines.append(bars([(short(name), float(parts[name].mean())) for name in gates.gates]))
    return "\n".join(lines)


def _runs(pieces: Sequence[str], values: np.ndarray, depth: Depth) -> tuple[list[str], list[float]]:
    """Pieces and their values; without colours, neighbours that hardly differ are one piece."""
    if depth != "none":
        return list(pieces), values.tolist()
    found: list[str] = []
    runs: list[list[float]] = []
    for piece, value in zip(pieces, values.tolist(), strict=True):
        same = runs and abs(runs[-1][0] - value) < _ALIKE
        if same and not found[-1].endswith("↵"):
            found[-1] += piece
            runs[-1].append(value)
        else:
            found.append(piece)
            runs.append([value])
    return found, [float(np.mean(run)) for run in runs]


def _extremes(gates: LayerGates, name: str, values: np.ndarray) -> str:
    """Where a part of one unit is largest and smallest over the text."""
    order = np.argsort(values, kind="stable")

    def named(places: np.ndarray) -> str:
        return ", ".join(
            f"{shorten(gates.labels[at], _LABEL)} (position {at}) {values[at]:+.2f}"
            for at in places
        )

    return f"{short(name):<10} highest at {named(order[::-1][:2])}; lowest at {named(order[:2])}"
