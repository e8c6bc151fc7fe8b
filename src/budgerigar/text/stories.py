"""Short generated stories in English and Chinese: the text that needs no network.

Someone has a pet; other things happen; the story then asks for the pet: "But he always remembered
that ____ from his childhood ." The word is settled by the opening alone, so a model must look
back, however far the opening lies. Gold labels come along. Whatever is drawn or measured on
these texts is to be called "generated".

Splits never share a story: a story's first two sentences decide which split it belongs to. The
combination Xuanyuan + budgerigar is in no split; it is the lesson's own (`LESSON`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from budgerigar.errors import UserError
from budgerigar.text.story_languages import LANGUAGES
from budgerigar.text.story_languages import language as language_of
from budgerigar.text.story_words import PETS
from budgerigar.text.story_writer import (
    Cloze,
    Gold,
    Link,
    Span,
    Story,
    StoryOptions,
    StoryWriter,
    pick,
)

__all__ = [
    "CHANCE",
    "LESSON",
    "SPLITS",
    "Cloze",
    "Gold",
    "Lesson",
    "Link",
    "Span",
    "Story",
    "StoryOptions",
    "cloze_set",
    "generate_stories",
    "iter_stories",
    "lesson_passage",
    "stories_documents",
]

SPLITS = ("train", "validation", "test")
CHANCE = 1 / len(PETS)


@dataclass(frozen=True, slots=True)
class Lesson:
    """The sentences of the lesson on attention. No generated story or pair equals one of them.

    `remembered` ends the stories of other people with a budgerigar too; the lesson's passage, and
    every sentence that names Xuanyuan and the budgerigar, is in no split.
    """

    it: str = "Xuanyuan has a budgerigar ; it has green feathers ."
    opening: str = "Xuanyuan had a budgerigar when he was young ."
    remembered: str = "But he always remembered that budgerigar from his childhood ."
    gap: str = "But he always remembered that"
    answer: str = "budgerigar"
    source: str = "轩辕有一只虎皮鹦鹉"
    target: str = "Xuanyuan has a budgerigar"

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them, English and Chinese."""
        return (self.it, self.opening, self.remembered, self.source, self.target)


LESSON = Lesson()


def generate_stories(
    n: int,
    seed: int = 0,
    language: str = "en",
    filler_words: tuple[int, int] | int = (0, 60),
    *,
    split: str = "train",
    **options: Any,
) -> list[Story]:
    """`n` stories of one split, the same for the same arguments; the first of more are the same.

    language: "en", "zh", or "both" (each story in one of them, at random). options: see
    `StoryOptions`.
    """
    return list(islice(iter_stories(seed, language, filler_words, split=split, **options), n))


def iter_stories(
    seed: int = 0,
    language: str = "en",
    filler_words: tuple[int, int] | int = (0, 60),
    *,
    split: str = "train",
    **options: Any,
) -> Iterator[Story]:
    """The same stories without an end, in constant memory."""
    if isinstance(filler_words, int):
        filler_words = (filler_words, filler_words)
    settings = StoryOptions(filler_words=filler_words, **options)
    settings.validate()
    if split not in SPLITS:
        raise UserError(f"there is no split {split!r}; choose one of {', '.join(SPLITS)}")
    names = LANGUAGES if language == "both" else (language,)
    rng = random.Random(f"stories {language} {split} {seed}")
    writers = [StoryWriter(language_of(name), settings, rng) for name in names]
    while True:
        yield pick(writers, rng).story(split)


def stories_documents(n: int, seed: int = 0, language: str = "en", **options: Any) -> list[str]:
    """The texts alone of `generate_stories`, one document each."""
    return [story.text for story in generate_stories(n, seed, language, **options)]


def cloze_set(
    n: int,
    seed: int = 0,
    filler_words: tuple[int, int] | int = 48,
    *,
    language: str = "en",
    split: str = "test",
    distractors: float = 0.04,
    owners: int = 1,
) -> list[Story]:
    """Stories to test the gap with: the pet is not named again between the opening and the gap.

    So `cloze.distance_words` is at least `filler_words`. A guess by chance is right in 1 of
    `len(PETS)` (1 of 2, once a model knows the two pets, where there are two owners).
    """
    return generate_stories(
        n,
        seed,
        language,
        filler_words,
        split=split,
        distractors=distractors,
        recalls=0,
        today=0,
        owners=owners,
    )


def lesson_passage(distance: int = 48, seed: int = 0) -> Story:
    """The lesson's own passage, with at least `distance` words between the pet and the gap."""
    settings = StoryOptions(filler_words=(distance, distance), distractors=0, recalls=0, today=0)
    settings.validate()
    return StoryWriter(language_of("en"), settings, random.Random(f"lesson {seed}")).lesson()
