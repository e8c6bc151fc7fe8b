"""Sentence pairs from files: two parallel files, tab-separated columns, or JSON lines.

Pairs are read in constant memory and never shifted: a pair is a source and a target line of the
same number. Lines end at LF only (CRLF and CR are LF by then); U+2028, form feed and U+0085 are
text, and so is a tab in a line of two parallel files. Files of unequal line counts are refused,
with the place where they first seem to part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.findings import SHOWN
from budgerigar.text.pair_lengths import LineLengths
from budgerigar.text.pair_rows import Row, json_rows, table_rows
from budgerigar.text.reading import read_blocks

RECORD_FILES = {".jsonl", ".ndjson", ".json"}
Advance = Callable[[int], object]


@dataclass(frozen=True)
class PairFiles:
    """Where pairs are.

    source, target: files whose lines of the same number belong together, as many of one side as of
    the other. pairs: tab-separated files (or JSON lines, by the name's ending .jsonl, .ndjson or
    .json) that hold both sides. columns: which columns of a table (numbers from 1, or names in
    its first row) or which keys of a record are source and target; None: columns 1 and 2, keys
    "source" and "target". prefix: a third column or key, whose words begin the source ("reverse: …"):
    the task. A single path will do where there is one.
    """

    source: tuple[Path, ...] = ()
    target: tuple[Path, ...] = ()
    pairs: tuple[Path, ...] = ()
    columns: tuple[str, str] | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        for name in ("source", "target", "pairs"):
            given = getattr(self, name)
            paths = [given] if isinstance(given, str | Path) else list(given or ())
            object.__setattr__(self, name, tuple(map(Path, paths)))
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(map(str, self.columns)))

    def __bool__(self) -> bool:
        return bool(self.paths)

    def __str__(self) -> str:
        names = [str(path) for path in self.paths]
        return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"

    @property
    def paths(self) -> list[Path]:
        """All files, in the order in which they are read."""
        sides = [path for both in zip_longest(self.source, self.target) for path in both if path]
        return [*sides, *self.pairs]

    def swapped(self) -> PairFiles:
        """The same pairs in the other direction."""
        columns = (self.columns[1], self.columns[0]) if self.columns else None
        if self.pairs and columns is None:
            columns = ("2", "1")
            if any(map(holds_records, self.pairs)):
                columns = ("target", "source")
        return PairFiles(self.target, self.source, self.pairs, columns)

    def validate(self) -> None:
        """Raise `UserError` for what cannot be pairs: a missing side, columns of no table."""
        if not self:
            raise UserError(
                "no sentence pairs were named: give --source FILE and --target FILE, or --pairs "
                "FILE (tab-separated, or JSON lines)."
            )
        n_source, n_target = len(self.source), len(self.target)
        if n_source != n_target:
            if not n_source or not n_target:
                had, missing = ("source", "target") if n_source else ("target", "source")
                raise UserError(
                    f"--{had} {getattr(self, had)[0]} needs --{missing}: the file with the same "
                    f"lines in the other language. (A file that holds both sides is --pairs.)"
                )
            raise UserError(
                f"{n_source} source and {n_target} target files: as many of one as of the other "
                "are needed, in the same order."
            )
        if self.columns is not None:
            if not self.pairs:
                raise UserError("--columns is about --pairs; two parallel files have no columns.")
            if len(self.columns) != 2 or self.columns[0] == self.columns[1]:
                raise UserError(
                    f"--columns {','.join(self.columns)}: name two different columns, source first."
                )


@dataclass
class PairCounts:
    """What was met while pairs were read. `notes` says what is worth knowing."""

    n_pairs: int = 0
    blank_both: int = 0
    _places: dict[str, list[str]] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)

    def add(self, what: str, place: str) -> None:
        """`what` was met at `place`, such as "line 12"."""
        self._times[what] = self._times.get(what, 0) + 1
        places = self._places.setdefault(what, [])
        if len(places) < SHOWN:
            places.append(place)

    def times(self, what: str) -> int:
        """How often `what` was met: "blank source", "blank target", "more columns" …"""
        return self._times.get(what, 0)

    def notes(self) -> list[str]:
        """One sentence each."""
        said = {
            "blank source": "blank in the source only: dropped as pairs, nothing is shifted",
            "blank target": "blank in the target only: dropped as pairs, nothing is shifted",
            "blank pair": "blank on a side: dropped as pairs",
            "more columns": "of more columns than are read",
            "line breaks": "with line breaks inside a sentence, which became spaces",
            "header": "of column names, which is no pair",
        }
        found = []
        if self.blank_both:
            found.append(f"{_lines(self.blank_both)} blank on both sides, which are no pairs")
        for what, words in said.items():
            if times := self.times(what):
                more = ", …" if times > SHOWN else ""
                places = ", ".join(self._places[what])
                found.append(f"{_lines(times)} {words} ({places}{more})")
        return found


def _lines(n: int) -> str:
    return f"{n:,} line{'' if n == 1 else 's'}"


def iter_file_pairs(
    files: PairFiles,
    encoding: str | None = None,
    lowercase: bool = False,
    *,
    keep_blanks: bool = False,
    counts: PairCounts | None = None,
    advance: Advance | None = None,
) -> Iterator[tuple[str, str]]:
    """The pairs of `files` in order, in constant memory.

    lowercase: both sides in small letters. keep_blanks: give out pairs with a blank side too (for
    test sets: as many pairs as lines); else they are dropped, and counted. counts: filled with what
    is met; without it that is said on stderr at the end. advance: is told the bytes read. Raises
    `UserError` for files that are not pairs: unequal line counts (naming both and the first
    suspicious place), a row without two columns, a record without the keys.
    """
    files.validate()
    own = PairCounts() if counts is None else counts
    several = len(files.source) + len(files.pairs) > 1
    for name, rows in _all_rows(files, encoding, own, advance):
        for number, source, target in rows:
            if not keep_blanks:
                has_source, has_target = not _is_blank(source), not _is_blank(target)
                if not (has_source and has_target):
                    if has_source == has_target:
                        own.blank_both += 1
                    else:
                        side = "blank target" if has_source else "blank source"
                        own.add(side, f"{name} line {number:,}" if several else f"line {number:,}")
                    continue
            own.n_pairs += 1
            yield (source.lower(), target.lower()) if lowercase else (source, target)
    if counts is None:
        for words in own.notes():
            progress.note(f"{files}: {words}")


def _all_rows(
    files: PairFiles, encoding: str | None, counts: PairCounts, advance: Advance | None
) -> Iterator[tuple[str, Iterable[Row]]]:
    """(a file's name, its rows) for each file that holds pairs, or two that hold them together."""
    for source, target in zip(files.source, files.target, strict=True):
        yield source.name, _parallel_rows(source, target, encoding, advance)
    for path in files.pairs:
        lines = iter_lines(path, encoding, advance)
        read = json_rows if holds_records(path) else table_rows
        rows = read(lines, str(path), files.columns, counts.add)
        if files.prefix is not None and files.columns is not None:
            both = (files.prefix, files.columns[1])
            tasks = read(iter_lines(path, encoding), str(path), both, lambda *_: None)
            rows = _with_tasks(rows, tasks)
        yield path.name, rows


def _with_tasks(rows: Iterable[Row], tasks: Iterable[Row]) -> Iterator[Row]:
    """The rows with their task before the source."""
    for (number, source, target), (_, task, _) in zip(rows, tasks, strict=True):
        yield number, f"{task}: {source}" if task.strip() else source, target


def _parallel_rows(
    source: Path, target: Path, encoding: str | None, advance: Advance | None
) -> Iterator[Row]:
    lengths = LineLengths()
    lines = zip_longest(
        iter_lines(source, encoding, advance), iter_lines(target, encoding, advance)
    )
    for number, (one, other) in enumerate(lines, 1):
        if one is None or other is None:
            lengths.add(one, other)
            for rest in lines:
                lengths.add(*rest)
            raise UserError(lengths.describe(str(source), str(target)))
        lengths.add(one, other)
        yield number, one, other


def iter_lines(
    path: str | Path, encoding: str | None = None, advance: Advance | None = None
) -> Iterator[str]:
    """The lines of a file without their LF, in constant memory; the last may lack its LF."""
    parts: list[str] = []
    for block in read_blocks(path, encoding, advance=advance):
        first, *others = block.split("\n")
        parts.append(first)
        if others:
            yield "".join(parts)
            yield from others[:-1]
            parts = [others[-1]]
    if last := "".join(parts):
        yield last


def holds_records(path: Path) -> bool:
    """Whether a file of pairs is one of JSON lines, by the ending of its name."""
    return path.suffix.lower() in RECORD_FILES


def _is_blank(line: str) -> bool:
    return not line or line.isspace()
