"""One row of a table or one JSON record to a source and a target sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from budgerigar.errors import UserError

Row = tuple[int, str, str]  # line number from 1, source, target
Count = Callable[[str, str], object]  # what was met, and where
_KEYS = ("source", "target")
_LINE_BREAKS = re.compile(r"\r\n|\r|\n")
_SHOWN_CHARACTERS = 60


def table_rows(
    lines: Iterable[str], name: str, columns: tuple[str, str] | None, count: Count
) -> Iterator[Row]:
    """The rows of a tab-separated table; quotation marks are text.

    columns: two numbers from 1, or two names of the first row. None: columns 1 and 2, or those
    called source and target where the first row says so. A row of nothing is a blank pair; one
    that lacks a column is a `UserError`, because what it means is not known.
    """
    source = target = 0
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if number == 1:
            source, target, is_header = _find_columns(cells, name, columns)
            if is_header:
                count("header", "line 1")
                continue
        if not line.strip() and "\t" not in line:
            yield number, "", ""
            continue
        if max(source, target) >= len(cells):
            raise UserError(_too_few(name, number, cells, max(source, target) + 1))
        if columns is None and len(cells) > 2:
            count("more columns", f"line {number:,}")
        yield number, cells[source], cells[target]


def _find_columns(
    cells: list[str], name: str, columns: tuple[str, str] | None
) -> tuple[int, int, bool]:
    """(source column, target column, whether this first row names them), counted from 0."""
    names = [cell.strip().casefold() for cell in cells]
    if columns is None:
        named = names_columns(cells)
        return (*named, True) if named else (0, 1, False)
    if all(column.isdecimal() for column in columns):
        numbers = [int(column) for column in columns]
        if min(numbers) < 1:
            raise UserError(f"--columns {','.join(columns)}: columns are counted from 1.")
        return numbers[0] - 1, numbers[1] - 1, False
    for column in columns:
        if column.strip().casefold() not in names:
            raise UserError(
                f"{name} has no column {column!r}. Its first row: {_shorten(', '.join(cells))}. "
                "Name two of these, or give two numbers (--columns 1,2)."
            )
    source, target = (names.index(column.strip().casefold()) for column in columns)
    return source, target, True


def names_columns(cells: list[str]) -> tuple[int, int] | None:
    """The columns, from 0, that a table's first row calls source and target, if it does."""
    names = [cell.strip().casefold() for cell in cells]
    if not set(_KEYS) <= set(names):
        return None
    return names.index("source"), names.index("target")


def _too_few(name: str, number: int, cells: list[str], wanted: int) -> str:
    columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
    hint = ""
    if len(cells) == 1 and name.lower().endswith(".csv"):
        hint = " (Commas separate nothing here: save the table with tabs, as TSV.)"
    return (
        f"{name}, line {number:,} has {columns}, and column {wanted} is needed: "
        f"“{_shorten(cells[0])}”. A row is source, tab, target; mend or delete it.{hint}"
    )


def json_rows(
    lines: Iterable[str], name: str, columns: tuple[str, str] | None, count: Count
) -> Iterator[Row]:
    """The records of JSON lines: strings under two keys, at the top or under "translation".

    Line breaks inside a sentence become spaces (a pair is a line each). A blank line is a blank
    pair.
    """
    keys = columns or _KEYS
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            yield number, "", ""
            continue
        where = f"{name}, line {number:,}"
        record = _record(line, where)
        holder = record
        inner = record.get("translation")
        if isinstance(inner, dict) and not all(key in record for key in keys):
            holder = inner
        texts = [_sentence(holder, key, where, columns) for key in keys]
        if any(_LINE_BREAKS.search(text) for text in texts):
            count("line breaks", f"line {number:,}")
            texts = [_LINE_BREAKS.sub(" ", text) for text in texts]
        yield number, texts[0], texts[1]


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{where}: not JSON ({error}). Each line is one record such as "
            '{"source": "Ein Hund", "target": "A dog"}; a table with tabs ends in .tsv.'
        ) from None
    if not isinstance(record, dict):
        raise UserError(
            f"{where}: a {type(record).__name__}, and a record with two keys is needed, such as "
            '{"source": "Ein Hund", "target": "A dog"}.'
        )
    return record


def _sentence(holder: dict[str, Any], key: str, where: str, columns: tuple[str, str] | None) -> str:
    if key not in holder:
        has = ", ".join(map(str, holder)) or "none"
        advice = "Name the two that are" if columns else "Say which two are source and target"
        raise UserError(
            f'{where}: the record has no "{key}". Its keys: {_shorten(has)}. {advice}, source '
            "first: --columns de,en."
        )
    text = holder[key]
    if not isinstance(text, str):
        raise UserError(f'{where}: "{key}" is {json.dumps(text)[:40]}, and a string is needed.')
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{where}: the text holds half a surrogate pair (\\ud800 …).") from None
    return text


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
