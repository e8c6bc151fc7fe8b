"""An n-gram's backing off in a terminal: a strip under the text, and one token's table."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from budgerigar.inspection.back_off import BackOff, TokenBackOff
from budgerigar.inspection.labels import pad, shorten, width
from budgerigar.inspection.palette import Depth, depth_of, ink, paint, viridis
from budgerigar.inspection.surprise import FULL_SCALE

NAMES = {"kneser-ney": "Kneser-Ney", "witten-bell": "Witten-Bell"}
HEADS = ("token", "seen", "nats")
MOST_TOKENS = 600  # of a strip; a picture or a page has more room
_LABEL = 10
_CONTEXT = 28


def strip_text(found: BackOff, *, columns: int | None = None, depth: Depth | None = None) -> str:
    """Three lines under each other: tokens, the longest n-gram seen, nats; then a summary."""
    columns = columns or shutil.get_terminal_size().columns
    depth = depth or depth_of(sys.stdout)
    lines = [*heading(found), ""]
    room = max(columns - len(HEADS[0]), 12)
    block: list[list[str]] = [[], [], []]
    used = 0
    shown = list(zip(found.trace.labels, found.tokens, strict=True))[:MOST_TOKENS]
    for label, token in shown:
        size = max(5, min(_LABEL, width(label)) + 1)
        if used and used + size > room:
            lines += [*_rows(block), ""]
            block, used = [[], [], []], 0
        for row, cell in zip(block, _cells(found, label, token, size, depth), strict=True):
            row.append(cell)
        used += size
    lines += [*_rows(block), ""]
    left = len(found.tokens) - len(shown)
    if left:
        lines += [f"… and {left:,} more tokens", ""]
    return "\n".join([*lines, *summary(found)])


def heading(found: BackOff) -> list[str]:
    """What is looked at, and how exact it is."""
    return [
        found.about,
        f"order {found.order}, {NAMES[found.smoothing]}, {found.vocab_size:,} pieces; the parts add "
        f"up to the model's own probabilities within {found.difference:.0e}",
    ]


def _rows(block: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"{head:<5}" + "".join(cells).rstrip() for head, cells in zip(HEADS, block, strict=True)
    ]


def _cells(
    found: BackOff, label: str, token: TokenBackOff | None, size: int, depth: Depth
) -> tuple[str, str, str]:
    name = " " + pad(shorten(label, size - 1), size - 1, right=True)
    if token is None:
        return name, " " * size, " " * size
    seen = _coloured(str(token.matched), size, token.matched / found.order, depth)
    return name, seen, _coloured(f"{token.nats:.1f}", size, token.nats / FULL_SCALE, depth)


def _coloured(text: str, size: int, share: float, depth: Depth) -> str:
    background = viridis(share, depth)
    return " " + paint(text.rjust(size - 1), depth, background, ink(background))


def summary(found: BackOff) -> list[str]:
    """How many tokens were reached by each length, and what they cost."""
    tokens = found.predicted
    if not tokens:
        return ["a single token: nothing is predicted"]
    nats = sum(token.nats for token in tokens)
    lines = [
        f"{nats:.2f} nats over {len(tokens)} tokens, {nats / len(tokens):.3f} each. By the longest "
        "n-gram seen, context and token:"
    ]
    for length in range(found.order, -1, -1):
        group = [token.nats for token in tokens if token.matched == length]
        if group:
            words = f"{length} token{'' if length == 1 else 's'}" if length else "never seen"
            share, mean = 100 * len(group) / len(tokens), sum(group) / len(group)
            lines.append(f"  {words:<10} {len(group):>5} ({share:3.0f} %)  {mean:6.2f} nats each")
    return lines


def step_text(found: BackOff, token: TokenBackOff) -> str:
    """One token: each length from the longest, what it knew and what it adds."""
    rows = [list(COLUMNS), *table_rows(found, token)]
    sizes = [max(width(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [*sentences(found, token), ""]
    for row in rows:
        cells = [
            pad(cell, size, right=column != 1)
            for column, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    guesses = ", ".join(f"{name} {chance:.3f}" for name, chance in found.likeliest(token))
    return "\n".join([*lines, f"likeliest here: {guesses}"])


COLUMNS = (
    "length",
    "after",
    "times",
    "kinds",
    "count",
    "taken",
    "own part",
    "left",
    "adds",
    "share",
)


def sentences(found: BackOff, token: TokenBackOff) -> list[str]:
    """What was known, in words."""
    before = shorten(found.joined(token.context), _CONTEXT)
    known = token.context[len(token.context) - token.context_matched :]
    lines = [
        f"“{token.label}” at position {token.position}"
        + (f", after “{before}”" if token.context else ", with nothing before it that counts")
        + f": probability {number(token.probability)}, {token.nats:.2f} nats"
    ]
    if not token.context:
        return lines
    if not known:
        return [*lines, "the training text never goes on from any of these contexts"]
    of = f"{len(known)} of {len(token.context)} token{'' if len(token.context) == 1 else 's'}"
    context = f"“{shorten(found.joined(known), _CONTEXT)}” ({of})"
    if token.matched == len(known) + 1:
        how = f"and “{token.label}” is one of its continuations"
    elif token.matched:
        how = f"but with “{token.label}” only after the last {token.matched - 1}"
        how = how if token.matched > 1 else f"but “{token.label}” only elsewhere"
    else:
        how = f"and “{token.label}” was never seen at all"
    return [*lines, f"longest context known: {context}, {how}"]


def table_rows(found: BackOff, token: TokenBackOff) -> list[list[str]]:
    """Cells of the table, `COLUMNS` wide, the longest length first."""
    rows = []
    left = 1.0
    for step in token.steps:
        context = found.joined(token.context[len(token.context) - step.order + 1 :])
        row = [str(step.order), shorten(context, _CONTEXT) or "(nothing)"]
        if step.known:
            added = step.distinct if found.smoothing == "witten-bell" else 0
            row += [f"{step.total - added:,.0f}", f"{step.distinct:,}", f"{step.count:,}"]
            row += ["" if added else f"{step.discount:.2f}", number(step.own)]
        else:
            row += ["never", "", "", "", ""]
        part, share = token.parts[step.order], token.shares[step.order]
        rows.append([*row, number(left), number(part), f"{100 * share:.1f} %"])
        left *= step.weight
    row = ["", f"any of {found.vocab_size:,}", "", "", "", "", number(token.explanation.uniform)]
    rows.append([*row, number(left), number(token.parts[0]), f"{100 * token.shares[0]:.1f} %"])
    return rows


def explained(found: BackOff) -> list[str]:
    """What the columns mean."""
    lines = ["times: the context was seen; kinds: different tokens after it; count: with this one"]
    if found.smoothing == "witten-bell":
        lines.append(
            "own part = count / (times + kinds); kinds / (times + kinds) goes to the next row"
        )
    else:
        lines += [
            "own part = (count - taken) / times; what was taken from all counts goes to the next row",
            f"below length {found.order} a count is how many different tokens stood before",
        ]
    return [*lines, "left: what the rows above handed down; adds = own part x left"]


def number(value: float) -> str:
    """A probability: 0.6320, or 3e-07 where that would be 0.0000."""
    return f"{value:.4f}" if value >= 5e-4 or value == 0 else f"{value:.0e}"
