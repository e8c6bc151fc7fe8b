"""Two sentences in one model, or one sentence in two models: what each head does differently.

The tokens of both are aligned first: equal ones, and in between what stands in each other's place
("tired" and "wide"). Where two models cut the text into different tokens, words are compared: the
weights on a word's tokens are summed, the rows of its tokens averaged (Clark et al. 2019, section 5).
Tokenizers may change the text too (small letters, words that they do not know): what then stands in
a word's place may be another word, so most words must be the same, or nothing is compared.
A map holds second - first, so it is positive where the second looks harder; cells that either cannot
see, or that have no counterpart, are told apart from cells that do not differ.

Shapes: R aligned rows, C aligned columns, N heads that both have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.alignments import Words, pool, words_of
from budgerigar.inspection.labels import Spelling, pad, shorten
from budgerigar.inspection.role_scores import uniform_weights
from budgerigar.inspection.sites import Site
from budgerigar.inspection.traces import Trace
from budgerigar.said import said

Units = Literal["tokens", "words"]
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class HeadDifference:
    """One head in both. map (R,C): second - first, 0 where `hidden` says that nothing can be compared.

    moved: mean over rows of half the sum of |difference|: the share of a row's weight that is
    elsewhere, 0 to 1 (total variation; weight on what has no counterpart counts as elsewhere, a
    sink's share and weight on no word are a place that both have).
    largest: (row, column) of the largest difference in size.
    """

    name: str
    map: np.ndarray
    moved: float
    largest: tuple[int, int]


@dataclass(frozen=True)
class Differences(Sequence[HeadDifference]):
    """All heads that both have, in order. `str()` is a table, the most moved first.

    rows, columns: (name in the first, name in the second), aligned; places: where they stand in
    each. hidden (R,C) bool: masked in one of them or in both; once (R,C) bool: in one alone.
    lone_rows, lone_columns: names of those in the first, and in the second, that have no counterpart
    and so no place in a map. alone: heads that only one of them has. units: what rows and columns are.
    """

    units: Units
    rows: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    row_places: tuple[tuple[int, int], ...]
    column_places: tuple[tuple[int, int], ...]
    hidden: np.ndarray
    once: np.ndarray
    lone_rows: tuple[tuple[str, ...], tuple[str, ...]]
    lone_columns: tuple[tuple[str, ...], tuple[str, ...]]
    heads: tuple[HeadDifference, ...]
    alone: tuple[str, ...]
    of: str
    kind: str

    def __getitem__(self, index: Any) -> Any:
        return self.heads[index]

    def __len__(self) -> int:
        return len(self.heads)

    def head(self, name: str) -> HeadDifference:
        """One head by its name."""
        for head in self.heads:
            if head.name == name:
                return head
        raise UserError(f"there is no head {name} in both; there are {self.heads[0].name} to "
                        f"{self.heads[-1].name}")  # fmt: skip

    def table(self, top: int | None = 12) -> str:
        """The most moved heads as text."""
        n = len(self.rows)
        lines = [f"{len(self.heads)} heads compared over {n} {self.units} that both have"]
        lines.append(f"{'head':<8}{'moved':>7}  largest difference (second - first)")
        ranked = sorted(self.heads, key=lambda head: -head.moved)
        for head in ranked[:top]:
            row, column = head.largest
            link = f"{_both(self.rows[row])} → {_both(self.columns[column])}"
            lines.append(
                f"{pad(head.name, 8)}{head.moved:>7.3f}  {link} {head.map[row, column]:+.3f}"
            )
        if top is not None and len(ranked) > top:
            lines.append(f"… and {len(ranked) - top} more heads")
        if self.alone:
            lines.append(f"in one of them only: {', '.join(self.alone[:12])}")
        return "\n".join(lines)

    __str__ = table
    __repr__ = table


def _both(names: tuple[str, str]) -> str:
    return names[0] if names[0] == names[1] else f"{names[0]}/{names[1]}"


def compare_heads(
    first: Trace,
    second: Trace,
    of: str | None = None,
    kind: str | None = None,
    units: Units | None = None,
) -> Differences:
    """What the heads of `second` do otherwise than those of `first` of the same name.

    units: None: tokens, unless both spell the text with different tokens.

    Raises:
        UserError: a kind of attention that one of them lacks, nothing that both have, or two
            tokenizers that made different words of it.
    """
    sites = first.site(of, kind), second.site(of, kind)
    foreign = _readers(first) != _readers(second)
    units = units or _units(sites, foreign)
    sides = [_Side(trace, site, units) for trace, site in zip((first, second), sites, strict=True)]
    match = _matched if foreign else aligned
    rows = match(sides[0].row_names, sides[1].row_names)
    columns = match(sides[0].column_names, sides[1].column_names)
    if not rows or not columns:
        raise UserError(said("the two texts have nothing in common that could be compared"))
    picks = [np.ix_([r[n] for r in rows], [c[n] for c in columns]) for n in (0, 1)]
    shared = [name for name in sides[0].heads if name in set(sides[1].heads)]
    if not shared:
        raise UserError(said("the two models have no head of the same name"))
    heads, hidden, once = _compared(sides, picks, shared)
    everyone = {name for side in sides for name in side.heads}
    return Differences(
        units,
        tuple((sides[0].row_names[a], sides[1].row_names[b]) for a, b in rows),
        tuple((sides[0].column_names[a], sides[1].column_names[b]) for a, b in columns),
        tuple(rows),
        tuple(columns),
        hidden,
        once,
        _lone(rows, *(side.row_names for side in sides)),
        _lone(columns, *(side.column_names for side in sides)),
        tuple(heads),
        tuple(sorted(everyone - set(shared))),
        sites[0].of,
        sites[0].kind,
    )


def _lone(pairs: Pairs, *names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of each side that stand in no pair."""
    matched = [{pair[n] for pair in pairs} for n in (0, 1)]
    first, second = (
        tuple(name for at, name in enumerate(names[n]) if at not in matched[n]) for n in (0, 1)
    )
    return first, second


def _compared(
    sides: Sequence[_Side], picks: Sequence[Any], names: Sequence[str]
) -> tuple[list[HeadDifference], np.ndarray, np.ndarray]:
    """The heads of these names; where one of the two, and where one alone, sees nothing (R,C).

    picks: the aligned rows and columns of each side, as `np.ix_` has them.
    """
    hidden, once = np.zeros((2, len(picks[0][0]), picks[0][1].shape[1]), dtype=bool)
    found = []
    for name in names:
        parts = [side.weights(name) for side in sides]
        seen = [side.visible(name)[pick] for side, pick in zip(sides, picks, strict=True)]
        blind = ~(seen[0] & seen[1])
        hidden |= blind
        once |= seen[0] ^ seen[1]
        cut = [part[pick] for part, pick in zip(parts, picks, strict=True)]
        named = [part[pick[0][:, 0]].sum(-1) for part, pick in zip(parts, picks, strict=True)]
        found.append(_difference(name, cut, named, blind))
    return found, hidden, once


def _difference(
    name: str, cut: Sequence[np.ndarray], named: Sequence[np.ndarray], blind: np.ndarray
) -> HeadDifference:
    """One head, its weights between aligned rows and columns in both; named (R,): each row's sum over
    all columns, aligned or not.
    """
    difference = np.where(blind, 0.0, cut[1] - cut[0])
    # what has no counterpart is elsewhere in one of them
    alone = [whole - part.sum(-1) for whole, part in zip(named, cut, strict=True)]
    nothing = np.abs(named[1] - named[0])  # what a sink or no word takes, it takes in both
    both = 0.5 * (np.abs(cut[1] - cut[0]).sum(-1) + alone[0] + alone[1] + nothing)
    place = np.unravel_index(int(np.abs(difference).argmax()), difference.shape)
    moved = float(np.clip(both, 0.0, 1.0).mean())
    return HeadDifference(name, difference, moved, (int(place[0]), int(place[1])))


def _readers(trace: Trace) -> tuple[str | None, ...]:
    """What its tokenizers are known by."""
    readers = trace.tokenizer, trace.source_tokenizer or trace.tokenizer
    return tuple(None if reader is None else reader.fingerprint for reader in readers)


def _units(sites: tuple[Site, Site], foreign: bool) -> Units:
    """Words where the same text, or that of two tokenizers, is cut into different tokens."""
    for side in ("query_spelling", "key_spelling"):
        first, second = (getattr(site, side) for site in sites)
        if first.spans != second.spans and (foreign or first.text == second.text):
            return "words"
    return "tokens"


def _matched(first: Sequence[str], second: Sequence[str]) -> Pairs:
    """`aligned` between two tokenizers, capitals aside. `UserError` where most of it differs."""
    plain = [[name.casefold() for name in names] for names in (first, second)]
    found = aligned(*plain)
    equal = sum(plain[0][a] == plain[1][b] for a, b in found)
    if 2 * equal < max(len(first), len(second)):
        shown = [f"“{shorten(' '.join(names), 40)}”" for names in (first, second)]
        raise UserError(
            said(
                "the two models' tokenizers make {first} and {second} of the text: most words are not "
                "the same, so there is nothing to compare row by row. Choose a text whose words both "
                "know, or compare two texts in one of the models",
                first=shown[0],
                second=shown[1],
            )
        )
    return found


class _Side:
    """One of the two: names of its rows and columns, and each head's weights between them."""

    def __init__(self, trace: Trace, site: Site, units: Units) -> None:
        self.trace, self.site = trace, site
        self.words: tuple[Words, Words] | None = None
        spellings = site.query_spelling, site.key_spelling
        if units == "words":
            self.words = (words_of(spellings[0]), words_of(spellings[1]))
        self.row_names, self.column_names = (
            self._names(spelling, n) for n, spelling in enumerate(spellings)
        )
        self.heads = trace.names(site.of, site.kind)

    def _names(self, spelling: Spelling, side: int) -> list[str]:
        return list(spelling.labels) if self.words is None else list(self.words[side].texts)

    def weights(self, name: str) -> np.ndarray:
        """(rows, columns) of one head."""
        head = self.trace.attention(name, self.site.of, self.site.kind)
        return self._pooled(np.asarray(head.weights, dtype=np.float64))

    def visible(self, name: str) -> np.ndarray:
        """(rows, columns) bool: of a word, any of its tokens sees any."""
        head = self.trace.attention(name, self.site.of, self.site.kind)
        return np.asarray(self._pooled(uniform_weights(~head.mask.hidden)) > 0)

    def _pooled(self, weights: np.ndarray) -> np.ndarray:
        if self.words is None:
            return weights
        return np.asarray(pool(weights, *self.words)[..., :-1])


def aligned(first: Sequence[str], second: Sequence[str]) -> Pairs:
    """(place in the first, place in the second) of what corresponds, in order.

    Equal names, and stretches of the same length that stand in each other's place between them.
    """
    found: Pairs = []
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for what, start, stop, other, end in matcher.get_opcodes():
        if what == "equal" or (what == "replace" and stop - start == end - other):
            found += zip(range(start, stop), range(other, end), strict=True)
    return found
