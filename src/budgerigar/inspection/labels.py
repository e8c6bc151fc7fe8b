"""Tokens as readable words, and words found again among the tokens.

A token is a run of bytes, not a word: `␣budger` + `igar`, or a third of a Chinese character. Every
view labels its rows and columns with what `spell` returns, and every `row("it")` or
`links("it", "budgerigar")` finds its tokens through `Spelling.find`, which matches on the text, so
that a word which several tokens form is found whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wcwidth import wcswidth, wcwidth

from budgerigar.errors import UserError

Word = str | int | Sequence[int]
"""A word of the text (`"it"`, `"it#2"` for its second occurrence), a token's position, or several."""

_VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}
_CONTEXT = 18  # characters shown before and after a word in an error that lists its places


class TokenReader(Protocol):
    """The part of a tokenizer that labels need."""

    @property
    def kind(self) -> str: ...
    @property
    def special_ids(self) -> dict[str, int]: ...
    def token_bytes(self, token: int, /) -> bytes: ...


@dataclass(frozen=True)
class Spelling:
    """What a sequence of T tokens spells.

    text: their bytes as characters (bytes that are no UTF-8 become U+FFFD; specials spell nothing)
    spans: T pairs (start, end): the characters of `text` that token t has a byte of
    labels: T readable names, e.g. `␣it`, `↵`, `轩 1/3` (first of three tokens of one character)
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def pieces(self) -> list[str]:
        """T pieces of running text: what each token completes, blanks as they are.

        A character that several tokens share belongs to the last of them, the others get "". Special
        tokens are written by name, other invisible characters visibly.
        """
        found, written = [], 0
        following = [*(start for start, _ in self.spans), len(self.text)][1:]
        for (start, end), label, after in zip(self.spans, self.labels, following, strict=True):
            if start == end:
                found.append(label)
                continue
            whole = end - 1 if after < end else end
            found.append(visible(self.text[written:whole], spaces=False))
            written = max(written, whole)
        return found

    def find(self, word: Word, occurrence: int | None = None) -> list[int]:
        """Positions of the tokens that `word` is made of.

        An int is a position itself (negative: from the end), a list of them several. Text is
        looked for as a whole word; in scripts without spaces (Chinese, Japanese, Thai) as any
        substring; else as the exact text or label of one token. `occurrence` counts from 1 (negative:
        from the end).
        `UserError` when it is absent, or occurs several times and `occurrence` is not given.
        """
        if isinstance(word, int):
            return [self._position(word)]
        if not isinstance(word, str):
            return [self._position(one) for one in word]
        numbered = re.fullmatch(r"(.+)#(-?\d+)", word, re.DOTALL)
        if numbered and occurrence is None and word not in self.text:
            word, occurrence = numbered[1], int(numbered[2])
        places = self.places(word)
        if not places:
            raise UserError(self._absent(word))
        if occurrence is None:
            if len(places) > 1:
                raise UserError(self._several(word, places))
            return places[0]
        index = occurrence - 1 if occurrence > 0 else len(places) + occurrence
        if occurrence == 0 or not 0 <= index < len(places):
            n = len(places)
            often = "once" if n == 1 else f"{n} times, so there are {word}#1 to {word}#{n}"
            raise UserError(f"there is no {word}#{occurrence}: {word!r} occurs {often}")
        return places[index]

    def places(self, word: str) -> list[list[int]]:
        """All occurrences of `word`, each as the positions of its tokens, in order of the text."""
        stripped = word.strip() or word
        found = [self._tokens(start, start + len(stripped)) for start in self._starts(stripped)]
        found = [tokens for tokens in found if tokens]
        if found:
            return found
        pieces = [self.text[start:end] for start, end in self.spans]
        return [
            [t]
            for t, (label, piece) in enumerate(zip(self.labels, pieces, strict=True))
            if word in (label, piece) or (stripped and piece.strip() == stripped)
        ]

    def _starts(self, word: str) -> list[int]:
        """Where `word` stands in the text with a word boundary on either side."""
        starts, at = [], self.text.find(word)
        while at >= 0:
            before = self.text[at - 1] if at else " "
            after = self.text[at + len(word) : at + len(word) + 1] or " "
            if not (_continues(before, word[0]) or _continues(word[-1], after)):
                starts.append(at)
            at = self.text.find(word, at + 1)
        return starts

    def _tokens(self, start: int, end: int) -> list[int]:
        return [t for t, (a, b) in enumerate(self.spans) if a < end and b > start]

    def _position(self, position: int) -> int:
        n = len(self.labels)
        if not -n <= position < n:
            raise UserError(f"there is no position {position}: the text has positions 0 to {n - 1}")
        return position % n

    def _several(self, word: str, places: list[list[int]]) -> str:
        lines = [
            f"{word!r} occurs {len(places)} times; say which (in Python also by occurrence=2):"
        ]
        for number, tokens in enumerate(places[:20], 1):
            lines.append(f"  {word}#{number}: position {_range(tokens)}  {self._around(tokens)}")
        if len(places) > 20:
            lines.append(f"  … and {len(places) - 20} more")
        return "\n".join(lines)

    def _around(self, tokens: list[int]) -> str:
        start, end = self.spans[tokens[0]][0], self.spans[tokens[-1]][1]
        left, right = max(0, start - _CONTEXT), min(len(self.text), end + _CONTEXT)
        words = self.text[left:right]
        return (
            ("…" if left else "")
            + visible(words, spaces=False)
            + ("…" if right < len(self.text) else "")
        )

    def _absent(self, word: str) -> str:
        if not word:
            return "an empty word was asked for; name a word of the text or a position"
        hints = []
        lower = self.text.lower().find(word.lower())
        if word in self.text:
            place = self._tokens(self.text.find(word), self.text.find(word) + len(word))
            hints.append(f"it occurs only inside another word, at position {_range(place)}")
        elif lower >= 0:
            hints.append(f"it occurs as {self.text[lower : lower + len(word)]!r}")
        shown = " ".join(self.labels[:40]) + (" …" if len(self.labels) > 40 else "")
        return (
            f"the text has no word {word!r}"
            + "".join(f" ({hint})" for hint in hints)
            + f"; name a word of the text or a position (0 to {len(self) - 1}). Its tokens: {shown}"
        )


def spell(tokenizer: TokenReader, ids: Sequence[int]) -> Spelling:
    """Join the bytes of `ids` into characters and name every token readably."""
    names = {number: name for name, number in tokenizer.special_ids.items()}
    pieces = [b"" if token in names else tokenizer.token_bytes(token) for token in ids]
    text, edges = _characters(b"".join(pieces))
    spans, labels, parts = [], [], _Parts()
    at = 0
    for token, piece in zip(ids, pieces, strict=True):
        # edges[c] = first byte of character c; the last entry is the number of bytes
        start = _character_at(edges, at)
        end = _character_at(edges, at + len(piece) - 1) + 1 if piece else start
        spans.append((start, end))
        whole = not piece or (edges[start] >= at and edges[end] <= at + len(piece))
        readable = text[start:end]
        if token in names:
            labels.append(names[token])
        elif set(readable) == {"\ufffd"} and readable.encode() != piece:
            labels.append("0x" + piece.hex().upper())  # bytes that are no UTF-8 even when joined
        else:
            labels.append(_label(readable, tokenizer.kind))
        parts.add(len(labels) - 1, (start, end), whole)
        at += len(piece)
    return Spelling(text, tuple(spans), tuple(parts.number(labels)))


class _Parts:
    """Numbers the tokens that share one character: `轩 1/3`, `轩 2/3`, `轩 3/3`."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.reach = -1

    def add(self, index: int, span: tuple[int, int], whole: bool) -> None:
        if whole:
            self.reach = -1
            return
        if span[0] == self.reach - 1 and self.groups:
            self.groups[-1].append(index)
        else:
            self.groups.append([index])
        self.reach = span[1]

    def number(self, labels: list[str]) -> list[str]:
        for group in self.groups:
            for k, index in enumerate(group, 1):
                labels[index] += f" {k}/{len(group)}"
        return labels


