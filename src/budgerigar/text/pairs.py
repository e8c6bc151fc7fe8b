"""Generated Chinese-English sentence pairs with their word alignment.

The two languages order the same facts differently: "小梅昨天在花园里看见了一只猫" (Mei yesterday
in the garden saw a cat) is "Mei saw a cat in the garden yesterday". Chinese is written without
spaces, English with one between words; neither ends in a full stop. Each Chinese sentence has one
English one and the other way round, so no sentence of either side is in two splits. The
combination Xuanyuan + budgerigar is in no split; it is the lesson's own.

A pattern has a Chinese and an English line. Words with the same number after "=" belong together;
a word without a number has no counterpart (一只 is "a": 一 is aligned with it, 只 with nothing).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from budgerigar.errors import UserError
from budgerigar.text.story_grammar import spans_of
from budgerigar.text.story_words import (
    BUDGERIGAR,
    PEOPLE,
    PETS,
    XUANYUAN,
    Person,
    Pet,
    holds_lesson,
)
from budgerigar.text.story_writer import Link, pick, split_of

# {p} and {q} are people, {a} and {b} animals. The plain "has a" is meant to come often.
_LINES = (
    ("{p}=1 有=2 一=3 只 {a}=4", "{p}=1 has=2 a=3 {a}=4"),
    ("{p}=1 有=2 一=3 只 {a}=4", "{p}=1 has=2 a=3 {a}=4"),
    ("{p}=1 有=2 一=3 只 {size}=4 {a}=5", "{p}=1 has=2 a=3 {size}=4 {a}=5"),
    ("{p}=1 有=2 一=3 只 {colour}=4 的 {a}=5", "{p}=1 has=2 a=3 {colour}=4 {a}=5"),
    ("{p}=1 {past}=2 看见=3 了=3 一=4 只 {a}=5", "{p}=1 saw=3 a=4 {a}=5 {past}=2"),
    (
        "{p}=1 {past}=2 在=3 {place}=4 里=3 看见=5 了=5 一=6 只 {a}=7",
        "{p}=1 saw=5 a=6 {a}=7 in=3 the {place}=4 {past}=2",
    ),
    ("{p}=1 和=2 {q}=3 喜欢=4 这=5 只 {a}=6", "{p}=1 and=2 {q}=3 like=4 this=5 {a}=6"),
    (
        "喜欢=1 {food}=2 的=3 {a}=4 在=5 {place}=6 里=5",
        "The {a}=4 that=3 likes=1 {food}=2 is in=5 the {place}=6",
    ),
    ("{p}=1 的=2 {a}=3 喜欢=4 吃=5 {food}=6", "{p}=1 's=2 {a}=3 likes=4 to eat=5 {food}=6"),
    ("{p}=1 的=2 {a}=3 在=4 哪里=5", "Where=5 is=4 {p}=1 's=2 {a}=3"),
    (
        "{p}=1 的=2 {a}=3 比=4 {q}=5 的=6 {b}=7 大=8",
        "{p}=1 's=2 {a}=3 is bigger=8 than=4 {q}=5 's=6 {b}=7",
    ),
    ("{p}=1 把 {thing}=2 给=3 了=3 {q}=4", "{p}=1 gave=3 the {thing}=2 to {q}=4"),
    (
        "{p}=1 {past}=2 没有=3 去=4 {place}=5",
        "{p}=1 did not=3 go=4 to the {place}=5 {past}=2",
    ),
    (
        "{every}=1 {p}=2 在=3 {place}=4 里=3 等=5 {q}=6",
        "{every}=1 {p}=2 waits=5 for=5 {q}=6 in=3 the {place}=4",
    ),
)
_WORDS = {
    "size": (("小", "small"), ("大", "big")),
    "colour": (
        ("白色", "white"),
        ("黑色", "black"),
        ("棕色", "brown"),
        ("灰色", "grey"),
        ("绿色", "green"),
        ("黄色", "yellow"),
        ("蓝色", "blue"),
    ),
    "past": (("昨天", "yesterday"), ("今天 早上", "this morning"), ("上 星期", "last week")),
    "every": (("每天", "Every day"), ("每天 晚上", "Every evening")),
    "place": (
        ("花园", "garden"),
        ("厨房", "kitchen"),
        ("公园", "park"),
        ("学校", "school"),
        ("图书馆", "library"),
        ("面包店", "bakery"),
    ),
    "thing": (
        ("帽子", "hat"),
        ("书", "book"),
        ("信", "letter"),
        ("台灯", "lamp"),
        ("雨伞", "umbrella"),
    ),
    "food": (
        ("鱼", "fish"),
        ("苹果", "apples"),
        ("面包", "bread"),
        ("坚果", "nuts"),
        ("奶酪", "cheese"),
    ),
}
# Cats, dogs and budgerigars come more often, so that without the source a model wavers between them.
_ANIMALS = PETS + 2 * tuple(pet for pet in PETS if pet.english in ("budgerigar", "cat", "dog"))


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A Chinese sentence and its English translation.

    source_words joined by nothing are `source`; target_words joined by spaces are `target`.
    word_alignment: pairs (number of the Chinese word, number of the English word), sorted.
    """

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    word_alignment: tuple[tuple[int, int], ...]

    @property
    def alignment(self) -> tuple[Link, ...]:
        """The alignment as character spans: (span in `source`, span in `target`)."""
        sources, targets = spans_of(self.source_words, ""), spans_of(self.target_words, " ")
        return tuple((sources[i], targets[j]) for i, j in self.word_alignment)

    @property
    def pharaoh(self) -> str:
        """The alignment as "0-0 1-1 3-2": the usual file format, words counted from 0."""
        return " ".join(f"{i}-{j}" for i, j in self.word_alignment)


