from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgerigar.errors import UserError
from budgerigar.models import ngram_arrays, ngram_counter, ngram_counts, ngram_packing
from budgerigar.models.ngram_counter import NgramCounter

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


def by_dictionary(
    tokens: list[int], length: int, end_id: int | None
) -> tuple[dict[tuple[int, ...], int], dict[tuple[int, ...], int]]:
    """(counts, Kneser-Ney's counts) of a length, one place after the other."""
    counts: dict[tuple[int, ...], int] = {}
    neighbours: dict[tuple[int, ...], set[object]] = {}
    opened = 0
    for place, token in enumerate(tokens):
        start = place - length + 1
        if start >= opened:
            gram = tuple(tokens[start : place + 1])
            given = place == 0 and token == end_id
            counts[gram] = counts.get(gram, 0) + (not given)
            before: object = tokens[start - 1] if start > opened else ("opening", place)
            neighbours.setdefault(gram, set()).update([] if given else [before])
        if token == end_id:
            opened = place
    return counts, {gram: len(found) for gram, found in neighbours.items()}


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_memory_gives_the_counts_of_a_dictionary(data: st.DataObject) -> None:
    vocab_size = data.draw(st.sampled_from([1, 2, 5, 300, 70_000]))
    ids = st.integers(max(0, vocab_size - 5), vocab_size - 1)
    tokens = data.draw(st.lists(ids, max_size=60))
    order = data.draw(st.integers(1, 9))
    end_id = data.draw(st.sampled_from([None, vocab_size - 1]))
    memory = data.draw(st.sampled_from([1, 400, 2000, 1 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        block = data.draw(st.sampled_from([1, 7, 1 << 20]))
        patch.setattr(ngram_counter, "BLOCK", block)
        patch.setattr(ngram_counts, "BLOCK", block)
        patch.setattr(ngram_arrays, "SPILL_BYTES", data.draw(st.sampled_from([1, 50, 1 << 20])))
        array = np.array(tokens, dtype=np.uint32)
        counter = NgramCounter(array, vocab_size, end_id, memory=memory)
        counter.count_to(order)
    for length, level in enumerate(counter.levels, start=1):
        counts, adjusted = by_dictionary(tokens, length, end_id)
        assert spell(counter, length) == counts
        assert list(spell(counter, length)) == sorted(counts)
        if length < order:
            assert level.adjusted is not None
            assert dict(zip(sorted(counts), level.adjusted.tolist(), strict=True)) == adjusted


def test_sorting_takes_no_more_memory_than_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ngram_counter, ngram_counts):
        monkeypatch.setattr(module, "BLOCK", 1 << 14)
    monkeypatch.setattr(ngram_arrays, "SPILL_BYTES", 1 << 16)
    monkeypatch.setattr(ngram_counter, "ALL", 1 << 12)
    monkeypatch.setattr(ngram_packing, "ALL", 1 << 12)
    monkeypatch.setattr(ngram_packing, "TOP_BITS", 12)
    tokens = np.random.default_rng(0).integers(0, 40, 400_000).astype(np.uint8)
    blocks = 25 * 8 * (1 << 14)  # arrays of a block
    peaks = []
    for memory in (1 << 20, 1 << 22):
        tracemalloc.start()
        levels = NgramCounter(tokens, 40, memory=memory).count_to(6)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert levels[-1].counts.sum() == len(tokens) - 5
        assert peaks[-1] < memory + blocks + 2 * 6 * (1 << 16)
    assert peaks[0] < peaks[1]
