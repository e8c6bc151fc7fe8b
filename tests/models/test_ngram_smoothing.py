from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textbook_ngram import TextbookNgram

from budgerigar.models.configs import NgramConfig, Smoothing
from budgerigar.models.ngram import NgramModel
from budgerigar.models.ngram_counts import usable_context
from budgerigar.models.ngram_smoothing import discounts_of

SMOOTHINGS: tuple[Smoothing, ...] = ("kneser-ney", "witten-bell")


def counts_with(once: int, twice: int, thrice: int, four: int) -> np.ndarray:
    return np.repeat([1, 2, 3, 4, 9], [once, twice, thrice, four, 5])


def test_discounts_by_hand() -> None:
    # Y = 4 / (4 + 2 * 2) = 1/2; 1 - 2 Y 2/4; 2 - 3 Y 1/2; 3 - 4 Y 1/1
    found = discounts_of(counts_with(4, 2, 1, 1))
    np.testing.assert_allclose(found, [0, 0.5, 1.25, 1.0])


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 1, 2, 1),  # D2 comes out as -1.6
        (0, 3, 2, 1),
        (5, 0, 2, 1),
        (5, 3, 0, 1),
        (0, 0, 0, 0),
        (4, 2, 1, 2),  # D3 comes out as -1
    ],
)
def test_useless_discounts_fall_back(sizes: tuple[int, int, int, int]) -> None:
    found = discounts_of(counts_with(*sizes))
    np.testing.assert_array_equal(found, [0, 0.5, 1, 1.5])


def test_witten_bell_by_hand() -> None:
    model = NgramModel.fit(np.array([0, 1, 0, 1, 0, 2]), NgramConfig(3, 2, "witten-bell"))
    single = np.array([3 + 3 / 3, 2 + 3 / 3, 1 + 3 / 3]) / 9
    np.testing.assert_allclose(model.distributions([])[0], single)
    # after 0: 1 twice, 2 once; two different continuations
    after = (np.array([0, 2, 1]) + 2 * single) / 5
    np.testing.assert_allclose(model.distributions([np.array([0])])[0], after)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[int], int, int, Smoothing, int | None]:
    vocab_size = draw(st.integers(1, 5))
    ids = st.integers(0, vocab_size - 1)
    tokens = draw(st.lists(ids, min_size=1, max_size=60))
    other = draw(st.lists(ids, min_size=1, max_size=12))
    end_id = draw(st.sampled_from([None, 0]))
    return (
        tokens,
        other,
        vocab_size,
        draw(st.integers(1, 4)),
        draw(st.sampled_from(SMOOTHINGS)),
        end_id,
    )


@settings(max_examples=150, deadline=None)
@given(cases())
def test_equal_to_the_textbook(
    case: tuple[list[int], list[int], int, int, Smoothing, int | None],
) -> None:
    compare(*case)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("end_id", [None, 2])
def test_equal_to_the_textbook_on_more_text(smoothing: Smoothing, end_id: int | None) -> None:
    rng = np.random.default_rng(3)
    tokens = rng.choice(6, 400, p=[0.4, 0.25, 0.1, 0.1, 0.1, 0.05]).tolist()
    other = rng.integers(0, 6, 25).tolist()
    compare(tokens, other, 6, 4, smoothing, end_id)


def compare(
    tokens: list[int],
    other: list[int],
    vocab_size: int,
    order: int,
    smoothing: Smoothing,
    end_id: int | None,
) -> None:
    """Every probability of every token at every place of `other`, and of the text itself."""
    book = TextbookNgram(tokens, vocab_size, order, smoothing, end_id)
    config = NgramConfig(vocab_size, order, smoothing)
    model = NgramModel.fit(np.array(tokens), config, end_id)
    for stream in (other, tokens[:15]):
        array = np.array(stream)
        usable = usable_context(array, end_id)
        wanted = [
            [book.probability(w, stream[place - usable[place] : place]) for w in range(vocab_size)]
            for place in range(len(stream) + 1)
        ]
        found = model.find(array, usable[:-1], longest=order - 1)
        contexts = [
            np.where(usable >= length, np.concatenate([[-1], ids]), -1)
            for length, ids in enumerate(found, start=1)
        ] or [np.full(len(stream) + 1, -1)]
        rows = model.distributions(contexts)
        np.testing.assert_allclose(rows, wanted, rtol=1e-12)
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
        nats, best = model.score(array, best=True)
        own = np.array(wanted)[np.arange(len(stream)), stream]
        np.testing.assert_allclose(nats, -np.log(own), rtol=1e-10, atol=1e-12)
        top = rows[np.arange(len(stream)), best]
        np.testing.assert_allclose(top, rows[:-1].max(axis=1), rtol=1e-12)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_probabilities_sum_to_one_in_every_context(smoothing: Smoothing) -> None:
    tokens = np.random.default_rng(0).zipf(1.5, 20_000) % 50
    model = NgramModel.fit(tokens, NgramConfig(50, 5, smoothing), end_id=7)
    found = model.find(tokens, usable_context(tokens, 7)[:-1], longest=4)
    usable = usable_context(tokens, 7)[1:]
    contexts = [np.where(usable >= n, ids, -1) for n, ids in enumerate(found, start=1)]
    sums = model.distributions(contexts).sum(axis=1)
    np.testing.assert_allclose(sums, 1, rtol=1e-10)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("end_id", [None, 69_999])
def test_a_vocabulary_of_70_000_at_order_8_equals_the_textbook(
    smoothing: Smoothing, end_id: int | None
) -> None:
    """Ids at both ends of the vocabulary, in phrases that recur: packed into powers of 70,000 they
    would overflow 64 bits, and phrases that differ in their first tokens alone would become one."""
    rng = np.random.default_rng(8)
    words = np.array([0, 1, 255, 256, 65_535, 65_536, 69_998, 69_999])
    phrases = [rng.choice(words, rng.integers(6, 12)) for _ in range(12)]
    tokens = np.concatenate([phrases[i] for i in rng.integers(0, 12, 60)]).tolist()
    vocab_size, order = 70_000, 8
    book = TextbookNgram(tokens, vocab_size, order, smoothing, end_id)
    config = NgramConfig(vocab_size, order, smoothing)
    model = NgramModel.fit(np.array(tokens, dtype=np.uint32), config, end_id)
    stream = [*tokens[40:70], 12_345, *tokens[5:15], *rng.choice(words, 20).tolist()]
    usable = usable_context(np.array(stream), end_id)
    wanted = [
        book.probability(token, stream[place - usable[place] : place])
        for place, token in enumerate(stream)
    ]
    nats, _ = model.score(np.array(stream))
    np.testing.assert_allclose(np.exp(-nats), wanted, rtol=1e-10)
