"""Word alignments: how many links are wrong, and the Pharaoh format that holds them.

A gold alignment has sure links, which any alignment should have, and possible ones, which it may
have (every sure link is possible too). Och & Ney 2003, section 3.4 (A predicted, S sure, P possible):

    recall = |A and S| / |S|     precision = |A and P| / |A|
    alignment error rate = 1 - (|A and S| + |A and P|) / (|A| + |S|)

A link is (number of the source word, number of the target word), both counted from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

Link = tuple[int, int]
_LINK = re.compile(r"(\d+)([-?])(\d+)")


@dataclass(frozen=True)
class GoldAlignment:
    """One sentence's sure links and possible ones (which always hold the sure ones)."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True)
class AlignmentScore:
    """Error rate, precision and recall of a corpus, its links counted together; 0 to 1.

    error_rate is 0 when there is neither a sure nor a predicted link; precision without predicted
    links and recall without sure ones are 1.
    """

    error_rate: float
    precision: float
    recall: float
    predicted: int
    sure: int
    sentences: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"alignment error rate {self.error_rate:.3f} (precision {self.precision:.3f}, recall "
            f"{self.recall:.3f}; {self.predicted:,} links against {self.sure:,} sure ones in "
            f"{self.sentences:,} sentences)"
        )


def alignment_error_rate(
    predicted: AbstractSet[Link],
    sure: AbstractSet[Link],
    possible: AbstractSet[Link] | None = None,
) -> float:
    """Of one sentence, 0 (perfect) to 1. possible: beside the sure links; None: no others."""
    return score_alignments(
        [predicted], [sure], None if possible is None else [possible]
    ).error_rate


def score_alignments(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
) -> AlignmentScore:
    """Of a corpus, sentence n against sentence n. `UserError` for unequal numbers of sentences."""
    extra = [frozenset[Link]()] * len(sure) if possible is None else possible
    if not len(predicted) == len(sure) == len(extra):
        raise UserError(
            f"{len(predicted)} alignments stand against {len(sure)} gold ones; line n is compared "
            "with line n, so both need as many (an unaligned sentence is a blank line)"
        )
    found = hits = allowed = wanted = 0
    for links, gold, more in zip(predicted, sure, extra, strict=True):
        found += len(links)
        wanted += len(gold)
        hits += len(links & gold)
        allowed += len(links & (gold | more))
    both = found + wanted
    return AlignmentScore(
        1 - (hits + allowed) / both if both else 0.0,
        allowed / found if found else 1.0,
        hits / wanted if wanted else 1.0,
        found,
        wanted,
        len(predicted),
    )


def parse_pharaoh(
    line: str, n_source: int | None = None, n_target: int | None = None, *, where: str = ""
) -> GoldAlignment:
    """ "0-0 1-2 3?2" -> sure links (0,0), (1,2) and the possible (3,2), words counted from 0.

    n_source, n_target: numbers of words, where they are known: a link beyond them is an error.
    where: named in errors, e.g. "gold.txt, line 3".
    """
    place = f"{where}: " if where else ""
    sure: set[Link] = set()
    possible: set[Link] = set()
    for token in line.split():
        match = _LINK.fullmatch(token)
        if match is None:
            raise UserError(
                f"{place}{token!r} is no link; an alignment is written 0-0 1-2 3?2: source word - "
                "target word, counted from 0, with ? for a possible link"
            )
        link = (int(match[1]), int(match[3]))
        for number, words, side in ((link[0], n_source, "source"), (link[1], n_target, "target")):
            if words is not None and number >= words:
                raise UserError(
                    f"{place}link {token} names {side} word {number}, but there are {words}, "
                    "counted from 0 (does the file count from 1, or the other way round?)"
                )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible))


def format_pharaoh(links: Iterable[Link], possible: Iterable[Link] = ()) -> str:
    """Links as "0-0 1-2 3?2", sorted; possible ones that are sure too are written once."""
    sure = set(links)
    both = sorted(sure | set(possible))
    return " ".join(f"{i}-{j}" if (i, j) in sure else f"{i}?{j}" for i, j in both)


def read_pharaoh(
    path: str | Path, encoding: str | None = None, sentences: int | None = None
) -> list[GoldAlignment]:
    """One alignment a line; a blank line is a sentence without links.

    sentences: how many there must be, or a `UserError` names both numbers.
    """
    from budgerigar.text.reading import open_lines

    lines = list(chain.from_iterable(open_lines(path, encoding)))
    name = Path(path).name
    if sentences is not None and len(lines) != sentences:
        raise UserError(
            f"{name} has {len(lines)} alignments for {sentences} sentence pairs; each pair needs "
            "one line, a blank one where nothing is aligned"
        )
    return [parse_pharaoh(line, where=f"{name}, line {n}") for n, line in enumerate(lines, 1)]


def write_pharaoh(path: str | Path, alignments: Iterable[Iterable[Link]]) -> Path:
    """Write one line per sentence; the file appears whole or not at all."""
    from budgerigar.formats.atomic import write_text

    target = Path(path)
    write_text(target, "".join(format_pharaoh(links) + "\n" for links in alignments))
    return target
