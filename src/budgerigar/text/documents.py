"""Documents: what is one text in a file of many, or in many files.

`how` is one of
    none         one stream without documents (a novel, plays)
    blank-lines  the blocks of a file between blank lines (poems, chats)
    files        each file is one document
    json-lines   each line is a JSON object with a string under "text", or a JSON string
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from budgerigar.errors import UserError
from budgerigar.text.reading import read_blocks

HOWS = ("none", "blank-lines", "files", "json-lines")

_LONGEST_BUFFER = 1 << 22  # characters of one document kept before a part of it is given out
# A line is blank if it holds nothing but spaces, tabs and ideographic spaces.
_BLANK = "[ \t\u3000]*"
_GAP = re.compile(rf"\n(?:{_BLANK}\n)+")
_LEADING_GAP = re.compile(rf"(?:{_BLANK}\n)+")
_LAST_GAP = re.compile(rf"\n?{_BLANK}\Z")


class Piece(NamedTuple):
    """A part of a document.

    text: what is learnt. gap: what follows it in the file and belongs to no document (blank
    lines). ends: whether the document ends here.
    """

    text: str
    gap: str
    ends: bool


def split_documents(text_or_blocks: str | Iterable[str], how: str) -> Iterator[str]:
    """The documents of one file's text, whole; without documents, the text itself."""
    blocks = filter(None, [text_or_blocks] if isinstance(text_or_blocks, str) else text_or_blocks)
    parts: list[str] = []
    for piece in document_pieces(blocks, how):
        parts.append(piece.text)
        if piece.ends:
            yield "".join(parts)
            parts = []
    if any(parts):
        yield "".join(parts)


def read_documents(
    paths: Iterable[str | Path],
    how: str,
    encoding: str | None = None,
    advance: Callable[[int], object] | None = None,
) -> Iterator[Piece]:
    """The pieces of all `paths` in order, in constant memory; `advance` is told the bytes read."""
    for path in paths:
        blocks = read_blocks(path, encoding, advance=advance)
        yield from document_pieces(blocks, how, str(path))


def document_pieces(blocks: Iterable[str], how: str, name: str = "the text") -> Iterator[Piece]:
    """The pieces of one file's text, given in blocks that may end anywhere.

    Raises `UserError` for an unknown `how` and for a line that is not such JSON, naming it.
    """
    if how == "none":
        return (Piece(block, "", False) for block in blocks)
    if how == "files":
        return _whole_file(blocks)
    if how == "blank-lines":
        return _between_blank_lines(blocks)
    if how == "json-lines":
        return _json_lines(blocks, name)
    raise UserError(f"--documents {how}: no such way. Choose auto or one of {', '.join(HOWS)}.")


def _whole_file(blocks: Iterable[str]) -> Iterator[Piece]:
    last = None
    for block in blocks:
        if last is not None:
            yield Piece(last, "", False)
        last = block
    if last is not None:  # an empty file is no document
        yield Piece(last, "", True)


def _between_blank_lines(blocks: Iterable[str]) -> Iterator[Piece]:
    rest = ""
    inside = False  # part of the document in `rest` has been given out already
    for block in blocks:
        rest += block
        start = 0
        if not inside and (leading := _LEADING_GAP.match(rest)):
            yield Piece("", leading[0], False)
            start = leading.end()
        for gap in _GAP.finditer(rest, start):
            yield Piece(rest[start : gap.start()], gap[0], True)
            start, inside = gap.end(), False
        rest = rest[start:]
        if len(rest) > _LONGEST_BUFFER:
            # Blank lines may begin at the end of what is there: that part is kept back.
            keep = len(rest.rstrip("\n \t\u3000")) or len(rest)
            yield Piece(rest[:keep], "", False)
            rest, inside = rest[keep:], True
    last = _LAST_GAP.search(rest)
    text, tail = (rest[: last.start()], last[0]) if last else (rest, "")
    if text or inside:
        yield Piece(text, tail, True)
    elif tail:
        yield Piece("", tail, False)


def _json_lines(blocks: Iterable[str], name: str) -> Iterator[Piece]:
    for number, line in enumerate(_lines(blocks), start=1):
        if not line.strip():
            yield Piece("", line, False)
            continue
        text = _json_text(line, f"{name}, line {number:,}")
        if text:  # an empty record is no document
            yield Piece(text.replace("\r\n", "\n").replace("\r", "\n"), "\n", True)


def _json_text(line: str, where: str) -> str:
    try:
        record = json.loads(line)
        text = record["text"] if isinstance(record, dict) else record
        text.encode()
    except KeyError:
        raise UserError(
            f'{where}: the record has no "text". Its keys: {", ".join(record)}.'
        ) from None
    except UnicodeEncodeError:
        raise UserError(f"{where}: the text holds half a surrogate pair (\\ud800 …).") from None
    except (ValueError, AttributeError, RecursionError) as error:
        raise UserError(
            f'{where}: not a JSON object with a string under "text" ({error}). Is it a JSON-lines '
            "file? If not, use --documents none."
        ) from None
    return text


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    """Lines with their LF; they end at LF only."""
    parts: list[str] = []
    for block in blocks:
        *complete, last = block.split("\n")
        for line in complete:
            yield "".join([*parts, line, "\n"])
            parts = []
        parts.append(last)
    if any(parts):
        yield "".join(parts)
