"""What `budgie check` says about files: findings with line numbers, gathered in a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

LEVELS = ("error", "warning", "note")
_SINGULAR = {
    "lines": "line",
    "ends": "end",
    "characters": "character",
    "rows": "row",
    "pairs": "pair",
    "targets are copies": "target is a copy",
    "times": "time",
    "are": "is",
    "repeat": "repeats",
    "have": "has",
    "hold": "holds",
}
_PLURAL = r"\b(" + "|".join(_SINGULAR) + r")\b"
SHOWN = 5  # line numbers kept and shown of each finding


@dataclass
class Finding:
    """One thing to know.

    level: "error" (training refuses or would go wrong), "warning" (look at it) or "note".
    lines: the first few line numbers, counted from 1; count: how often in all; more: whether
    there are further lines.
    """

    level: str
    what: str
    count: int = 1
    lines: list[int] = field(default_factory=list)
    advice: str = ""
    more: bool = False

    def text(self) -> str:
        """One line to read."""
        where = ""
        if self.lines:
            more = " …" if self.more else ""
            word = "line" if len(self.lines) == 1 and not more else "lines"
            where = f" ({word} {', '.join(f'{n:,}' for n in self.lines)}{more})"
        return f"{self.level}: {self.what}{where}" + (f". {self.advice}" if self.advice else "")


class Places:
    """Counts where something occurs and keeps the first few line numbers."""

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[int] = []
        self._more = False

    def add(self, line: int, times: int = 1) -> None:
        """It occurs `times` times in this line (lines are counted from 1)."""
        self.count += times
        if self.lines and self.lines[-1] == line:
            return
        if len(self.lines) < SHOWN:
            self.lines.append(line)
        else:
            self._more = True

    def finding(self, level: str, what: str, advice: str = "") -> Finding:
        """As a finding; "{n}" in `what` becomes the count."""
        said = what.replace("{n}", f"{self.count:,}")
        if self.count == 1:
            said = re.sub(_PLURAL, lambda found: _SINGULAR[found[0]], said, count=2)
        return Finding(level, said, self.count, self.lines, advice, self._more)


@dataclass
class FileReport:
    """What one file is, and what is remarkable in it. Unreadable files have an error only.

    documents: how it would be split, with the reason; characters and lines are those of the
    LF-normalised text.
    """

    path: str
    n_bytes: int = 0
    encoding: str = ""
    encoding_reason: str = ""
    has_bom: bool = False
    n_characters: int = 0
    n_lines: int = 0
    n_distinct: int = 0
    documents: str = ""
    documents_reason: str = ""
    n_documents: int = 0
    findings: list[Finding] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report in words, one line each."""
        if not self.encoding:
            return [self.path, *(f"  {finding.text()}" for finding in self.findings)]
        mark = ", with a byte-order mark" if self.has_bom else ""
        split = f"documents: {self.documents}"
        if self.documents != "none":
            split += f" ({self.n_documents:,} of them)"
        return [
            self.path,
            f"  {self.n_bytes:,} bytes, {self.encoding}{mark}; {self.n_characters:,} characters "
            f"({self.n_distinct:,} distinct) in {self.n_lines:,} lines",
            f"  {split}: {self.documents_reason}",
            *(f"  {finding.text()}" for finding in self.findings),
        ]


@dataclass
class PairsReport:
    """What is remarkable about source and target taken together.

    n_pairs: lines on both sides (the smaller count where they differ). ratio: the median of target
    length over source length, in characters.
    """

    source: str
    target: str
    n_pairs: int = 0
    ratio: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report in words, one line each."""
        return [
            f"{self.source} with {self.target}",
            f"  {self.n_pairs:,} pairs; the target has {self.ratio:.2f} times as many characters",
            *(f"  {finding.text()}" for finding in self.findings),
        ]


@dataclass
class Report:
    """What `check_files` found. `ok` is False where there is an error."""

    files: list[FileReport]
    pairs: PairsReport | None = None
    overlap: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """All findings of all parts, errors first."""
        parts: list[Sequence[Finding]] = [file.findings for file in self.files]
        parts += [self.pairs.findings if self.pairs else (), self.overlap]
        found = [finding for part in parts for finding in part]
        return sorted(found, key=lambda finding: LEVELS.index(finding.level))

    @property
    def ok(self) -> bool:
        """True without errors."""
        return all(finding.level != "error" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"ok": self.ok, **asdict(self)}

    def lines(self) -> list[str]:
        """The whole report in words, one line each."""
        lines = [line for file in self.files for line in file.lines()]
        if self.pairs:
            lines += self.pairs.lines()
        lines += [finding.text() for finding in self.overlap]
        counts = [sum(finding.level == level for finding in self.findings) for level in LEVELS]
        names = [
            f"{n} {level}{'' if n == 1 else 's'}" for n, level in zip(counts, LEVELS, strict=True)
        ]
        return [*lines, ", ".join(names)]
