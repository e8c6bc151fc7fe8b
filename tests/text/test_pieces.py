from __future__ import annotations

from tokenizers.pre_tokenizers import ByteLevel

from budgerigar.text.pieces import BYTE_TO_CHARACTER, readable_pieces, to_byte_level, visible


def test_byte_alphabet_is_that_of_byte_level_tokenizers() -> None:
    assert set(BYTE_TO_CHARACTER.values()) == set(ByteLevel.alphabet())
    text = "a é诗\n\0😀~\x7f\xad"
    (piece, _), *rest = ByteLevel(False, use_regex=False).pre_tokenize_str(text)
    assert to_byte_level(text) == piece
    assert not rest


def test_visible() -> None:
    assert visible("a b\n\t\0") == "a␣b↵⇥␀"
    assert visible("\u200d\u2028") == "‹U+200D›‹U+2028›"


def test_shared_characters_are_named_in_each_piece() -> None:
    a, b, c = "诗".encode()[:1], "诗".encode()[1:2], "诗".encode()[2:]
    assert readable_pieces([b"x " + a, b, c + b"y"]) == ["x␣诗(1/3)", "诗(2/3)", "诗(3/3)y"]


def test_bytes_that_are_no_text_and_special_tokens() -> None:
    assert readable_pieces(["<end>", b"\xff", b"a", "<end>", b"\xe8", "<end>"]) == [
        "<end>", "‹FF›", "a", "<end>", "‹E8›", "<end>",
    ]  # fmt: skip
    assert readable_pieces([]) == []
