from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from budgerigar.models.ngram_packing import ALL, Packing, distinct, merged


def cases(draw: st.DrawFn) -> tuple[list[int], int, int, int | None]:
    vocab_size = draw(st.sampled_from([1, 3, 255, 256, 70_000, 2**31]))
    ids = st.sampled_from([0, vocab_size // 2, vocab_size - 1])
    end_id = draw(st.sampled_from([None, vocab_size - 1]))
    return draw(st.lists(ids, min_size=1, max_size=30)), vocab_size, draw(st.integers(1, 9)), end_id


def following(tokens: list[int], place: int, order: int, end_id: int | None) -> list[int]:
    """The codes of a place: ids + 1, 0 from where the document has ended."""
    codes: list[int] = []
    for token in tokens[place : place + order]:
        codes.append(token + 1)
        if token == end_id and len(codes) > 1:
            break
    return codes + [0] * (order - len(codes))


@settings(max_examples=150, deadline=None)
@example(([0], 2**31, 1, None), 1, 0, 1)  # a first token of more bits than share places out
@given(st.composite(cases)(), st.integers(1, 40), st.integers(0, ALL), st.integers(0, ALL))
def test_words_hold_the_codes_and_sort_like_them(
    case: tuple[list[int], int, int, int | None], block: int, low: int, high: int
) -> None:
    tokens, vocab_size, order, end_id = case
    packing = Packing(np.array(tokens, dtype=np.int64), vocab_size, order, end_id)
    wanted = [following(tokens, place, order, end_id) for place in range(len(tokens))]
    words = np.concatenate([packing.words(codes) for codes in packing.blocks(block)], axis=1)
    assert words.shape == (packing.n_words, len(tokens))
    codes = np.stack([packing.code(words, place) for place in range(order)], axis=1)
    assert codes.tolist() == wanted
    tops = packing.tops(words)
    assert 0 <= tops.min() <= tops.max() < ALL
    some = np.concatenate([packing.words(c, low, high) for c in packing.blocks(block)], axis=1)
    np.testing.assert_array_equal(some, words[:, (tops >= low) & (tops < high)])
    found, counts = distinct(words.copy())
    listed = np.stack([packing.code(found, place) for place in range(order)], axis=1).tolist()
    assert listed == sorted(map(list, set(map(tuple, wanted))))
    assert counts.tolist() == [wanted.count(code) for code in listed]
    again, doubled = merged([(found, counts), (found[:, ::2], counts[::2])])
    np.testing.assert_array_equal(again, found)
    assert doubled.tolist() == [n * (2 - i % 2) for i, n in enumerate(counts.tolist())]


@pytest.mark.parametrize(
    ("vocab_size", "order", "n_words"), [(255, 8, 1), (256, 8, 2), (70_000, 8, 3)]
)
def test_as_many_tokens_a_word_as_fit(vocab_size: int, order: int, n_words: int) -> None:
    assert Packing(np.zeros(1, dtype=np.int64), vocab_size, order, None).n_words == n_words
