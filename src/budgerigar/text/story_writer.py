"""How one story is written: the opening, what came between, the gap; and what is known of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

from budgerigar.errors import UserError
from budgerigar.text.story_grammar import Draft, Template, spans_of
from budgerigar.text.story_languages import PET_SLOTS, Language, pet_meals, pet_slots
from budgerigar.text.story_words import (
    BUDGERIGAR,
    PEOPLE,
    PETS,
    XUANYUAN,
    Person,
    Pet,
    holds_lesson,
)

Span = tuple[int, int]  # characters of the text: the first, one past the last
Link = tuple[Span, Span]  # from the word that refers, to the word that it belongs to
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Cloze:
    """The gap: what stands before it, what belongs in it.

    distance_words counts from the latest mention of the pet to the gap: 1 would be the very next
    word. span is where the answer stands in the story's text.
    """

    prefix: str
    answer: str
    distance_words: int
    span: Span


@dataclass(frozen=True, slots=True)
class Gold:
    """What a reader knows about the text, as character spans.

    antecedents: from "it" to what it stands for. subjects: from a verb to its subject.
    adjectives: from an adjective to its noun. brackets: from ")" to its "(".
    told: from a word that depends on which pet it is ("sang", "seeds", "feathers") to the pet.
    mentions: each place where the pet is named.
    """

    antecedents: tuple[Link, ...]
    subjects: tuple[Link, ...]
    adjectives: tuple[Link, ...]
    brackets: tuple[Link, ...]
    told: tuple[Link, ...]
    mentions: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """One story. `words` joined by a space (English) or nothing (Chinese) are `text`."""

    text: str
    language: str
    owner: str
    pet: str
    words: tuple[str, ...]
    cloze: Cloze
    word_links: tuple[tuple[str, int, int], ...]
    word_mentions: tuple[int, ...]

    @property
    def gold(self) -> Gold:
        """The gold labels (worked out when asked for)."""
        spans = spans_of(self.words, " " if self.language == "en" else "")

        def links(kind: str) -> tuple[Link, ...]:
            return tuple((spans[a], spans[b]) for name, a, b in self.word_links if name == kind)

        return Gold(
            links("antecedent"),
            links("subject"),
            links("adjective"),
            links("bracket"),
            links("told"),
            tuple(spans[at] for at in self.word_mentions),
        )


@dataclass(frozen=True, slots=True)
class StoryOptions:
    """How stories are made.

    filler_words: how many words lie between the opening and the gap, (least, most); each story
        draws its own number and goes over it by less than one sentence.
    distractors: the share of filler sentences that name some other animal, so that copying the
        latest animal fails. recalls: the share that name the pet again.
    today: the share of stories told in the present ("Mei has a rabbit ; it has long ears .").
    owners: 1, or 2: two people with a pet each, and the gap names whose pet it asks for.
    """

    filler_words: tuple[int, int] = (0, 60)
    distractors: float = 0.04
    recalls: float = 0.12
    today: float = 0.25
    owners: int = 1

    def validate(self) -> None:
        """Raise a UserError naming every option that is out of range."""
        problems = []
        low, high = self.filler_words
        if not 0 <= low <= high:
            problems.append(f"filler_words must be 0 <= least <= most, not {self.filler_words}")
        for name in ("distractors", "recalls", "today"):
            if not 0 <= getattr(self, name) <= 1:
                problems.append(f"{name} must lie between 0 and 1, not {getattr(self, name)}")
        if self.distractors + self.recalls > 1:
            problems.append("distractors and recalls together must not exceed 1")
        if self.owners not in (1, 2):
            problems.append(f"owners must be 1 or 2, not {self.owners}")
        if problems:
            raise UserError("the stories cannot be made so: " + "; ".join(problems))


def split_of(opening: str) -> str:
    """Which split a text with this opening belongs to: 80 % train, 10 % each of the others."""
    bucket = crc32(opening.encode()) % 20
    return "train" if bucket < 16 else "validation" if bucket < 18 else "test"


def pick(items: Sequence[Item], rng: random.Random) -> Item:
    """Any one of `items`. (Quicker than `rng.choice`, and the same in every Python.)"""
    return items[int(rng.random() * len(items))]


@dataclass(slots=True)
class Owner:
    """Somebody and their pet, with what fills the slots of sentences about them."""

    person: Person
    pet: Pet
    fill: dict[str, str]
    slots: dict[str, Sequence[str]]


class StoryWriter:
    """Writes stories in one language. All chance comes from `rng`."""

    def __init__(self, spoken: Language, options: StoryOptions, rng: random.Random) -> None:
        self.spoken, self.options, self.rng = spoken, options, rng
        self._deck: list[Template] = []
        self._draft = Draft()

    def story(self, split: str) -> Story:
        """A story of that split. Only the opening is drawn again until it fits the split."""
        today = self.rng.random() < self.options.today and self.options.owners == 1
        genre = "TODAY" if today else "MEMORY"
        while True:
            self._draft = Draft()
            owner = self._owner([])
            self._open(owner, genre)
            if split_of(" ".join(self._draft.words)) == split:
                break
        owners = [owner]
        self._pet_sentences(owner, genre)
        if self.options.owners == 2:
            owners.append(self._owner(owners))
            self._open(owners[1], genre)
            self._pet_sentences(owners[1], genre)
        asked = pick(owners, self.rng)
        self._filler(owners, asked, genre)
        return self._close(owners, asked, genre)

    def lesson(self) -> Story:
        """The lesson's passage: Xuanyuan and the budgerigar, which no split holds."""
        owner = self._known(XUANYUAN, BUDGERIGAR)
        owner.slots["look"] = BUDGERIGAR.looks[:1]
        self._draft, sentences = Draft(), self.spoken.sentences
        self._write(sentences["MEMORY_OPENINGS"][0], owner)
        self._write(sentences["MEMORY_LOOKS"][0], owner)
        self._filler([owner], owner, "MEMORY")
        return self._close([owner], owner, "MEMORY", ending=False)

    def _owner(self, before: list[Owner]) -> Owner:
        while True:
            person, pet = pick(PEOPLE, self.rng), pick(PETS, self.rng)
            people = [person, *(other.person for other in before)]
            pets = [pet, *(other.pet for other in before)]
            alone = len(set(people)) == len(people) and len(set(pets)) == len(pets)
            if alone and not holds_lesson(people, pets):
                return self._known(person, pet)

    def _known(self, person: Person, pet: Pet) -> Owner:
        """Fix what must not change within a story: what the pet looks like."""
        fill = self.spoken.person_fill(person) | {"pet": self.spoken.pet_name(pet)}
        slots = dict(pet_slots(self.spoken.name, pet))
        if self.spoken.name == "en":
            # The first two looks are colours of the same thing, so a story keeps to one of them.
            looks = (pick(pet.looks[:2], self.rng), pet.looks[2])
            slots["look"], slots["a_look"] = looks, [f"with {look}" for look in looks]
        else:
            part, quality = pick(pet.chinese_looks[:2], self.rng)
            fill |= {"part": part, "quality": quality}
        return Owner(person, pet, fill, slots)

    def _open(self, owner: Owner, genre: str) -> None:
        for place in ("OPENINGS", "LOOKS"):
            self._about_pet(pick(self.spoken.sentences[f"{genre}_{place}"], self.rng), owner)

    def _pet_sentences(self, owner: Owner, genre: str) -> None:
        sentences = self.spoken.sentences[f"{genre}_PETS"]
        for at in self._some(len(sentences), int(self.rng.random() * 3)):
            self._about_pet(sentences[at], owner)

    def _some(self, n: int, k: int) -> list[int]:
        """`k` different numbers below `n`, for a small `k`."""
        chosen: list[int] = []
        while len(chosen) < k:
            number = int(self.rng.random() * n)
            if number not in chosen:
                chosen.append(number)
        return chosen

    def _about_pet(self, template: Template, owner: Owner) -> None:
        meal = pick(pet_meals(self.spoken.name, owner.pet), self.rng)
        self._draft.write(template, owner.fill | meal, owner.slots, self.rng, PET_SLOTS)

    def _write(self, template: Template, owner: Owner) -> None:
        self._draft.write(template, owner.fill, owner.slots, self.rng)

    def _filler(self, owners: list[Owner], asked: Owner, genre: str) -> None:
        """Sentences until their words reach the number drawn for this story."""
        low, high = self.options.filler_words
        words = self._draft.words
        enough = len(words) + low + int(self.rng.random() * (high - low + 1))
        sentences, who = self.spoken.sentences, asked
        if len(owners) == 2:
            who = Owner(asked.person, asked.pet, asked.fill | self.spoken.together_fill(), {})
        who.slots = asked.slots | {"other": self._animals_not_of(owners)}
        recalls = sentences["RECALLS" if genre == "MEMORY" else "TODAY_PETS"]
        self._deck = []
        while len(words) < enough:
            chance = self.rng.random() - self.options.recalls
            if chance < 0:
                self._about_pet(pick(recalls, self.rng), who)
            elif chance < self.options.distractors and genre == "MEMORY":
                self._write(pick(sentences["OTHERS"], self.rng), who)
            else:
                self._write(self._next_filler(sentences[f"{genre}_FILLER"]), who)

    def _animals_not_of(self, owners: list[Owner]) -> list[str]:
        """Animals that may be named in passing: no pet of this story, nor the lesson's pair."""
        taken = [owner.pet for owner in owners]
        if any(owner.person is XUANYUAN for owner in owners):
            taken.append(BUDGERIGAR)
        return [self.spoken.pet_name(pet) for pet in PETS if pet not in taken]

    def _next_filler(self, sentences: Sequence[Template]) -> Template:
        """Each sentence once before any comes again."""
        if not self._deck:
            self._deck = list(sentences)
            for last in range(len(self._deck) - 1, 0, -1):
                other = int(self.rng.random() * (last + 1))
                self._deck[last], self._deck[other] = self._deck[other], self._deck[last]
        return self._deck.pop()

    def _close(
        self, owners: list[Owner], asked: Owner, genre: str, ending: bool | None = None
    ) -> Story:
        draft, sentences, answer = self._draft, self.spoken.sentences, asked.fill["pet"]
        latest = max(at for at in draft.pets if draft.words[at] == answer)
        gaps = "TODAY_GAPS" if genre == "TODAY" else "GAPS" if len(owners) == 1 else "OWNER_GAPS"
        self._about_pet(pick(sentences[gaps], self.rng), asked)
        gap = draft.pets[-1]
        if ending is None:
            ending = self.rng.random() < 0.5
        if ending and genre == "MEMORY":
            self._about_pet(pick(sentences["MEMORY_ENDINGS"], self.rng), asked)
        separator = self.spoken.separator
        text = separator.join(draft.words)
        span = spans_of(draft.words[: gap + 1], separator)[gap]
        prefix = text[: span[0]].rstrip()
        return Story(
            text,
            self.spoken.name,
            asked.fill["Name"],
            answer,
            tuple(draft.words),
            Cloze(prefix, answer, gap - latest, span),
            tuple(draft.links),
            tuple(at for at in draft.pets if draft.words[at] == answer),
        )
