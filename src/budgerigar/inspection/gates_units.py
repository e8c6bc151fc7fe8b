"""Which units follow something that one can read off the text: the place in the line, quotes, brackets.

Karpathy, Johnson & Fei-Fei 2015 ("Visualizing and Understanding Recurrent Networks") found such
units by eye. Here each is found by the correlation of its memory with the property over one text. The
best of many hundred units always correlates with something, so it is held against the best that the
same units reach with the property shifted round the text, which keeps the rhythm of both.

Shapes: T tokens, H units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from budgerigar.inspection.gates import LayerGates
from budgerigar.inspection.labels import Spelling

SHORTEST = 60  # tokens; in a shorter text the best of many units follows anything
_SHIFTS = 19
_OPENING, _CLOSING = "([{（【《", ")]}）】》"
_ENDS = ".!?。！？"


@dataclass(frozen=True)
class Follower:
    """The unit that follows a property best.

    correlation: of the unit's memory with the property over the text, -1 to 1. chance: the largest
    absolute one that any unit has with the property shifted.
    """

    follows: str
    unit: int
    correlation: float
    chance: float

    @property
    def is_more(self) -> bool:
        """Whether it is more than chance gives: more than in all of 19 shifted texts (p = 0.05)."""
        return abs(self.correlation) > self.chance


def followers(gates: LayerGates) -> list[Follower]:
    """The best unit of each property that the text has; an empty list for a text that is too short."""
    names, wanted, own = correlations(gates)
    if not names:
        return []
    units = _standard(gates.shown)  # (T,H)
    steps = np.linspace(0, len(units), _SHIFTS + 2)[1:-1].astype(int)
    found = []
    for number, name in enumerate(names):
        shifted = np.stack([np.roll(wanted[number], step) for step in steps], axis=1)
        chance = float(np.abs(units.T @ shifted / len(units)).max())
        best = int(np.abs(own[number]).argmax())
        found.append(Follower(name, best, float(own[number, best]), chance))
    return found


def correlations(gates: LayerGates) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Of P properties that the text has: names, their values (P,T) with mean 0 and deviation 1, and
    their correlations with the memory of each unit (P,H). None in a text that is too short."""
    n_tokens = len(gates.labels)
    found = {} if n_tokens < SHORTEST else properties(gates.spelling)
    wanted = {name: _standard(values[:, None])[:, 0] for name, values in found.items()}
    wanted = {name: values for name, values in wanted.items() if values.any()}
    values = np.stack(list(wanted.values())) if wanted else np.zeros((0, n_tokens))
    return list(wanted), values, values @ _standard(gates.shown) / n_tokens


def best_properties(gates: LayerGates) -> list[tuple[str, float] | None]:
    """The property that each unit follows best, and the correlation; None in a short text."""
    names, _, own = correlations(gates)
    if not names:
        return [None] * gates.n_units
    best = np.abs(own).argmax(0)
    return [(names[number], float(own[number, unit])) for unit, number in enumerate(best)]


def _standard(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and deviation 1; constants become 0."""
    centred = values - values.mean(0)
    spread = centred.std(0)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 1e-12)


def properties(spelling: Spelling) -> dict[str, np.ndarray]:
    """What can be read off the text, (T,) each, as it stands after each token's last character."""
    by_character = _of_characters(spelling.text)
    ends = [end for _, end in spelling.spans]
    return {name: np.array([values[end] for end in ends], dtype=np.float64)
            for name, values in by_character.items()}  # fmt: skip


def _of_characters(text: str) -> dict[str, list[float]]:
    """Each property before the text and after each of its characters: one value more than those."""
    line, word, sentence, quoted, depth = 0.0, 0.0, 0.0, False, 0
    rows = [(line, word, sentence, 0.0, 0.0, 0.0)]
    for before, character in pairwise(" " + text):
        line = 0.0 if character == "\n" else line + 1
        word = word + 1 if character.isalnum() else 0.0
        sentence = 0.0 if character in _ENDS else sentence + 1
        if character in "“「『" or (character == '"' and not quoted):
            quoted = True
        elif character in '”」』"' or (character == "\n" and before == "\n"):
            quoted = False  # a blank line ends a quotation that nobody closed
        depth += (character in _OPENING) - (character in _CLOSING and depth > 0)
        rows.append((line, word, sentence, float(quoted), float(depth), float(character.isupper())))
    names = (
        "characters since the line began", "letters since the word began",
        "characters since the sentence ended", "inside quotes", "inside brackets", "capital letter",
    )  # fmt: skip
    columns = [list(column) for column in zip(*rows, strict=True)]
    return dict(zip(names, columns, strict=True))
