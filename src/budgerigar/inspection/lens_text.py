"""The logit lens and a logit taken apart as tables for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from budgerigar.inspection.attribution import Attribution
from budgerigar.inspection.labels import pad, spell, width
from budgerigar.inspection.lens import Lens

_CELL = 15  # columns of a word and its probability
_LABEL = 16  # columns of a position's label, at most
_BAR = 12  # cells of a bar at its longest
Naming = Callable[[int], str]


def naming(tokenizer: Any) -> Naming:
    """id -> a readable name; an id that a padded head has beyond the tokenizer is shown by number."""

    def name(token: int) -> str:
        if token >= getattr(tokenizer, "vocab_size", token + 1):
            return f"id {token}"
        return spell(tokenizer, [token]).labels[0]

    return name


def lens_text(lens: Lens, name: Naming, *, about_next: bool, columns: int | None = None) -> str:
    """A line per position, a column per layer: the likeliest word there, and its probability in %.

    name: id -> word; about_next: a row is about the token after the one that names it. Layers that do
    not fit into `columns` (None: the terminal's) are left out evenly, and named.
    """
    columns = columns or shutil.get_terminal_size().columns
    size = min(_LABEL, max(5, *(width(label) for label in lens.labels)))
    digits = len(str(len(lens.labels) - 1))
    rows = _chosen(len(lens.rows), max(2, (columns - digits - size - 2) // _CELL))
    after = "read" if about_next else "about"
    head = f"{'':{digits}} {pad(after, size)} " + "".join(pad(lens.rows[r], _CELL) for r in rows)
    lines = [head.rstrip()]
    for position, label in enumerate(lens.labels):
        cells = "".join(_cell(lens, row, position, name) for row in rows)
        lines.append(f"{position:>{digits}} {pad(label, size)} {cells}".rstrip())
    away = lens.divergence.mean(axis=1)
    lines.append(f"{'':{digits}} {pad('nats away', size)} " + "".join(
        pad(f"{away[row]:.2f}", _CELL) for row in rows
    ).rstrip())  # fmt: skip
    lines.append("")
    lines.append(
        "= is the word that the model settles on; nats away: KL(last layer || this one), mean"
    )
    if about_next:
        lines.append("a row is about the token that comes after the one that names it")
    if len(rows) < len(lens.rows):
        left = [lens.rows[r] for r in range(len(lens.rows)) if r not in rows]
        lines.append(f"left out for want of room: {', '.join(left)}")
    return "\n".join(lines)


def _chosen(n: int, room: int) -> list[int]:
    """The first, the last, and what fits between, evenly."""
    if n <= room:
        return list(range(n))
    return sorted({round(float(x)) for x in np.linspace(0, n - 1, room)})


def _cell(lens: Lens, row: int, position: int, name: Naming) -> str:
    token, chance = int(lens.top[row, position, 0]), float(lens.chances[row, position, 0])
    mark = "=" if token == lens.final[position] else " "
    return f"{mark}{pad(name(token), _CELL - 7)} {100 * chance:>3.0f}  "


def attribution_text(
    found: Attribution,
    label: str,
    name: Naming,
    frozen: Sequence[str] = (),
    *,
    about_next: bool,
    top: int = 12,
) -> str:
    """A logit as a sum: its parts by layer, the `top` strongest single ones, and the check.

    label: of the row; frozen: the norms whose scales were held, in words.
    """
    where = f"{'after' if about_next else 'at'} “{label}” (position {found.position})"
    what = f"logit of “{name(found.token)}”"
    if found.against is not None:
        what += f" minus that of “{name(found.against)}”"
    lines = [f"{what} {where}: {found.logit:.4f}", ""]
    lines += _bars([*found.by_layer(), ("their sum", found.total)])
    lines += ["", f"the strongest of {len(found.parts)} parts"]
    lines += _bars([(part.name, part.logit) for part in found.strongest(top)])
    lines += [
        "",
        f"the parts sum to {found.total:.4f}; the model's own is {found.logit:.4f} "
        f"(difference {found.difference:.0e} of the largest logit)",
    ]
    if frozen:
        lines.append(f"held as they were, so that it is a sum: {', '.join(frozen)}")
    return "\n".join(lines)


def _bars(rows: list[tuple[str, float]]) -> list[str]:
    """`name  value  ──`: bars to the left for what lowers, to the right for what raises."""
    size = max((width(text) for text, _ in rows), default=0)
    largest = max((abs(value) for _, value in rows), default=0.0) or 1.0
    lines = []
    for text, value in rows:
        bar = "█" * round(_BAR * abs(value) / largest)
        sides = f"{bar:>{_BAR}}│" if value < 0 else f"{'':{_BAR}}│{bar}"
        lines.append(f"  {pad(text, size)} {value:>9.3f}  {sides}".rstrip())
    return lines
