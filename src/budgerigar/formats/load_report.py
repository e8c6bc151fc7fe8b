"""What filled each weight of an imported model, to be read by people: like layers as one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """What filled one weight."""

    ours: str
    theirs: str
    transform: str
    shape: Shape
    stored: str
    """the type in the file"""


@dataclass
class LoadReport:
    """For each weight the source tensor and the transform that filled it; and what else was there."""

    where: str
    entries: list[Entry] = field(default_factory=list)
    tied: list[tuple[str, str]] = field(default_factory=list)
    """(tensor, the equal one that was taken instead)"""
    ignored: list[tuple[str, str]] = field(default_factory=list)
    """(tensor, why nothing is lost without it)"""
    remarks: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The report as lines of text, layers that are alike on one line."""
        lines = grouped(
            f"{e.ours}  ←  {e.theirs}  {e.shape}  {e.stored}, {e.transform}" for e in self.entries
        )
        tied = grouped(f"{name}: the same numbers as {first}" for name, first in self.tied)
        ignored = grouped(f"{name}: {why}" for name, why in self.ignored)
        parts = [f"{len(self.entries)} weights from {self.where}", *indented(lines)]
        parts += ["stored twice", *indented(tied)] if tied else []
        parts += ["left out", *indented(ignored)] if ignored else []
        return "\n".join([*parts, *self.remarks])


def indented(lines: Iterable[str]) -> list[str]:
    """Lines two spaces further in."""
    return [f"  {line}" for line in lines]


_NUMBER = re.compile(r"(?<!\S)(\S*?\.)(\d+)(?=\.)")  # the first in each word: the layer's


def grouped(lines: Iterable[str]) -> list[str]:
    """Lines that differ in the number of the layer alone as one: `h.0–11.ln_1.weight`."""
    groups: dict[str, list[int]] = {}
    for line in lines:
        numbers = {int(number) for _, number in _NUMBER.findall(line)}
        one = len(numbers) == 1
        pattern = _NUMBER.sub("\\1\0", line) if one else line
        groups.setdefault(pattern, []).append(numbers.pop() if one else -1)
    return [pattern.replace("\0", _ranges(numbers)) for pattern, numbers in groups.items()]


def _ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] -> "0–2,5"."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number <= found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(a) if a == b else f"{a}–{b}" for a, b in found)
