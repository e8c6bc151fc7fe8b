"""Which tokens are words: what word vectors give a vector to, whatever the tokenizer.

A token is a word if it holds a letter or a digit. A tokenizer of kind "word" knows the same word with
and without a space before it and in upper and lower case: these are one word here. The tokens that
spell a rare word byte by byte are none. Of other tokenizers each piece is by itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from budgerigar.text.tokenizer import CONTINUATION, Tokenizer


def word_keys(tokenizer: Tokenizer, lowercase: bool = True) -> list[str | None]:
    """For each id the word that it stands for, None for what is no word (V entries)."""
    special = set(tokenizer.special_ids.values())
    inside = continuations(tokenizer)
    keys: list[str | None] = []
    for token in range(tokenizer.vocab_size):
        skipped = token in special or (tokenizer.kind == "word" and inside[token])
        text = None if skipped else _text(tokenizer, token)
        if text is not None and tokenizer.kind == "word":
            text = as_key(text, lowercase)
        elif text is not None and inside[token]:
            text = CONTINUATION + text
        keys.append(text)
    return keys


def _text(tokenizer: Tokenizer, token: int) -> str | None:
    try:
        text = tokenizer.token_bytes(token).decode()
    except UnicodeDecodeError:
        return None
    return text if any(character.isalnum() for character in text) else None


def as_key(text: str, lowercase: bool) -> str:
    """A typed word as the key of a tokenizer of kind "word"."""
    return text.strip().lower() if lowercase else text.strip()


def continuations(tokenizer: Tokenizer) -> np.ndarray:
    """bool (V,): pieces that go on inside a word."""
    marks = np.zeros(tokenizer.vocab_size, dtype=bool)
    if tokenizer.kind in ("word", "wordpiece"):
        vocabulary = tokenizer.backend.get_vocab(with_added_tokens=False)
        marks[[i for piece, i in vocabulary.items() if piece.startswith(CONTINUATION)]] = True
    return marks


def word_edges(tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """bool (V,), twice: pieces that may go on with a word before them, and that a word may go on after.

    Two neighbours are of one word where the first is one of the latter and the second one of the
    former: letters and digits side by side, and parts of a character. Chinese characters and the like
    are words by themselves, special tokens none. A vocabulary that marks what goes on inside a word
    (BERT's "##ing") is believed.
    """
    special = set(tokenizer.special_ids.values())
    vocabulary = tokenizer.backend.get_vocab(with_added_tokens=True)
    begins, ends = (np.zeros(tokenizer.vocab_size, dtype=bool) for _ in range(2))
    if any(piece.startswith(INSIDE) for piece in vocabulary):
        begins[[i for piece, i in vocabulary.items() if piece.startswith(INSIDE)]] = True
        ends[:] = True
        ends[list(special)] = False
        return begins, ends
    for token in range(tokenizer.vocab_size):
        text = tokenizer.token_bytes(token).decode(errors="surrogateescape")
        if text and token not in special:
            begins[token], ends[token] = _in_word(text[0]), _in_word(text[-1])
    return begins, ends


INSIDE = "##"  # WordPiece's mark (Wu et al. 2016; BERT)


def _in_word(character: str) -> bool:
    """Whether it can be joined to a neighbour: a letter, mark or digit, or part of a character."""
    if "\udc80" <= character <= "\udcff":  # a byte that is no character by itself
        return True
    return unicodedata.category(character)[0] in "LMN" and not _alone(character)


def _alone(character: str) -> bool:
    """A sign that is written without spaces and mostly means something by itself."""
    name = unicodedata.name(character, "")
    return name.startswith(("CJK", "HIRAGANA", "KATAKANA"))


def whole_words(tokens: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """bool like `tokens` (n,): False where a token only begins or continues a spelled word.

    Only a tokenizer of kind "word" spells; of others every piece is whole.
    """
    if tokenizer.kind != "word":
        return np.ones(len(tokens), dtype=bool)
    inside = continuations(tokenizer)[tokens]
    whole = ~inside
    whole[:-1] &= ~inside[1:]
    return whole


def numbered(keys: Sequence[str | None], counts: np.ndarray, min_count: int) -> np.ndarray:
    """Row of each id (V,) int32, -1: none. `counts` (V,): how often each id occurs as a whole word.

    Rows are words by how often they occur, the most frequent first; those below `min_count` have
    none.
    """
    found: dict[str, int] = {}
    group = np.array(
        [-1 if key is None else found.setdefault(key, len(found)) for key in keys], dtype=np.int64
    )
    totals = np.bincount(
        group[group >= 0], weights=counts[group >= 0], minlength=len(found)
    ).astype(np.int64)
    order = np.argsort(-totals, kind="stable")
    order = order[totals[order] >= max(min_count, 1)]
    row = np.full(len(found) + 1, -1, dtype=np.int32)  # the last entry is for group -1
    row[order] = np.arange(len(order), dtype=np.int32)
    return row[group]


def row_words(keys: Sequence[str | None], rows: np.ndarray) -> list[str]:
    """The word of each row, from `word_keys` and the row of each id (V,)."""
    words = [""] * (int(rows.max(initial=-1)) + 1)
    for key, row in zip(keys, rows.tolist(), strict=True):
        if row >= 0 and key is not None and not words[row]:
            words[row] = key
    return words
