from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.models.ngram_counts import NgramCounter, ngram_ids, suffix_ids, usable_context

A, B, C, END = 0, 1, 2, 3


def spell(counter: NgramCounter, length: int) -> dict[tuple[int, ...], int]:
    """Counts of a length by the tokens themselves."""
    found: list[tuple[int, ...]] = [()]
    for level in counter.levels[:length]:
        parents, last = np.divmod(level.keys, counter.vocab_size)
        found = [(*found[p], int(t)) for p, t in zip(parents, last, strict=True)]
    counts = counter.levels[length - 1].counts
    return {gram: int(count) for gram, count in zip(found, counts, strict=True)}


def test_counts_of_a_plain_stream() -> None:
    counter = NgramCounter(np.array([A, B, A, B, C]), vocab_size=3)
    counter.count_to(3)
    assert spell(counter, 1) == {(A,): 2, (B,): 2, (C,): 1}
    assert spell(counter, 2) == {(A, B): 2, (B, A): 1, (B, C): 1}
    assert spell(counter, 3) == {(A, B, A): 1, (B, A, B): 1, (A, B, C): 1}


def test_adjusted_counts_are_left_neighbours_and_openings() -> None:
    counter = NgramCounter(np.array([A, B, A, B, C]), vocab_size=3)
    counter.count_to(3)
    # A: once at the very start, once after B; B: after A only; C: after B only
    assert counter.levels[0].adjusted is not None
    assert counter.levels[0].adjusted.tolist() == [2, 1, 1]
    # A B: at the start and after B; B A: after A; B C: after A
    assert counter.levels[1].adjusted is not None
    assert counter.levels[1].adjusted.tolist() == [2, 1, 1]
    assert counter.levels[2].adjusted is None


def test_documents_are_opened_and_closed_by_end() -> None:
    counter = NgramCounter(np.array([END, A, B, END, A, END]), vocab_size=4, end_id=END)
    counter.count_to(4)
    assert spell(counter, 1) == {(A,): 2, (B,): 1, (END,): 2}  # the opening one is never predicted
    assert spell(counter, 2) == {(A, B): 1, (A, END): 1, (B, END): 1, (END, A): 2}
    assert spell(counter, 3) == {(END, A, B): 1, (A, B, END): 1, (END, A, END): 1}
    assert spell(counter, 4) == {(END, A, B, END): 1}


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


def test_large_vocabularies_do_not_overflow() -> None:
    rng = np.random.default_rng(1)
    tokens = rng.choice(np.array([69_999, 69_998, 3, 40_000]), 5000)
    counter = NgramCounter(tokens, 70_000)
    counter.count_to(8)
    grams = spell(counter, 8)
    wanted: dict[tuple[int, ...], int] = {}
    for i in range(len(tokens) - 7):
        gram = tuple(int(t) for t in tokens[i : i + 8])
        wanted[gram] = wanted.get(gram, 0) + 1
    assert grams == wanted


def test_a_foreign_token_is_named() -> None:
    with pytest.raises(UserError, match="token 7 does not fit a vocabulary of 5"):
        NgramCounter(np.array([1, 7]), vocab_size=5)


@pytest.mark.parametrize("tokens", [[], [2], [END], [END, END]])
def test_hardly_any_text(tokens: list[int]) -> None:
    levels = NgramCounter(np.array(tokens, dtype=np.uint16), 4, end_id=END).count_to(4)
    assert sum(int(level.counts.sum()) for level in levels[:1]) == max(
        0, len(tokens) - (tokens[:1] == [END])
    )
