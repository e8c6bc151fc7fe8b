from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgerigar.text.documents import Piece, document_pieces
from budgerigar.text.holdout import hold_out, route, survey


def split(pieces: Iterable[Piece], with_documents: bool, fraction: float = 0.1):
    """(what is learnt from, what is held out), as lists of documents."""
    pieces = list(pieces)
    contents = survey(pieces, with_documents)
    holdout = hold_out(contents, fraction)
    if holdout is None:
        return None
    sides: tuple[list[str], list[str]] = ([""], [""])
    for is_held_out, piece in route(pieces, holdout, with_documents):
        sides[is_held_out][-1] += piece.text
        if piece.ends:
            sides[is_held_out].append("")
    assert not with_documents or all(side.pop() == "" for side in sides)
    return sides


@given(st.integers(0, 60), st.integers(1, 7), st.sampled_from([0.1, 0.5, 0.9]))
def test_a_stream_is_cut_by_characters(n: int, size: int, fraction: float) -> None:
    text = "".join(chr(0x4E00 + i) for i in range(n))
    blocks = [text[i : i + size] for i in range(0, n, size)]
    sides = split(document_pieces(blocks, "none"), False, fraction)
    if n < 4 or int(n * (1 - fraction)) < 2:
        return  # see below
    (train,), (held_out,) = sides
    assert train + held_out == text
    assert len(held_out) >= 2
    assert len(train) >= 2
    if n * fraction > 2:
        assert len(train) == int(n * (1 - fraction))


def test_the_last_documents_are_held_out() -> None:
    documents = [f"document {i:03d}" for i in range(100)]
    train, held_out = split(document_pieces(["\n\n".join(documents)], "blank-lines"), True)
    assert train == documents[:90]
    assert held_out == documents[90:]


def test_a_short_stream_has_nothing_to_spare() -> None:
    assert [split([Piece("x" * n, "", False)], False) for n in range(4)] == [None] * 4
    assert split([Piece("abcd", "", False)], False) == (["ab"], ["cd"])
    assert split([Piece("abcd", "", False)], False, 0.9) is None


@given(st.lists(st.text(st.sampled_from("ab"), min_size=1, max_size=5), min_size=1, max_size=30))
def test_no_document_is_on_both_sides(documents: list[str]) -> None:
    pieces = [Piece(document, "\n\n", True) for document in documents]
    sides = split(pieces, True)
    if sides is None:
        # Nothing to spare: one text, however often, of which no part can be cut off.
        assert len(set(documents)) == 1
        return
    train, held_out = sides
    assert train
    assert held_out
    assert all(train)
    assert all(held_out)
    assert len("".join(train + held_out)) == len("".join(documents))
    if len(train) + len(held_out) == len(documents):  # no document was cut
        assert not set(train) & set(held_out)


def test_copies_of_a_held_out_document_go_with_the_first() -> None:
    documents = [f"document {i:03d}" for i in range(50)]
    documents += documents[:5]  # copies at the end of the text
    train, held_out = split([Piece(d, "\n\n", True) for d in documents], True)
    assert set(train) >= set(documents[:5])
    assert not set(train) & set(held_out)
    assert held_out


@pytest.mark.parametrize("size", [1, 30, 1000])
def test_a_large_document_is_cut_in_two(size: int) -> None:
    large = "".join(chr(0x4E00 + i) for i in range(900))
    blocks = [large[i : i + size] for i in range(0, 900, size)]
    pieces = [Piece("x" * 100, "", True), *document_pieces(blocks, "files")]
    train, held_out = split(pieces, True)
    assert train == ["x" * 100, large[:800]]
    assert held_out == [large[800:]]


def test_survey_counts_everything() -> None:
    text = "诗\n\na\n"
    contents = survey(document_pieces([text], "blank-lines"), True)
    assert contents.n_characters == len(text)
    assert contents.n_bytes == len(text.encode())
    assert contents.lengths.tolist() == [1, 1]
