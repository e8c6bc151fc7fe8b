"""Tokens as words, and words among tokens."""

from __future__ import annotations

import pytest
from toy import CHINESE, STORY, Pieces, single_bytes, words

from budgerigar.errors import UserError
from budgerigar.inspection.labels import pad, shorten, spell, visible, width


def spelt(tokenizer: Pieces, text: str):
    return spell(tokenizer, tokenizer.encode(text))


def test_word_tokens_are_labelled_without_their_blank() -> None:
    spelling = spelt(words(), STORY)
    assert list(spelling.labels) == STORY.split()
    assert spelling.text == STORY


def test_bytes_are_joined_to_the_character_they_share() -> None:
    spelling = spelt(single_bytes(), "a 轩\né")
    assert list(spelling.labels) == ["a", "␣", "轩 1/3", "轩 2/3", "轩 3/3", "↵", "é 1/2", "é 2/2"]
    assert spelling.text == "a 轩\né"


def test_token_that_cuts_characters_in_the_middle() -> None:
    data = "鹦鹉".encode()
    spelling = spell(Pieces([data[:4], data[4:]]), [1, 2])
    assert list(spelling.labels) == ["鹦鹉 1/2", "鹉 2/2"]
    assert spelling.find("鹉") == [0, 1]


def test_bytes_that_are_no_utf8_are_shown_as_numbers() -> None:
    spelling = spell(Pieces([b"\xff", b"a", b"\xe8\xbd"]), [1, 2, 3])
    assert spelling.labels[0] == "0xFF"
    assert spelling.labels[1] == "a"
    assert len(spelling) == 3


def test_special_tokens_keep_their_name_and_spell_nothing() -> None:
    tokenizer = words()
    spelling = spell(tokenizer, [0, *tokenizer.encode(STORY)])
    assert spelling.labels[0] == "<end>"
    assert spelling.text == STORY
    assert spelling.find("<end>") == [0]


def test_a_whole_word_is_found_not_its_letters_inside_others() -> None:
    tokenizer = Pieces([b"it", b" sit", b"s", b" ", b"with", b".", b" it"])
    spelling = spelt(tokenizer, "it sit with it.")
    assert spelling.places("it") == [[0], [4]]


def test_a_word_of_several_tokens_is_found_whole() -> None:
    tokenizer = Pieces([b"a", b" bud", b"ger", b"igar", b" flew"])
    spelling = spelt(tokenizer, "a budgerigar flew")
    assert spelling.find("budgerigar") == [1, 2, 3]


def test_chinese_any_substring() -> None:
    spelling = spelt(single_bytes(), CHINESE)
    assert len(spelling.find("虎皮鹦鹉")) == 12
    characters = spelt(Pieces([c.encode() for c in sorted(set(CHINESE))]), CHINESE)
    assert characters.find("虎皮鹦鹉") == [5, 6, 7, 8]
    assert characters.find("鹦鹉") == [7, 8]


def test_a_word_that_occurs_twice_needs_to_say_which() -> None:
    spelling = spelt(words(), STORY)
    several = r"occurs 2 times(.|\n)*budgerigar#1: position 3(.|\n)*budgerigar#2: position 19"
    with pytest.raises(UserError, match=several):
        spelling.find("budgerigar")
    assert spelling.find("budgerigar", 2) == [19]
    assert spelling.find("budgerigar", -1) == [19]
    assert spelling.find("budgerigar#1") == [3]
    with pytest.raises(UserError, match="no budgerigar#3: 'budgerigar' occurs 2 times"):
        spelling.find("budgerigar", 3)
    with pytest.raises(UserError, match="occurs once"):
        spelling.find("remembered#2")


def test_absent_words_say_where_they_nearly_are() -> None:
    spelling = spelt(words(), STORY)
    with pytest.raises(UserError, match="occurs as 'It'"):
        spelling.find("it")
    with pytest.raises(UserError, match="inside another word, at position 3"):
        spelling.find("budger")
    with pytest.raises(UserError, match="no word 'zebra'"):
        spelling.find("zebra")


def test_positions_are_words_too() -> None:
    spelling = spelt(words(), STORY)
    assert spelling.find(4) == [4]
    assert spelling.find(-1) == [len(spelling) - 1]
    with pytest.raises(UserError, match="no position 99"):
        spelling.find(99)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" ", "␣"),
        ("\n", "↵"),
        ("\t", "⇥"),
        ("\x00", "U+0000"),
        ("\u2028", "U+2028"),
        ("a b", "a␣b"),
    ],
)
def test_blanks_are_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_long_labels_lose_their_middle() -> None:
    assert shorten("budgerigar", 7) == "bud…gar"
    assert shorten("budgerigar", 10) == "budgerigar"
    assert shorten("虎皮鹦鹉很漂亮", 8) == "虎…亮" or width(shorten("虎皮鹦鹉很漂亮", 8)) <= 8
    for columns in range(1, 15):
        assert width(shorten("虎皮鹦鹉budgerigar", columns)) <= columns
        assert width(pad("虎皮鹦鹉budgerigar", columns)) == columns
