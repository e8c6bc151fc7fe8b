"""The generated sentence pairs: one to one, disjoint splits, alignments that are right."""

from __future__ import annotations

import pytest

from budgerigar.errors import UserError
from budgerigar.text.pairs import lesson_pair, sentence_pairs
from budgerigar.text.stories import LESSON, generate_stories

# A small dictionary written by hand, to hold the alignment against.
MEANS = {
    "有": "has",
    "一": "a",
    "猫": "cat",
    "狗": "dog",
    "小梅": "Mei",
    "看见": "saw",
    "喜欢": "likes like",
    "花园": "garden",
    "昨天": "yesterday",
    "没有": "did not",
    "等": "waits for",
    "比": "than",
    "大": "bigger big",
    "给": "gave",
    "哪里": "Where",
    "星期": "week",
}


def test_no_sentence_is_in_two_splits_and_each_has_one_translation() -> None:
    pairs = {split: sentence_pairs(600, 0, split) for split in ("train", "validation", "test")}
    for side in ("source", "target"):
        sets = [{getattr(pair, side) for pair in part} for part in pairs.values()]
        assert sum(map(len, sets)) == len(sets[0] | sets[1] | sets[2])
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    for pair in [pair for part in pairs.values() for pair in part]:
        assert forth.setdefault(pair.source, pair.target) == pair.target
        assert back.setdefault(pair.target, pair.source) == pair.source


def test_validation_and_test_have_no_repeats() -> None:
    pairs = sentence_pairs(800, 1, "test")
    assert len({pair.target for pair in pairs}) == 800
    assert sentence_pairs(3, 1, "test") == pairs[:3]


def test_the_lesson_is_held_out_and_made_of_known_words() -> None:
    train = sentence_pairs(4000, 0)
    words = {word for pair in train for word in pair.source_words + pair.target_words}
    lesson = lesson_pair()
    assert (lesson.source, lesson.target) == (LESSON.source, LESSON.target)
    assert set(lesson.source_words + lesson.target_words) <= words
    for split in ("train", "validation", "test"):
        for pair in sentence_pairs(500, 2, split):
            assert not {"Xuanyuan", "budgerigar"} <= set(pair.target_words)
            assert not ("轩辕" in pair.source and "虎皮鹦鹉" in pair.source)
    told = {word for story in generate_stories(2000) for word in story.words}
    assert set(LESSON.target.split()) <= told


def test_alignments_are_spans_and_translations() -> None:
    checked = 0
    for pair in sentence_pairs(600, 3):
        assert "".join(pair.source_words) == pair.source
        assert " ".join(pair.target_words) == pair.target
        assert " " not in pair.source
        for (i, j), ((a, b), (c, d)) in zip(pair.word_alignment, pair.alignment, strict=True):
            assert pair.source[a:b] == pair.source_words[i]
            assert pair.target[c:d] == pair.target_words[j]
            if pair.source_words[i] in MEANS:
                checked += 1
                assert pair.target_words[j] in MEANS[pair.source_words[i]].split()
        aligned = {i for i, _ in pair.word_alignment}
        unaligned = {w for i, w in enumerate(pair.source_words) if i not in aligned}
        assert unaligned <= {"只", "的", "把"}
    assert checked > 500


def test_word_order_differs() -> None:
    crossing = sum(
        any(i < k and j > m for i, j in pair.word_alignment for k, m in pair.word_alignment)
        for pair in sentence_pairs(400, 4)
    )
    assert crossing > 150
    assert lesson_pair().pharaoh == "0-0 1-1 2-2 4-3"


def test_unknown_split() -> None:
    with pytest.raises(UserError, match="dev"):
        sentence_pairs(1, 0, "dev")
