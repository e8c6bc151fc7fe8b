"""SentencePiece's table of characters (NFKC and more), applied as SentencePiece does.

At each place the longest entry of the table that stands there is replaced; what is in no entry
stays. (The `tokenizers` library takes a letter with its combining marks as one, finds the entry of
the letter alone, and loses the marks.)

The table is a blob: the size of a trie, the trie as a double array (Aoe 1989, in darts-clone's
layout), then the replacements, each ended by a zero byte. A unit of the array is 32 bits:

    bits 0-7 the byte that leads here   bit 8 whether an entry ends here   bits 10-30 where next
    bit 9 that "where next" counts in 256s   bit 31 that it is the value of an entry
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from typing import Any

import numpy as np

from budgerigar.errors import UserError

_REACH = 16  # characters of a text that one entry may cover


class CharacterMap:
    """A table of replacements; calling it normalises a text."""

    def __init__(self, blob: bytes) -> None:
        size = int.from_bytes(blob[:4], "little") if len(blob) >= 4 else -1
        if size < 4 or size % 4 or 4 + size > len(blob):
            raise UserError("the tokenizer's table of characters is damaged")
        self._units: list[int] = np.frombuffer(blob, "<u4", size // 4, 4).tolist()
        self._replacements = blob[4 + size :]
        self._root = self._next(0)
        self._kinds: dict[str, str] = {}
        self._entry = lru_cache(1 << 16)(self._longest_entry)

    def __call__(self, text: str) -> str:
        """`text` with every entry of the table replaced."""
        kinds: dict[str, str] = {"": "", "alone": "", "joined": ""}
        for character in sorted(set(text)):
            kinds[self._kind(character)] += re.escape(character)
        patterns = [f"[{kinds['alone']}]"] if kinds["alone"] else []
        patterns += [f"[{kinds['joined']}](?=[^\\x00-\\x7f])"] if kinds["joined"] else []
        if not patterns:
            return text
        parts, done = [], 0
        for match in re.finditer("|".join(patterns), text):
            at = match.start()
            if at >= done:
                length, new = self._entry(text[at : at + _REACH])
                parts += [text[done:at], new] if length else []
                done = at + length if length else done
        return "".join([*parts, text[done:]])

    def _kind(self, character: str) -> str:
        """Whether an entry begins with it: "alone" if it may end there or before a character of
        ASCII, "joined" if only before others, "" if none does."""
        if character not in self._kinds:
            self._kinds[character] = self._find_kind(character)
        return self._kinds[character]

    def _find_kind(self, character: str) -> str:
        node, place = self._root, 0
        for byte in character.encode():
            step = self._step(node, byte)
            if step is None:
                return ""
            node, place = self._next(step), step
        ends = self._units[place] >> 8 & 1
        return "alone" if ends or any(self._step(node, b) for b in range(1, 128)) else "joined"

    def _longest_entry(self, text: str) -> tuple[int, str]:
        """(characters, replacement) of the longest entry at the beginning of `text`; (0, "")."""
        node, best, best_bytes = self._root, "", 0
        data = text.encode()
        for n_bytes, byte in enumerate(data, 1):
            place = self._step(node, byte)
            if place is None:
                break
            node = self._next(place)
            if self._units[place] >> 8 & 1 and node < len(self._units):
                best, best_bytes = self._replacement(self._units[node] & 0x7FFFFFFF), n_bytes
        return len(data[:best_bytes].decode(errors="ignore")), best

    def _step(self, node: int, byte: int) -> int | None:
        """The unit that `byte` leads to. (Bit 31 marks the value of an entry, which none leads to.)"""
        place = node ^ byte
        known = place < len(self._units) and self._units[place] & 0x800000FF == byte
        return place if known else None

    def _next(self, place: int) -> int:
        """Where the bytes after the unit at `place` are looked up."""
        unit = self._units[place]
        return place ^ ((unit >> 10 & 0x1FFFFF) << ((unit & 0x200) >> 6))

    def _replacement(self, start: int) -> str:
        stop = self._replacements.find(b"\0", start)
        return self._replacements[start : max(start, stop)].decode(errors="replace")


def without_charsmap(
    document: dict[str, Any],
) -> tuple[dict[str, Any], CharacterMap | None]:
    """A `tokenizer.json` without its table of characters where that comes first, and the table."""
    normalizer = document.get("normalizer") or {}
    steps = normalizer.get("normalizers") if normalizer.get("type") == "Sequence" else [normalizer]
    if not steps or steps[0].get("type") != "Precompiled":
        return document, None
    try:
        blob = base64.b64decode(steps[0].get("precompiled_charsmap") or "")
    except ValueError:
        raise UserError("the tokenizer's table of characters is damaged") from None
    rest = {"type": "Sequence", "normalizers": steps[1:]} if steps[1:] else None
    return document | {"normalizer": rest}, CharacterMap(blob) if blob else None
