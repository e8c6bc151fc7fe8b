"""How text is cut into words before a tokenizer looks at it, and where a block of it may end.

A tokenizer of kind bpe, unigram, wordpiece or word first splits text by a pattern; its ids depend
on one piece at a time. So a text can be encoded in blocks if each block ends where a piece does,
whatever comes after it. Pieces have a greatest length: some texts have no space for gigabytes.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tokenizers import Regex, pre_tokenizers

# Greatest length of a piece, in characters. Longest-match (wordpiece, word) tries every end of
# every suffix, which is cubic in the length; merging is not.
_LONGEST = {"bpe": 1000, "unigram": 1000, "wordpiece": 100, "word": 100}


def pattern(kind: str) -> str:
    """The pattern (Oniguruma's syntax) whose matches are the pieces of kind `kind`.

    A piece is a word, up to three digits, or other signs, each with the space before it, or white
    space; the last blank before a word belongs to the word. Kind "word" takes signs and Chinese
    characters one by one, and these without a space, which they seldom have.
    """
    n = _LONGEST[kind]
    spaces = rf"\s{{1,{n}}}(?!\S)|\s{{1,{n}}}"
    if kind == "word":
        letters = r"[\p{L}\p{M}&&[^\p{Han}]]"
        signs = r"\p{Han}| ?[^\s\p{L}\p{M}\p{N}]"
        return rf" ?{letters}{{1,{n}}}| ?\p{{N}}{{1,3}}|{signs}|{spaces}"
    signs = rf" ?[^\s\p{{L}}\p{{M}}\p{{N}}]{{1,{n}}}"
    return rf" ?[\p{{L}}\p{{M}}]{{1,{n}}}| ?\p{{N}}{{1,3}}|{signs}|{spaces}"


@lru_cache
def _pieces_by(kind: str) -> pre_tokenizers.Split:
    return pre_tokenizers.Split(Regex(pattern(kind)), "isolated")


def pre_tokenizer(kind: str) -> pre_tokenizers.PreTokenizer:
    """Cut by `pattern(kind)`, then write bytes as printable characters."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([_pieces_by(kind), byte_level])


# A space or line end after something else always begins a piece, and the piece before it ends
# there whatever follows. (Python's \s holds all that Oniguruma's does.)
_WORD_END = re.compile(r"\S(?=[ \n])")
_TAIL = 512  # characters searched first


class SafeSplitter:
    """Cuts text where tokenization is not affected. Kind None: anywhere."""

    def __init__(self, kind: str | None) -> None:
        self._kind = kind

    def split(self, text: str, size: int) -> tuple[list[str], str]:
        """(blocks of about `size` characters, rest): each block ends at a safe place; the rest is
        what might belong together with a following text."""
        if self._kind is None:
            return [text] if text else [], ""
        blocks, start, width = [], 0, size
        while start + width < len(text):
            cut = self._last_safe(text[start : start + width])
            if cut:
                blocks.append(text[start : start + cut])
                start, width = start + cut, size
            else:
                width *= 2  # a piece longer than the block
        rest = text[start:]
        cut = self._last_safe(rest)
        if cut:
            blocks.append(rest[:cut])
        return blocks, rest[cut:]

    def _last_safe(self, text: str) -> int:
        """The last place in `text` at which it may be cut, 0 if there is none."""
        tail = max(0, len(text) - _TAIL)
        for begin in dict.fromkeys((tail, 0)):
            ends = [match.end() for match in _WORD_END.finditer(text, begin)]
            if ends:
                return ends[-1]
        return self._last_piece_end(text)

    def _last_piece_end(self, text: str) -> int:
        """As `_last_safe`, for a text without a word that is followed by a space: the pattern
        itself is asked. The last two pieces may yet change, and white space must not be cut off
        from a word after it, because the pattern looks ahead there."""
        assert self._kind is not None
        pieces = _pieces_by(self._kind).pre_tokenize_str(text)
        for piece, (_, end) in reversed(pieces[:-2]):
            if not _is_blank(piece[-1]) or _is_blank(text[end]):
                return end
        return 0


class SpaceSplitter:
    """Cuts text only before a space that follows something else: for patterns that are not ours."""

    def split(self, text: str, size: int) -> tuple[list[str], str]:
        """As `SafeSplitter.split`."""
        blocks, start = [], 0
        while len(text) - start > size:
            found = _SPACE.search(text, start + size)
            if found is None:
                break
            blocks.append(text[start : found.end()])
            start = found.end()
        return blocks, text[start:]


_SPACE = re.compile(r"\S(?= )")


def _is_blank(character: str) -> bool:
    """White space to Oniguruma: to Python the four information separators are, too."""
    return character.isspace() and not "\x1c" <= character <= "\x1f"
