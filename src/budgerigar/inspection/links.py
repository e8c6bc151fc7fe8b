"""Which heads link two words, and whether that is more than distance or chance would give.

A weight alone proves little: a head that always looks three words back gives a high weight to any
word three back, and an untrained model gives about 1/n to every word. So each head's weight stands
beside what the same head gives at the same distance elsewhere in the text, and what the same head
of an untrained copy of the model gives between the same two words.

Words of several tokens: the columns are summed, the rows averaged (Clark et al. 2019, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.labels import Word
from budgerigar.inspection.passes import run
from budgerigar.inspection.places import places
from budgerigar.progress import track
from budgerigar.said import said

if TYPE_CHECKING:
    from budgerigar.inspection.heads import Head
    from budgerigar.inspection.traces import Trace


@dataclass(frozen=True)
class Link:
    """One head. weight: of the link; uniform: if the query looked at all visible keys alike.

    distance: mean weight between the other pairs of the text that are as far apart, over
    `distance_pairs` of them (None when there is no other); untrained: the same link in an untrained
    copy (None when it was not asked for); rank: 1 when no single token gets more of the row.
    """

    name: str
    weight: float
    distance: float | None
    distance_pairs: int
    untrained: float | None
    uniform: float
    rank: int


@dataclass(frozen=True)
class Links(Sequence[Link]):
    """All heads, strongest link first. `str()` is a table.

    query, key: the words and where they stand; rows, columns: their tokens' positions.
    """

    query: str
    key: str
    links: tuple[Link, ...]
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    def __getitem__(self, index: Any) -> Any:
        return self.links[index]

    def __len__(self) -> int:
        return len(self.links)

    def table(self, top: int | None = 12) -> str:
        """The strongest `top` heads as text."""
        lines = [
            f"how much {self.query} looks at {self.key}, by head:",
            f"{'head':<8}{'weight':>7}{'same distance':>16}{'untrained':>11}{'uniform':>9}"
            "  strongest of its row?",
        ]
        for link in self.links[:top]:
            distance = "no other pair" if link.distance is None else f"{link.distance:.3f}"
            untrained = "" if link.untrained is None else f"{link.untrained:.3f}"
            best = "yes" if link.rank == 1 else f"no, number {link.rank}"
            lines.append(
                f"{link.name:<8}{link.weight:>7.3f}{distance:>16}{untrained:>11}"
                f"{link.uniform:>9.3f}  {best}"
            )
        if top is not None and len(self.links) > top:
            lines.append(f"… and {len(self.links) - top} more heads")
        lines.append(
            "same distance: mean weight of the same head between other tokens as far apart; "
            "untrained: the same head of a fresh copy; uniform: all visible keys alike"
        )
        return "\n".join(lines)

    __str__ = table
    __repr__ = table


def rank(
    trace: Trace,
    query: Word,
    key: Word,
    query_occurrence: int | None = None,
    key_occurrence: int | None = None,
    *,
    of: str | None = None,
    kind: str | None = None,
    untrained: bool | Trace = True,
) -> Links:
    """All heads of one kind of attention by the weight with which `query` looks at `key`.

    untrained: compare with an untrained copy; or that copy's trace, where it has been made before.
    """
    site = trace.site(of, kind)
    _check_direction(site, query, key)
    rows = site.query_spelling.find(query, query_occurrence)
    columns = site.key_spelling.find(key, key_occurrence)
    names = (
        [site.query_spelling.labels[r] for r in rows],
        [site.key_spelling.labels[c] for c in columns],
    )
    if kind != "cross" and site.kind == "self" and site.of == "decoder" and columns[0] > rows[-1]:
        raise UserError(
            said(
                "“{query}” (position {row}) cannot look at “{key}” (position {column}), which comes "
                "later; ask for the link from “{key}” to “{query}”",
                query="".join(names[0]),
                row=rows[-1],
                key="".join(names[1]),
                column=columns[0],
            )
        )
    fresh = untrained_copy(trace) if untrained is True else untrained or None
    found = []
    for head in _counted(trace.heads(of=of, kind=kind), len(trace.names(of, kind))):
        weights, visible = head.weights, ~head.mask.hidden
        elsewhere, pairs = same_distance(weights, visible, rows, columns)
        row = weights[rows].mean(axis=0)
        weight = link_weight(weights, rows, columns)
        others = np.delete(row, columns)
        found.append(
            Link(
                head.name,
                weight,
                elsewhere,
                pairs,
                None if fresh is None else _weight_in(fresh, head.name, rows, columns, of, kind),
                _uniform(visible, rows, columns),
                1 + int((others > weight).sum()),
            )
        )
    found.sort(key=lambda link: -link.weight)
    ends = _named(query, rows, names[0]), _named(key, columns, names[1])
    return Links(*ends, tuple(found), tuple(rows), tuple(columns))


def _check_direction(site: Any, query: Word, key: Word) -> None:
    """`UserError` where a source word is asked what it looks at in the translation."""
    if site.kind != "cross" or not isinstance(query, str) or not isinstance(key, str):
        return
    if site.query_spelling.places(query) or site.key_spelling.places(key):
        return
    if site.key_spelling.places(query) and site.query_spelling.places(key):
        raise UserError(
            said(
                "{query!r} is a word of the source and {key!r} of the translation; the translation "
                "looks at the source, so ask the other way round: from {key!r} to {query!r}",
                query=query,
                key=key,
            )
        )


def _counted(heads: Iterable[Head], total: int) -> Iterator[Head]:
    """`heads`, with a progress bar: many heads of a long text take seconds."""
    with track("comparing heads", total, unit="heads") as job:
        for head in heads:
            yield head
            job.advance()


def link_weight(weights: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> float:
    """Mean over the query word's rows of the sum over the key word's columns; weights (T,S)."""
    return float(weights[np.ix_(rows, columns)].sum(axis=1).mean())


def _uniform(visible: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> float:
    """The link's weight if each row looked at all that it sees alike."""
    seen = visible[rows]
    alike = seen[:, columns].sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    return float(alike.mean())


