"""The next few tokens of each place of a stream as one or a few 64-bit numbers, which sort quickly.

A token is written as its id + 1 in just enough bits, first token first, as many tokens as fit into
a word (16 of 8 symbols, 8 of 200, 3 of 70,000); 0 stands for "the document ended before this". So
nothing overflows, whatever the vocabulary and the order, and words sort as the tokens do.

Shapes: n tokens of the stream, V vocab_size, W words, M places. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

TOP_BITS = 20
"""Leading bits by which places are shared out among passes."""
ALL = 1 << TOP_BITS


class Packing:
    """Reads the `order` tokens from each place of `tokens` (n,) on; see the head of this file."""

    def __init__(self, tokens: NDArray, vocab_size: int, order: int, end_id: int | None) -> None:
        self.tokens, self.order = tokens, order
        self._end = None if end_id is None else end_id + 1  # as a code
        self._bits = vocab_size.bit_length()
        self._per_word = min(order, 64 // self._bits)
        self.n_words = -(-order // self._per_word)
        self._shift = np.uint64(max(0, self._per_word * self._bits - TOP_BITS))

    def blocks(self, size: int) -> Iterator[NDArray[np.int64]]:
        """Codes of `size` places at a time, and of the order - 1 tokens that follow them."""
        n = len(self.tokens)
        for begin in range(0, n, size):
            places = min(size, n - begin)
            codes = np.zeros(places + self.order - 1, dtype=np.int64)
            found = self.tokens[begin : begin + len(codes)]
            codes[: len(found)] = found
            codes[: len(found)] += 1
            yield codes

    def words(self, codes: NDArray[np.int64], low: int = 0, high: int = ALL) -> Words:
        """Words (W, M) of the places of a block whose `tops` are from `low` to below `high`."""
        places = self._candidates(codes, low, high)
        words = np.zeros((self.n_words, len(places)), dtype=np.uint64)
        self._fill(words, codes, places, 0)
        if (low, high) != (0, ALL):
            tops = self.tops(words)
            kept = (tops >= low) & (tops < high)
            words, places = words[:, kept], places[kept]
        for word in range(1, self.n_words):
            self._fill(words, codes, places, word)
        return words

    def tops(self, words: Words) -> NDArray[np.int64]:
        """(M,) the leading bits of each place's words."""
        return (words[0] >> self._shift).astype(np.int64)

    def code(self, words: Words, place: int) -> NDArray[np.int64]:
        """(M,) the tokens at `place` (0 … order - 1), as codes."""
        word, inside = divmod(place, self._per_word)
        in_word = min(self._per_word, self.order - word * self._per_word)
        shift = np.uint64((in_word - 1 - inside) * self._bits)
        mask = np.uint64((1 << self._bits) - 1)
        return ((words[word] >> shift) & mask).astype(np.int64)

    def _candidates(self, codes: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
        """Places whose first token alone does not rule them out already."""
        first = codes[: len(codes) - self.order + 1]
        rest = (self._per_word - 1) * self._bits  # bits below the first token
        shift = int(self._shift)
        least, most = low << shift >> rest, (high << shift) - 1 >> rest
        return np.flatnonzero((first >= least) & (first <= most))

    def _fill(
        self, words: Words, codes: NDArray[np.int64], places: NDArray[np.int64], word: int
    ) -> None:
        """Write one of the words of `places`."""
        first = word * self._per_word
        open_still = np.ones(len(places), dtype=bool)
        if word and self._end is not None:  # the last token before this word that is written
            for place in range(1, first):
                open_still &= codes[places + place] != self._end
        for place in range(first, min(first + self._per_word, self.order)):
            found = codes[places + place]
            if self._end is not None and place:
                found[~open_still] = 0
                open_still &= found != self._end
            words[word] <<= np.uint64(self._bits)
            words[word] |= found.astype(np.uint64)


def distinct(words: Words) -> tuple[Words, NDArray[np.int64]]:
    """Sorted distinct columns of `words` (W, M), which it may overwrite, and how often each is."""
    if len(words) == 1:
        words[0].sort()
    else:
        words = words[:, _order(words)]
    heads = _heads(words)
    return words[:, heads], np.diff(np.append(heads, words.shape[1]))


def merged(runs: list[tuple[Words, NDArray[np.int64]]]) -> tuple[Words, NDArray[np.int64]]:
    """Several results of `distinct` as one."""
    if len(runs) == 1:
        return runs[0]
    words = np.concatenate([run[0] for run in runs], axis=1)
    counts = np.concatenate([run[1] for run in runs])
    order = _order(words)
    words, counts = words[:, order], counts[order]
    heads = _heads(words)
    return words[:, heads], np.add.reduceat(counts, heads)


def _order(words: Words) -> NDArray[np.int64]:
    """(M,) what sorts the columns of `words`: by the last word, then stably by those before it."""
    order = np.arange(words.shape[1])
    for word in words[::-1]:
        key = word[order]
        if key.max(initial=0) < 1 << 16:
            key = key.astype(np.uint16)  # numpy sorts these by digits, in a tenth of the time
        order = order[np.argsort(key, kind="stable")]
    return order


def _heads(words: Words) -> NDArray[np.int64]:
    """Where in sorted columns another value begins."""
    new = np.ones(words.shape[1], dtype=bool)
    new[1:] = words[0, 1:] != words[0, :-1]
    for word in words[1:]:
        new[1:] |= word[1:] != word[:-1]
    return np.flatnonzero(new)
