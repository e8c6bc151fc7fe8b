from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgerigar.errors import UserError
from budgerigar.text import documents
from budgerigar.text.documents import document_pieces, split_documents


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n\nb", ["a", "b"]),
        ("\n\n a\nb\n \n\t\n\u3000\nc\n", [" a\nb", "c"]),
        ("a", ["a"]),
        ("a\n\n\n", ["a"]),
        ("a\n  ", ["a"]),
        ("", []),
        ("\n \n\n", []),
        ("a\u2028\u2028b\x85\x85c", ["a\u2028\u2028b\x85\x85c"]),  # lines end at LF only
    ],
)
def test_blank_lines(text: str, expected: list[str]) -> None:
    assert list(split_documents(text, "blank-lines")) == expected


@given(st.text(alphabet="a\n\n \u3000"), st.integers(1, 4), st.sampled_from([2, 1 << 22]))
def test_blank_lines_in_any_blocks(text: str, size: int, longest: int) -> None:
    blocks = [text[i : i + size] for i in range(0, len(text), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_LONGEST_BUFFER", longest)
        pieces = list(document_pieces(blocks, "blank-lines"))
        in_blocks = list(split_documents(blocks, "blank-lines"))
    # Nothing is lost, and blank lines alone are in the gaps.
    assert "".join(piece.text + piece.gap for piece in pieces) == text
    assert not "".join(piece.gap for piece in pieces).strip("\n \u3000")
    if longest > len(text):
        assert in_blocks == list(split_documents(text, "blank-lines"))
        assert all("\n\n" not in document for document in in_blocks)


def test_files_and_none() -> None:
    assert list(split_documents(["a\n\n", "b"], "files")) == ["a\n\nb"]
    assert [piece.ends for piece in document_pieces(["a", "b"], "files")] == [False, True]
    assert list(split_documents([], "files")) == []
    assert list(split_documents("a\n\nb", "none")) == ["a\n\nb"]
    assert not any(piece.ends for piece in document_pieces(["a", "b"], "none"))


def test_json_lines() -> None:
    records = ['{"text": "a\\r\\nb", "n": 1}', '"plain"', "", '{"text": ""}', '{"text": "诗"}']
    text = "\n".join(records)
    for size in (1, 3, 100):
        blocks = [text[i : i + size] for i in range(0, len(text), size)]
        assert list(split_documents(blocks, "json-lines")) == ["a\nb", "plain", "诗"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2.*not a JSON object"),
        ('{"body": "x"}', 'line 2.*no "text".*body'),
        ('{"text": 3}', "line 2.*not a JSON object"),
        ("[1]", "line 2.*not a JSON object"),
        ('{"text": "\\ud800"}', "line 2.*surrogate"),
    ],
)
def test_wrong_json_lines_are_named(line: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(split_documents(json.dumps({"text": "ok"}) + "\n" + line, "json-lines"))


def test_unknown_way() -> None:
    with pytest.raises(UserError, match="no such way"):
        list(split_documents("a", "paragraphs"))
