"""Which part of a text is held out for validation.

Without documents it is the last tenth of the characters. With documents it is the last of them,
about a tenth of the characters, such that no document is on both sides: copies of a document go
together. A document so large that it alone would miss the tenth by far is cut in two.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from budgerigar.text.documents import Piece

_FEWEST_CHARACTERS = 2  # of a part without documents: one to see, one to predict


@dataclass(frozen=True)
class Contents:
    """What one pass over a text finds. lengths: characters of each document; keys: a hash of its
    text each, equal for copies. Without documents there is one entry for the whole."""

    n_characters: int
    n_bytes: int
    lengths: np.ndarray  # (documents,) int64
    keys: np.ndarray  # (documents,) uint64
    with_documents: bool


@dataclass(frozen=True)
class Holdout:
    """held_out: bool (documents,), and the document, if any, of which the characters from
    `cut_at` on are held out although what is before them is not."""

    held_out: np.ndarray
    cut_document: int = -1
    cut_at: int = 0
    note: str = ""


def survey(pieces: Iterable[Piece], with_documents: bool) -> Contents:
    """Read all pieces once, in constant memory (16 bytes for each document)."""
    lengths, keys = array("q"), array("Q")
    n_characters = n_bytes = length = 0
    digest = hashlib.blake2b(digest_size=8)
    for text, gap, ends in pieces:
        data = text.encode()
        n_characters += len(text) + len(gap)
        n_bytes += len(data) + len(gap.encode())
        length += len(text)
        if not with_documents:
            continue
        digest.update(data)
        if ends:
            lengths.append(length)
            keys.append(int.from_bytes(digest.digest(), "little"))
            digest, length = hashlib.blake2b(digest_size=8), 0
    if not with_documents:
        lengths.append(n_characters)
        keys.append(0)
    return Contents(
        n_characters,
        n_bytes,
        np.frombuffer(lengths, dtype=np.int64),
        np.frombuffer(keys, dtype=np.uint64),
        with_documents,
    )


def hold_out(contents: Contents, fraction: float) -> Holdout | None:
    """The part for validation, or None if the text is too short to spare any."""
    if contents.with_documents:
        return _hold_out_documents(contents, fraction)
    n = contents.n_characters
    n_held_out = max(n - int(n * (1 - fraction)), _FEWEST_CHARACTERS)
    if n - n_held_out < _FEWEST_CHARACTERS:
        return None
    return Holdout(np.zeros(1, dtype=bool), 0, n - n_held_out)


def _hold_out_documents(contents: Contents, fraction: float) -> Holdout | None:
    lengths = contents.lengths
    _, first, group = np.unique(contents.keys, return_index=True, return_inverse=True)
    # Groups of copies, in the order in which they first occur.
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    group = rank[group]
    sizes = np.bincount(group, weights=lengths).astype(np.int64)  # characters of each group
    copies = np.bincount(group)
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    boundary = int(total * (1 - fraction))  # characters before it are learnt from
    crossing = int(np.searchsorted(ends, boundary, side="right"))
    crossing = min(crossing, len(sizes) - 1)
    before = int(ends[crossing] - sizes[crossing])
    large = sizes[crossing] > 0.5 * (total - boundary)
    inside = boundary - before
    if copies[crossing] == 1 and large and 0 < inside < sizes[crossing]:
        document = int(np.flatnonzero(group == crossing)[0])
        return Holdout(group > crossing, document, inside)
    held_out = group > crossing
    if inside == 0 or not held_out.any():
        held_out = group >= crossing
    if held_out.all():
        return None
    return Holdout(held_out)


def route(
    pieces: Iterable[Piece], holdout: Holdout, with_documents: bool
) -> Iterator[tuple[bool, Piece]]:
    """(is held out, piece) for every piece; the piece at the cut is cut."""
    held_out = holdout.held_out.tolist()
    document = offset = 0
    for piece in pieces:
        side = held_out[min(document, len(held_out) - 1)]
        if document != holdout.cut_document:
            yield side, piece
        else:
            at = min(max(holdout.cut_at - offset, 0), len(piece.text))
            if 0 < at < len(piece.text):
                yield False, Piece(piece.text[:at], "", with_documents)
                yield True, Piece(piece.text[at:], piece.gap, piece.ends)
            elif at and offset + at == holdout.cut_at:  # the cut is where the piece ends
                yield False, Piece(piece.text, piece.gap, with_documents)
            else:
                yield offset >= holdout.cut_at, piece
        offset += len(piece.text)
        if piece.ends:
            document += 1
            offset = 0
