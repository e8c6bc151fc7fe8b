"""Templates with grammatical marks, and the draft of a text that is written from them.

A template is a line of words. A word in braces is a slot, filled when the text is written; what
follows a slash are marks, from which the gold labels come:

    {Name}/S has/V a {pet}/T ; it/SI has/V green/A feathers/N .

    S  a subject                      V  a verb; its subject is the S before it
    A  an adjective of the next N     P  an adjective said of the S before it ("was young")
    N  a noun that A may stand before
    T  a mention of the pet           I  a pronoun that stands for the T before it
    F  a mention of another thing     G  a pronoun that stands for the F before it

Brackets need no marks: ( and ) and their full-width forms are matched, nested ones too.
A slot may be filled by several words with marks of their own; its own marks go to the last one.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

Part = tuple[str, bool, str]  # the word or the slot's name, whether it is a slot, its marks
Template = tuple[Part, ...]

KINDS = ("antecedent", "subject", "adjective", "bracket", "told")
OPENING, CLOSING = "(（", ")）"


@cache
def compile_template(line: str) -> Template:
    """Parse a line of words, slots and marks (see the head of this file)."""
    parts = []
    for token in line.split(" "):
        # A lone slash would be a word; marks are capitals after the last slash.
        word, slash, marks = token.rpartition("/")
        if not slash or not marks.isalpha():
            word, marks = token, ""
        is_slot = word.startswith("{")
        assert word.strip("{}"), f"no word in {token!r} of {line!r}"
        assert word.endswith("}") == is_slot, f"a brace is missing in {token!r} of {line!r}"
        parts.append((word[1:-1] if is_slot else word, is_slot, marks))
    return tuple(parts)


@dataclass(slots=True)
class Draft:
    """A text being written: its words, and the gold links between word numbers.

    A link is (kind, from, to): the pronoun, verb, adjective or closing bracket points at what it
    belongs to; a word that only this pet calls for ("told": what it does, eats, looks like) at the pet.
    """

    words: list[str] = field(default_factory=list)
    links: list[tuple[str, int, int]] = field(default_factory=list)
    pets: list[int] = field(default_factory=list)
    _subject: int = -1
    _thing: int = -1
    _adjectives: list[int] = field(default_factory=list)
    _brackets: list[int] = field(default_factory=list)

    def write(
        self,
        template: Template,
        fill: Mapping[str, str],
        slots: Mapping[str, Sequence[str]],
        rng: random.Random,
        own: Collection[str] = (),
    ) -> None:
        """Append one sentence. A slot takes its value from `fill`, else any one of `slots`.

        Two slots of one name get two values where `slots` has more than one. own: names of slots
        that each pet fills in its own way.
        """
        drawn: list[str] = []
        for word, is_slot, marks in template:
            if is_slot:
                value = fill.get(word)
                if value is None:
                    choices = slots[word]
                    at = int(rng.random() * len(choices))
                    value = choices[at]
                    if value in drawn:
                        value = choices[at - 1]
                    drawn.append(value)
                if word in own and self.pets:
                    self.links.append(("told", len(self.words), self.pets[-1]))
                if " " in value or "/" in value:
                    self.write(compile_template(value), fill, slots, rng)
                    if marks:
                        self._mark(len(self.words) - 1, marks)
                    continue
                word = value
            if self.words and self.words[-1] == "a" and word[0] in "aeiou":
                self.words[-1] = "an"
            self.words.append(word)
            if marks:
                self._mark(len(self.words) - 1, marks)
            elif word in OPENING:
                self._brackets.append(len(self.words) - 1)
            elif word in CLOSING:
                self.links.append(("bracket", len(self.words) - 1, self._brackets.pop()))

    def _mark(self, at: int, marks: str) -> None:
        for mark in marks:
            if mark == "S":
                self._subject = at
            elif mark == "V":
                self.links.append(("subject", at, self._subject))
            elif mark == "P":
                self.links.append(("adjective", at, self._subject))
            elif mark == "A":
                self._adjectives.append(at)
            elif mark == "N":
                self.links += [("adjective", adjective, at) for adjective in self._adjectives]
                self._adjectives.clear()
            elif mark == "T":
                self.pets.append(at)
            elif mark == "F":
                self._thing = at
            elif mark == "I":
                self.links.append(("antecedent", at, self.pets[-1]))
            elif mark == "G":
                assert self._thing >= 0, f"{self.words[at]!r} has nothing to stand for"
                self.links.append(("antecedent", at, self._thing))
            else:
                raise AssertionError(f"unknown mark {mark!r}")


def spans_of(words: Sequence[str], separator: str) -> list[tuple[int, int]]:
    """Where each word stands in `separator.join(words)`: (first character, one past the last)."""
    spans, at = [], 0
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + len(separator)
    return spans