def _characters(data: bytes) -> tuple[str, list[int]]:
    """Decode, and the first byte of each character; one U+FFFD for each byte that is no UTF-8."""
    characters: list[str] = []
    edges: list[int] = []
    at = 0
    while at < len(data):
        lead = data[at]
        size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        try:
            character = data[at : at + size].decode("utf-8")
        except UnicodeDecodeError:
            character, size = "\ufffd", 1
        characters.append(character)
        edges.append(at)
        at += size
    return "".join(characters), [*edges, len(data)]


def _character_at(edges: list[int], byte: int) -> int:
    """Index of the character that holds `byte`."""
    from bisect import bisect_right

    return max(0, bisect_right(edges, byte) - 1)


def _label(piece: str, kind: str) -> str:
    # A word tokenizer takes the space before a word as a matter of course; showing it on every
    # label would only hide the words.
    if kind == "word" and len(piece) > 1 and piece[0] == " " and piece.strip():
        piece = piece[1:]
    return visible(piece) or "∅"


def visible(text: str, spaces: bool = True) -> str:
    """`text` with blanks and control characters made visible: `␣`, `↵`, `⇥`, `U+200B`."""
    shown = []
    for index, character in enumerate(text):
        code, category = ord(character), unicodedata.category(character)
        if character == " " and not spaces:
            shown.append(" ")
        elif character in _VISIBLE:
            shown.append(_VISIBLE[character])
        elif category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"):
            shown.append(f"U+{code:04X}")
        elif category.startswith("M") and index == 0:
            shown.append("◌" + character)  # a combining mark needs something to stand on
        else:
            shown.append(character)
    return "".join(shown)