def same_distance(
    weights: np.ndarray, visible: np.ndarray, rows: Sequence[int], columns: Sequence[int]
) -> tuple[float | None, int]:
    """Mean `link_weight` of all other pairs as far apart as rows and columns, and their number.

    The pair is slid along the diagonal by every shift but 0; places where a cell is masked or off
    the matrix do not count.
    """
    lowest = -min(min(rows), min(columns))
    highest = min(weights.shape[0] - 1 - max(rows), weights.shape[1] - 1 - max(columns))
    shifts = np.arange(lowest, highest + 1)
    place = (  # (rows, columns, shifts)
        np.asarray(rows)[:, None, None] + shifts,
        np.asarray(columns)[None, :, None] + shifts,
    )
    seen = visible[place].sum(axis=(0, 1))
    alike = (shifts != 0) & (seen == seen[-lowest])  # as many visible cells as where it stands
    elsewhere = weights[place].sum(axis=1, dtype=np.float64).mean(axis=0)[alike]
    return (float(elsewhere.mean()) if len(elsewhere) else None), len(elsewhere)


def untrained_copy(trace: Trace, seed: int = 0) -> Trace:
    """A trace of the same tokens by a model of the same shape with fresh weights."""
    from budgerigar.inspection.sites import shared_bias
    from budgerigar.inspection.traces import Trace as Made
    from budgerigar.models import build

    network = build(trace.network.config, seed).to(trace.network.device).eval()
    logits, values = run(network, trace.inputs, ())
    fresh = {(place.of, place.kind): place.modules for place in places(network)}
    sites = [
        replace(
            site,
            modules=fresh[site.of, site.kind],
            bias=None if site.bias is None else shared_bias(network, site.of, site.view),
        )
        for site in trace.sites
    ]
    return Made(network, trace.ids, trace.spelling, logits[0], values, sites, "untrained")


def _weight_in(
    trace: Trace,
    name: str,
    rows: Sequence[int],
    columns: Sequence[int],
    of: str | None,
    kind: str | None,
) -> float:
    return link_weight(trace.attention(name, of, kind).weights, rows, columns)


def _named(word: Word, positions: Sequence[int], labels: Sequence[str]) -> str:
    shown = f"“{word}”" if isinstance(word, str) else f"“{''.join(labels)}”"
    ends = f"{positions[0]}" if len(positions) == 1 else f"{positions[0]} to {positions[-1]}"
    return f"{shown} (position{'s' if len(positions) > 1 else ''} {ends})"
