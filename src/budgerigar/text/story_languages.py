"""The two languages of the stories: their sentences, compiled, and how their slots are filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from budgerigar.errors import UserError
from budgerigar.text import story_chinese, story_english
from budgerigar.text.story_grammar import Template, compile_template
from budgerigar.text.story_words import PETS, Person, Pet

LANGUAGES = ("en", "zh")
PET_SLOTS = frozenset(
    ("look", "a_look", "home", "food", "act_now", "act_past", "act", "part", "quality")
)
"""What each pet fills in its own way, in sentences about it."""


@dataclass(frozen=True, slots=True)
class Language:
    """Sentences by their place in a story ("MEMORY_OPENINGS" …), and values for the slots.

    `separator` stands between words: a space in English, nothing in Chinese.
    """

    name: str
    separator: str
    sentences: Mapping[str, tuple[Template, ...]]
    slots: Mapping[str, Sequence[str]]

    def pet_name(self, pet: Pet) -> str:
        """What the pet is called in this language: one word."""
        return pet.english if self.name == "en" else pet.chinese

    def person_fill(self, person: Person) -> dict[str, str]:
        """The slots {Name}, {he}, {his} … for one owner."""
        if self.name == "zh":
            return {"Name": person.chinese, "he": "她" if person.female else "他"}
        he, his, him = ("she", "her", "her") if person.female else ("he", "his", "him")
        return {
            "Name": person.english,
            "he": he,
            "He": he.title(),
            "his": his,
            "His": his.title(),
            "him": him,
            "was": "was",
        }

    def together_fill(self) -> dict[str, str]:
        """The same slots for two owners at once: they, their, them."""
        if self.name == "zh":
            return {"he": "他们"}
        return {
            "he": "they",
            "He": "They",
            "his": "their",
            "His": "Their",
            "him": "them",
            "was": "were",
        }


def _compiled(module: ModuleType) -> dict[str, tuple[Template, ...]]:
    return {
        name: tuple(compile_template(line) for line in lines)
        for name, lines in vars(module).items()
        if name.isupper() and name not in ("SLOTS", "PLURAL_FOODS")
    }


@cache
def language(name: str) -> Language:
    """The language "en" or "zh"."""
    if name not in LANGUAGES:
        raise UserError(
            f"there are no stories in the language {name!r}; choose one of "
            f"{', '.join(LANGUAGES)} (or both)"
        )
    module = story_english if name == "en" else story_chinese
    separator = " " if name == "en" else ""
    return Language(name, separator, _compiled(module), module.SLOTS)


@cache
def pet_slots(name: str, pet: Pet) -> dict[str, Sequence[str]]:
    """What may fill the slots of a sentence about this pet."""
    spoken = language(name)
    slots = dict(spoken.slots)
    others = [spoken.pet_name(other) for other in PETS if other is not pet]
    slots["other"] = others
    if name == "en":
        slots |= {
            "look": pet.looks,
            "home": pet.homes,
            "act_now": [now for now, _ in pet.acts],
            "act_past": [past for _, past in pet.acts],
        }
        slots["a_look"] = [f"with {look}" for look in pet.looks]
    else:
        slots |= {"home": pet.chinese_homes, "act": pet.chinese_acts}
    return slots


@cache
def pet_meals(name: str, pet: Pet) -> tuple[dict[str, str], ...]:
    """Fills for sentences about the pet and its food, in which words must agree."""
    if name == "en":
        return tuple(
            {
                "food": food,
                "food_pronoun": (
                    "they/SG were/V too old/P"
                    if food in story_english.PLURAL_FOODS
                    else "it/SG was/V too old/P"
                ),
            }
            for food in pet.foods
        )
    return tuple({"food": food} for food in pet.chinese_foods)