def width(text: str) -> int:
    """Terminal columns that `text` takes (2 for a Chinese character)."""
    columns = int(wcswidth(text))
    return columns if columns >= 0 else sum(max(0, int(wcwidth(c))) for c in text)


def shorten(text: str, columns: int) -> str:
    """At most `columns` wide: a long text loses its middle, since both ends tell words apart."""
    if width(text) <= columns:
        return text
    if columns <= 1:
        return "…"[:columns]
    head, tail = "", ""
    left = (columns - 1 + 1) // 2
    for character in text:
        if width(head + character) > left:
            break
        head += character
    for character in reversed(text):
        if width(head) + 1 + width(character + tail) > columns:
            break
        tail = character + tail
    return head + "…" + tail


def pad(text: str, columns: int, right: bool = False) -> str:
    """Shortened or filled with blanks to exactly `columns`; `right` puts the text at the right."""
    text = shorten(text, columns)
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks


def is_wide(text: str) -> bool:
    """Whether every character is of a script written without spaces and two columns wide."""
    return bool(text) and all(int(wcwidth(c)) == 2 for c in text)


def _continues(left: str, right: str) -> bool:
    """Whether `right` goes on with the word that `left` belongs to."""
    return _in_word(left) and _in_word(right) and not (_unspaced(left) or _unspaced(right))


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def _unspaced(character: str) -> bool:
    """Scripts whose words are not set apart by spaces, and Hangul, whose particles are attached."""
    code = ord(character)
    return (
        0x2E80 <= code <= 0x9FFF
        or 0xAC00 <= code <= 0xD7FF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
        or 0x0E00 <= code <= 0x0EFF
        or 0x1000 <= code <= 0x109F
        or 0x1780 <= code <= 0x17FF
    )


def _range(tokens: list[int]) -> str:
    return str(tokens[0]) if len(tokens) == 1 else f"{tokens[0]} to {tokens[-1]}"
