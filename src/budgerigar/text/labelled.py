"""Texts with labels: a table with tabs (or JSON lines) in which one column says what each text is.

The columns are those that are named, those called label and text, or of two columns the one with the
fewest different cells, and that is said. Nothing is dropped in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from budgerigar.errors import UserError
from budgerigar.text.findings import SHOWN
from budgerigar.text.pair_files import holds_records, iter_lines
from budgerigar.text.pair_rows import json_rows, table_rows

_LABEL = ("label", "class", "category", "label_text")
_TEXT = ("text", "sentence", "question")
_LOOKED_AT = 1000  # rows from which columns are guessed
_MOST_CLASSES = 1000
EXAMPLE = "a label, a tab, a text"


@dataclass(frozen=True)
class LabelColumns:
    """Where label and text stand: two numbers from 1 or two names. has_header: with a row of names."""

    label: str
    text: str
    has_header: bool
    why: str
    """in words"""


@dataclass
class LabelledTexts:
    """labels, texts: (n,) each. notes: what was decided and what was met, a sentence each."""

    labels: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, rows: Sequence[int]) -> LabelledTexts:
        """These rows, in this order."""
        return LabelledTexts([self.labels[i] for i in rows], [self.texts[i] for i in rows])


def read_labelled(
    files: Sequence[str | Path],
    columns: tuple[str, str] | None = None,
    encoding: str | None = None,
) -> LabelledTexts:
    """All labelled texts of `files`, in order. columns: label's and text's, as names or numbers.

    Raises:
        UserError: a row lacks a column, a label is empty, or which column is which cannot be told.
    """
    found, blank = LabelledTexts(), []
    for file in map(Path, files):
        where = find_columns(file, columns, encoding)
        found.notes.append(f"labels of {file.name}: {where.why}")
        for number, label, text in _rows(file, where, encoding):
            place = f"{file.name} line {number:,}" if len(files) > 1 else f"line {number:,}"
            label, text = label.strip(), " ".join(text.split())
            if not text:
                blank.append(place)
                continue
            if not label:
                raise UserError(f"{file}, line {number:,} has no label: a row is {EXAMPLE}.")
            found.labels.append(label)
            found.texts.append(text)
    if blank:
        more = ", …" if len(blank) > SHOWN else ""
        places = ", ".join(blank[:SHOWN])
        found.notes.append(f"{len(blank):,} rows without a text are left out ({places}{more})")
    if not found:
        raise UserError(f"{files[0]} holds no labelled text. A row is {EXAMPLE}.")
    return found


def _rows(file: Path, where: LabelColumns, encoding: str | None) -> Iterator[tuple[int, str, str]]:
    read = json_rows if holds_records(file) else table_rows
    rows = read(iter_lines(file, encoding), str(file), (where.label, where.text), lambda *_: None)
    numbers = where.label.isdecimal() and not holds_records(file)
    return islice(iter(rows), 1, None) if where.has_header and numbers else iter(rows)


def find_columns(
    file: Path, asked: tuple[str, str] | None = None, encoding: str | None = None
) -> LabelColumns:
    """Which column of `file` is the label's and which the text's."""
    if asked is not None:
        numbers = all(name.isdecimal() for name in asked)
        header = numbers and _is_header(_cells(file, encoding), int(asked[0]) - 1)
        said = f"columns {asked[0]} (label) and {asked[1]} (text), as asked"
        return LabelColumns(*asked, header, said + _header_words(header))
    if holds_records(file):
        return LabelColumns("label", "text", False, 'the keys "label" and "text"')
    cells = _cells(file, encoding)
    names = [cell.strip().casefold() for cell in cells[0]] if cells else []
    label = next((names.index(name) for name in _LABEL if name in names), None)
    text = next((names.index(name) for name in _TEXT if name in names), None)
    if label is not None and text is not None:
        said = f"column {names[label]}; texts: column {names[text]} (the first row names them)"
        return LabelColumns(str(label + 1), str(text + 1), True, said)
    return _guessed(file, cells)


def _cells(file: Path, encoding: str | None) -> list[list[str]]:
    lines = islice(iter_lines(file, encoding), _LOOKED_AT)
    return [line.split("\t") for line in lines if line.strip()]


def _guessed(file: Path, cells: list[list[str]]) -> LabelColumns:
    """Of two columns the one of few different cells is the label's."""
    widths = {len(row) for row in cells}
    if widths != {2}:
        few = min(widths, default=0) < 2
        what = "rows of one column" if few else f"rows of {max(widths)} columns"
        raise UserError(
            f"{file} has {what}, and no first row that names a label and a text. A row is {EXAMPLE}; "
            "other columns are named, the label's first: --columns label,text (or 1,2)."
        )
    kinds = [len({row[column] for row in cells[1:] or cells}) for column in (0, 1)]
    if kinds[0] == kinds[1]:
        raise UserError(
            f"{file}: which of its two columns is the label cannot be told, each has {kinds[0]} "
            "different cells. Say it, the label's first: --columns 1,2 or 2,1."
        )
    label = int(kinds[1] < kinds[0])
    header = _is_header(cells, label)
    said = (
        f"column {label + 1}, which has {kinds[label]} different cells, the other has "
        f"{kinds[1 - label]} (--columns says otherwise)"
    )
    return LabelColumns(str(label + 1), str(2 - label), header, said + _header_words(header))


def _is_header(cells: list[list[str]], label: int) -> bool:
    """Whether the first row names its columns: its label is that of no other row, and the others
    have theirs in common."""
    if len(cells) < 3 or any(len(row) <= label for row in cells):
        return False
    counts = Counter(row[label].strip() for row in cells[1:])
    return counts[cells[0][label].strip()] == 0 and max(counts.values()) > 1 and len(counts) > 1


def _header_words(header: bool) -> str:
    return "; the first row names them" if header else "; there is no row of names"


def class_names(labels: Sequence[str]) -> list[str]:
    """The different labels, in alphabetical order.

    Raises:
        UserError: there is only one, or so many that they are hardly classes.
    """
    names = sorted(set(labels))
    if len(names) < 2:
        raise UserError(
            f"every text has the label {names[0]!r}: there is nothing to tell apart. Were the columns "
            "mistaken? --columns names them, the label's first."
        )
    if len(names) > _MOST_CLASSES or 2 * len(names) > len(labels):
        raise UserError(
            f"{len(names):,} different labels on {len(labels):,} texts are hardly classes. Were the "
            "columns mistaken? --columns names them, the label's first."
        )
    return names
