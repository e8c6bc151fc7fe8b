"""What a tokenizer is trained on: a seeded sample of a text of any size, and its characters."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from budgerigar.text.tables import code_points

_CHUNK_CHARACTERS = 1 << 14
_N_CODE_POINTS = 0x110000
# First and last code points of what counts as Chinese, Japanese or Korean: CJK punctuation to
# unified ideographs, Hangul, compatibility and full-width forms, the ideographic planes.
_CJK = ((0x2E80, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF))
_CJK_PLANES = (0x20000, 0x3FFFF)


@dataclass(frozen=True)
class Sample:
    """Parts of a text, in their order; size of the whole text, and how often each of its
    characters occurs."""

    texts: list[str]
    total_bytes: int
    characters: Counter[str]

    @cached_property
    def mostly_cjk(self) -> bool:
        """At least half of what is not white space is Chinese, Japanese or Korean."""
        counts = {c: n for c, n in self.characters.items() if not c.isspace()}
        n_cjk = sum(n for c, n in counts.items() if _is_cjk(ord(c)))
        return bool(counts) and 2 * n_cjk >= sum(counts.values())

    @cached_property
    def without_spaces(self) -> bool:
        """Mostly Chinese or Japanese, and spaces do not part its words (as they do in Korean)."""
        n_spaces = sum(n for c, n in self.characters.items() if c.isspace() and c != "\n")
        return self.mostly_cjk and 10 * n_spaces < self.characters.total()


def draw_sample(texts: Iterable[str], sample_bytes: int, seed: int) -> Sample:
    """At most `sample_bytes` UTF-8 bytes of `texts`, chosen evenly at random by `seed`.

    Every chunk of the text draws a number, and those with the smallest are kept (a reservoir), so
    that one pass in constant memory will do. A text that fits is taken whole.
    """
    random = np.random.default_rng(seed)
    kept: list[tuple[float, int, str, int]] = []  # (-number, position, chunk, bytes)
    kept_bytes = total_bytes = position = 0
    counts = np.zeros(_N_CODE_POINTS, dtype=np.int64)
    for batch in _batches(texts):
        counts += np.bincount(code_points("".join(batch)), minlength=_N_CODE_POINTS)
        for chunk in chain.from_iterable(map(_chunks, batch)):
            size = len(chunk.encode())
            total_bytes += size
            kept_bytes += size
            position += 1
            heapq.heappush(kept, (-random.random(), position, chunk, size))
            while kept_bytes > sample_bytes:
                kept_bytes -= heapq.heappop(kept)[3]
    in_order = [chunk for _, _, chunk, _ in sorted(kept, key=lambda item: item[1])]
    characters = {chr(point): int(counts[point]) for point in np.flatnonzero(counts)}
    return Sample(in_order, total_bytes, Counter(characters))


def _chunks(text: str) -> Iterator[str]:
    """A text in parts of at most `_CHUNK_CHARACTERS`, cut at line ends where there are any."""
    start = 0
    while start < len(text):
        stop = start + _CHUNK_CHARACTERS
        if stop < len(text):
            stop = text.rfind("\n", start, stop) + 1 or stop
        yield text[start:stop]
        start = stop


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts in lists of about a million characters."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= 1 << 20:
            yield batch
            batch, size = [], 0
    yield batch


def _is_cjk(point: int) -> bool:
    return any(first <= point <= last for first, last in (*_CJK, _CJK_PLANES))
