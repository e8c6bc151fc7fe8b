from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from budgerigar.models import ngram_counts
from budgerigar.models.ngram_counter import NgramCounter
from budgerigar.models.ngram_counts import (
    context_blocks,
    look_up,
    ngram_ids,
    suffix_ids,
    usable_context,
)

A, B, C, END = 0, 1, 2, 3


def test_usable_context_restarts_at_end() -> None:
    tokens = np.array([A, B, END, A, END, END, B])
    assert usable_context(tokens, None).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert usable_context(tokens, END).tolist() == [0, 1, 2, 1, 2, 1, 1, 2]
    rows = np.array([[A, A, B], [A, END, B]])
    first = np.array([1, 0])
    assert usable_context(rows, END, first).tolist() == [[-1, 0, 1, 2], [0, 1, 1, 2]]


def test_ids_of_unseen_or_unusable_ngrams_are_minus_one() -> None:
    counter = NgramCounter(np.array([A, B, A, B, C]), vocab_size=3)
    keys = [level.keys for level in counter.count_to(2)]
    stream = np.array([A, B, B])
    ids = ngram_ids(keys, stream, usable_context(stream, None)[:-1], 3)
    assert ids[0].tolist() == [0, 1, 1]
    assert ids[1].tolist() == [-1, 0, -1]
    assert ngram_ids(keys, stream, np.zeros(3, dtype=np.int64), 3)[1].tolist() == [-1, -1, -1]


def test_suffixes_can_be_found_again_from_the_keys() -> None:
    tokens = np.random.default_rng(0).integers(0, 5, 2000)
    levels = NgramCounter(tokens, 5, end_id=0).count_to(5)
    for shorter, longer in pairwise(levels):
        again = suffix_ids(longer.keys, shorter.keys, shorter.suffixes, 5)
        np.testing.assert_array_equal(again, longer.suffixes)


@pytest.mark.parametrize("size", [10, 5000, 20_000])
def test_looking_up_many_at_once_is_looking_up_each(size: int) -> None:
    rng = np.random.default_rng(size)
    keys = np.unique(rng.integers(0, 90_000, 30_000))
    parents, tokens = rng.integers(-1, 9_000, size), rng.integers(0, 10, size)
    place = {int(key): number for number, key in enumerate(keys)}
    wanted = [
        place.get(int(p) * 10 + int(t), -1) if p >= 0 else -1
        for p, t in zip(parents, tokens, strict=True)
    ]
    assert look_up(keys, parents, tokens, 10).tolist() == wanted


@pytest.mark.parametrize("block", [1, 3, 7, 100])
def test_blocks_hold_whole_contexts(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_counts, "BLOCK", block)
    keys = np.unique(np.random.default_rng(block).integers(0, 200, 90))
    blocks = list(context_blocks(keys, 5))
    assert [begin for begin, _ in blocks] == [0, *(stop for _, stop in blocks[:-1])]
    assert blocks[-1][1] == len(keys)
    for begin, stop in blocks:
        assert 0 < stop - begin <= max(block, 5)
        assert begin == 0 or keys[begin - 1] // 5 < keys[begin] // 5
    assert not list(context_blocks(keys[:0], 5))
