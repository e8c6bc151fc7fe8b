"""The reach of several models in words: a table by distance, and what it says."""

from __future__ import annotations

from collections.abc import Sequence

from budgerigar.inspection.labels import pad, width
from budgerigar.inspection.reach import Reach

THRESHOLD = 0.01
"""A gradient below this share of the nearest token's counts as faded."""


def distances_shown(longest: int) -> list[int]:
    """1, 2, 4, 8, … and the last."""
    found = [2**n for n in range(max(1, longest).bit_length())]
    return found if found[-1] == longest else [*found, longest]


def reach_table(found: Sequence[Reach]) -> str:
    """One row per distance, one column per model, then a few lines about each."""
    measured = [one for one in found if len(one.distances)]
    lines = []
    if measured:
        lines = [*_rows(measured), ""]
    lines += [line for one in found for line in about(one)]
    return "\n".join(lines)


def _rows(measured: Sequence[Reach]) -> list[str]:
    longest = max(len(one.distances) for one in measured)
    names = [one.name or "this model" for one in measured]
    wide = [max(9, width(name)) for name in names]
    head = "tokens back"
    lines = [
        f"{head}  " + "  ".join(pad(n, w, right=True) for n, w in zip(names, wide, strict=True))
    ]
    for distance in distances_shown(longest):
        cells = [pad(_cell(one, distance), w, right=True)
                 for one, w in zip(measured, wide, strict=True)]  # fmt: skip
        lines.append(f"{distance:>{len(head)}}  " + "  ".join(cells))
    return lines


def _cell(one: Reach, distance: int) -> str:
    if distance > len(one.shares):
        return "" if one.sees is None or distance <= one.sees else "unseen"
    share = one.smooth()[distance - 1]
    if share == 0:  # exactly, or less than the numbers can hold
        return "0" if one.sees is not None and distance > one.sees else "<1e-50"
    return f"{share:.2g}" if share >= 1e-4 else f"{share:.0e}"


def about(one: Reach) -> list[str]:
    """What was measured on this model, and how far it reaches."""
    name = one.name or "this model"
    if not len(one.distances):
        return [
            f"{name}: an n-gram looks its last {one.sees} tokens up in a table; it has no embeddings, "
            f"so no gradient. Up to {one.sees} tokens back anything may change its guess, beyond "
            "nothing can: a cliff."
        ]
    longest = len(one.distances)
    reads_all = one.carried and one.sees is None  # a feed-forward's state is its last few tokens
    how = "its state had read all that stands before" if reads_all else "it saw only these"
    measured = f"({one.n_positions} predictions, {longest} tokens before each; {how})"
    return [f"{name}: {_ending(one)} {measured}"]


def _ending(one: Reach) -> str:
    longest = len(one.distances)
    if one.sees is not None and one.sees < longest:
        return f"sees {one.sees} tokens, beyond them the gradient is exactly 0: a cliff"
    last = one.last_above(THRESHOLD)
    if last >= longest:
        said = f"at {longest} tokens back still above {THRESHOLD:.0%} of the nearest token's"
    else:
        said = f"below {THRESHOLD:.0%} of the nearest token's from {last + 1} tokens back on"
    if longest >= 4:  # the nearest token's gradient may have a way of its own: a residual stream
        smooth = one.smooth()
        ratio = float(smooth[-1] / smooth[1]) if smooth[1] else 0.0
        said += f"; from 2 to {longest} tokens back it {_change(ratio)}"
    return said


def _change(ratio: float) -> str:
    if 0.5 <= ratio <= 2:
        return f"hardly changes ({ratio:.2g} times)"
    if ratio > 2:
        return f"grows to {ratio:.2g} times"
    return "fades to less than 1e-50 of it" if ratio < 1e-50 else f"fades to {ratio:.0e} of it"


EXPLAINED = (
    "Norm of d log p(next token) / d embedding by distance, the geometric mean over predictions, as a "
    "share of the nearest token's (each number smoothed over a fifth of its distance). Small changes "
    "only: a word that a saturated unit holds has no gradient and still counts. Compare shapes, not "
    "sizes: a gradient's size depends on the scale of the embeddings and the norms above them."
)