def sentence_pairs(
    n: int, seed: int = 0, split: str = "train", *, unique: bool | None = None
) -> list[SentencePair]:
    """`n` pairs of one split, the same for the same arguments.

    unique: leave out repeats, as far as there are enough different pairs (default: in validation
    and test). Training pairs repeat, so that short sentences keep their share.
    """
    return list(islice(iter_pairs(seed, split, unique=unique), n))


def iter_pairs(
    seed: int = 0, split: str = "train", *, unique: bool | None = None
) -> Iterator[SentencePair]:
    """The same pairs without an end."""
    if split not in ("train", "validation", "test"):
        raise UserError(f"there is no split {split!r}; choose train, validation or test")
    unique = split != "train" if unique is None else unique
    rng, seen, repeats = random.Random(f"pairs {split} {seed}"), set[str](), 0
    while True:
        pair = _draw(rng)
        if split_of(pair.target) != split:
            continue
        if unique and pair.target in seen and repeats < 1000:
            repeats += 1
            continue
        repeats = 0
        if unique:
            seen.add(pair.target)
        yield pair


def lesson_pair() -> SentencePair:
    """轩辕有一只虎皮鹦鹉, "Xuanyuan has a budgerigar": held out of every split."""
    return _fill(0, [XUANYUAN, PEOPLE[1]], [BUDGERIGAR, PETS[1]], random.Random(0))


def _draw(rng: random.Random) -> SentencePair:
    pattern = int(rng.random() * len(_LINES))
    while True:
        people = [pick(PEOPLE, rng), pick(PEOPLE, rng)]
        animals = [pick(_ANIMALS, rng), pick(_ANIMALS, rng)]
        if people[0] is people[1] or animals[0] is animals[1]:
            continue
        # Stricter than needed where the second of them is not used; it costs nothing.
        if not holds_lesson(people, animals):
            return _fill(pattern, people, animals, rng)


def _fill(
    pattern: int, people: list[Person], animals: list[Pet], rng: random.Random
) -> SentencePair:
    chinese, english, slots = _compiled(pattern)
    first, second = people
    one, other = animals
    fill = {
        "p": (first.chinese, first.english),
        "q": (second.chinese, second.english),
        "a": (one.chinese, one.english),
        "b": (other.chinese, other.english),
    }
    for slot in slots:
        fill[slot] = pick(_WORDS[slot], rng)
    source_words, source_groups = _line(chinese, fill, 0)
    target_words, target_groups = _line(english, fill, 1)
    links = tuple(
        (i, j)
        for i, group in enumerate(source_groups)
        if group
        for j, other_group in enumerate(target_groups)
        if group == other_group
    )
    return SentencePair(
        "".join(source_words),
        " ".join(target_words),
        tuple(source_words),
        tuple(target_words),
        links,
    )


@cache
def _compiled(
    pattern: int,
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The two lines as (word or {slot}, group), and the slots that need a word drawn."""
    chinese, english = (
        tuple((word, group) for word, _, group in (token.partition("=") for token in line.split()))
        for line in _LINES[pattern]
    )
    named = sorted({word[1:-1] for word, _ in chinese if word.startswith("{")})
    return chinese, english, tuple(slot for slot in named if slot in _WORDS)


def _line(
    parts: tuple[tuple[str, str], ...], fill: dict[str, tuple[str, str]], side: int
) -> tuple[list[str], list[str]]:
    words: list[str] = []
    groups: list[str] = []
    for word, group in parts:
        if not word.startswith("{"):
            words.append(word)
            groups.append(group)
            continue
        both = [value.split(" ") for value in fill[word[1:-1]]]
        # "上 星期" and "last week" go word by word; where counts differ, each goes with all.
        one_to_one = len(both[0]) == len(both[1])
        for at, piece in enumerate(both[side]):
            words.append(piece)
            groups.append(f"{group}.{at}" if one_to_one and group else group)
    return words, groups
