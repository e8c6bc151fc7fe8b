"""Which way of splitting a file into documents fits it, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from budgerigar.text.documents import split_documents
from budgerigar.text.reading import read_blocks

_HEAD_CHARACTERS = 1 << 20
_FEWEST_BLOCKS = 8
_LONGEST_BLOCK = 2_000  # characters; longer ones are chapters or pages
_SPEAKER = re.compile(r"\S[^:：\n]{0,40}[:：]\s*\Z")  # a line with nothing but a name
_LABEL = re.compile(r"\S[^:：\n]{0,30}[:：]")  # "User: …"
_LINE_END = tuple(".!?,;:…—-'\")]}”’»。！？，；：、）」』】》")
_SENTENCE_END = tuple(".!?…'\")]}”’»。！？）」』】》")


def propose_split(path: str | Path, encoding: str | None = None) -> str:
    """One of `documents.HOWS` for one file; see `explain_split`."""
    return explain_split(path, encoding)[0]


def explain_split(path: str | Path, encoding: str | None = None) -> tuple[str, str]:
    """(how, why) for one file, from its first million characters.

    "blank-lines" only if nearly all blocks look like texts of their own (poems, chats); the
    speeches of a play and the paragraphs of prose belong together: "none".
    """
    head = ""
    for block in read_blocks(path, encoding):
        head += block
        if len(head) >= _HEAD_CHARACTERS:
            head = head[: head.rfind("\n\n", 0, _HEAD_CHARACTERS) + 1] or head[:_HEAD_CHARACTERS]
            break
    if _looks_like_json_lines(head):
        return "json-lines", 'its lines are JSON records with a "text"'
    blocks = list(split_documents(head, "blank-lines"))
    if len(blocks) < _FEWEST_BLOCKS:
        return "none", "it has no blank lines that part it" if len(
            blocks
        ) < 2 else "few blank lines"
    return _judge_blocks(blocks)


def _judge_blocks(texts: Sequence[str]) -> tuple[str, str]:
    blocks = [text.split("\n") for text in texts]
    if _share(_SPEAKER.match(lines[0]) for lines in blocks) > 0.3:
        return "none", "its blocks are the speeches of a play"
    if _share(len(lines) > 1 for lines in blocks) < 0.9:
        return "none", "its blocks are paragraphs of one line"
    if sorted(map(len, texts))[len(texts) // 2] > _LONGEST_BLOCK:
        return "none", "its blocks are long"
    lines = [line for block in blocks for line in block]
    if _share(_LABEL.match(line) for line in lines) > 0.8:
        return "blank-lines", "its blocks are dialogues"
    later = [line.lstrip() for block in blocks for line in block[1:]]
    if _share(line[:1].islower() for line in later) > 0.2:
        return "none", "its blocks are wrapped paragraphs"
    cased = _share(line[:1].isupper() for line in later) > 0.5
    if not cased and _share(line.rstrip().endswith(_LINE_END) for line in lines) < 0.8:
        return "none", "the lines of its blocks run on"
    if _share(text.rstrip().endswith(_SENTENCE_END) for text in texts) < 0.8:
        return "none", "its blocks end in the middle of a sentence"
    return "blank-lines", "its blocks look like poems"


def _looks_like_json_lines(head: str) -> bool:
    lines = [line for line in head.split("\n")[:-1] or [head] if line.strip()][:5]
    return bool(lines) and all(_is_record(line) for line in lines)


def _is_record(line: str) -> bool:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("text"), str)


def _share(findings: Iterable[object]) -> float:
    """Share of the findings that are true."""
    values = [bool(finding) for finding in findings]
    return sum(values) / len(values) if values else 0.0
