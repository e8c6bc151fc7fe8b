"""Head roles as a table: which head has which role, by which numbers; and each head's badges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from budgerigar.inspection.labels import pad
from budgerigar.inspection.role_names import BROAD, CONFIDENT
from budgerigar.inspection.role_scores import SINK_EPSILON

if TYPE_CHECKING:
    from budgerigar.inspection.role_results import HeadRoles, RoleRow, SiteRoles

MOST_HEADS = 3  # of one role
MOST_LISTED = 24  # heads without a badge are left out of longer lists

EXPLAINED = f"""\
score      mean weight on what is right, over the rows that have something to find; 1: perfect
uniform    the same of a head that looks at all it sees alike; untrained: the best head before training
fixed      recall of the best fixed distance (-1: the token before)
recall     rows whose largest weight is right; precision: of those that do not rest on an end or start
elsewhere  weight that other rows give to the same words: near the score, it tells nothing of the row
entropy    0: one key, 1: all alike (broad from {BROAD:g})
largest    mean of the largest weight (confident from {CONFIDENT:g})
sink       share of the texts of which over {SINK_EPSILON:g} rests on the first token
A weight is no proof of use: --head-off shows what is lost without a head."""

_COLUMNS = {
    "score": 6,
    "uniform": 9,
    "untrained": 11,
    "fixed": 12,
    "recall": 8,
    "precision": 11,
    "elsewhere": 11,
    "rows": 7,
}
_NAME, _HEAD = 20, 8


def roles_text(roles: HeadRoles) -> str:
    """All kinds of attention, one table each."""
    return "\n\n".join(site_text(site, alone=len(roles) == 1) for site in roles)


def site_text(site: SiteRoles, alone: bool = True) -> str:
    """Roles, what they were measured on, then heads."""
    texts = list(dict.fromkeys(row.on for row in site.rows if row.reason is None))
    letters = {on: chr(ord("a") + n) for n, on in enumerate(texts)}
    title = f"{len(site.names)} head{'' if len(site.names) == 1 else 's'}"
    title = title if alone else f"{site.of}, {site.kind}-attention: {title}"
    heads = "".join(name.rjust(width) for name, width in _COLUMNS.items())
    lines = [title, f"{pad('role', _NAME)}{pad('head', _HEAD)}{heads}  on"]
    for row in site.rows:
        lines += role_lines(row, letters.get(row.on, ""))
    lines += [f"{letter}: {on}" for on, letter in letters.items()]
    return "\n".join([*lines, "", *_head_lines(site)])


def role_lines(row: RoleRow, on: str = "") -> list[str]:
    """The heads that have a role, strongest first; or that none has, or that it was not measured."""
    name, blank = pad(row.role.name, _NAME), " " * _NAME
    if row.reason is not None:
        return [f"{name}not measured: {row.reason}"]
    found, best = row.found, row.best
    if not found:
        assert best is not None
        return [f"{name}not found; the best head:", f"{blank}{_numbers(row, best)}  {on}"]
    lines = [
        f"{blank if n else name}{_numbers(row, head)}  {on}"
        for n, head in enumerate(found[:MOST_HEADS])
    ]
    if len(found) > MOST_HEADS:
        names = ", ".join(row.names[n] for n in found[MOST_HEADS : MOST_HEADS + 6])
        more = len(found) - MOST_HEADS - 6
        lines.append(f"{blank}also {names}{f' and {more} more' if more > 0 else ''}")
    return lines


def _numbers(row: RoleRow, n: int) -> str:
    at, untrained, rest = row.offset_at[n], row.best_untrained, row.role.kind == "rest"
    cells = [
        _share(row.score[n]),
        _share(row.null[n]),
        "-" if untrained is None else _share(untrained),
        "" if at is None or rest else f"{row.offset[n]:.2f} ({-at:+d})",
        _share(row.recall[n]),
        "" if rest else _share(row.precision[n]),
        _share(row.elsewhere[n]) if row.role.kind == "gold" else "",
        f"{int(row.rows[n]):,}",
    ]
    sized = zip(cells, _COLUMNS.values(), strict=True)
    return pad(row.names[n], _HEAD) + "".join(cell.rjust(width) for cell, width in sized)


def _share(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "-"


def _head_lines(site: SiteRoles) -> list[str]:
    badges = site.badges()
    shown = [n for n, name in enumerate(site.names) if badges[name]]
    if len(site.names) <= MOST_LISTED:
        shown = list(range(len(site.names)))
    shown = shown[: 2 * MOST_LISTED]
    lines = [f"{pad('head', _HEAD)}{'entropy':>8}{'largest':>9}{'sink':>7}  roles"]
    for n in shown:
        name = site.names[n]
        lines.append(
            f"{pad(name, _HEAD)}{_share(site.entropy[n]):>8}{_share(site.confidence[n]):>9}"
            f"{_share(site.sink_rate[n]):>7}  {', '.join(badges[name]) or 'none found'}"
        )
    left = len(site.names) - len(shown)
    if left:
        lines.append(f"… and {left} more heads")
    return lines
