"""How a source is turned into a target: plain settings. Imports no torch (it is CLI help)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from budgerigar.errors import UserError
from budgerigar.layers.settings import type_problems

LengthPenalty = Literal["gnmt", "average", "none"]
SearchRules = Literal["budgerigar", "ctranslate2"]
THEIR_LIMIT = 256  # CTranslate2's own most tokens of a translation


@dataclass(frozen=True)
class TranslationOptions:
    """How translations are searched for. `validate()` names everything that is wrong.

    The number of tokens of a target counts its `<end>`, which is a token like any other: the empty
    translation has 1.
    """

    search: SearchRules = "budgerigar"
    """whose rules the search follows; ctranslate2: those of that library (a beam that stays full, and
    ends with its first beam_size results), for equal outputs"""
    beam_size: int = 4
    """hypotheses followed side by side; 1: greedy, the likeliest token at each step"""
    n_best: int = 1
    """translations per line, best first; at most beam_size (sampling: as many samples)"""
    length_penalty: LengthPenalty = "average"
    """a log-probability is divided by n^alpha (average), ((5 + n) / 6)^alpha (gnmt; Wu et al. 2016) or
    1 (none), for n tokens; small models write too little with gnmt's 0.6"""
    alpha: float | None = None
    """exponent of the length penalty, 0 or more; None: 1 for average, 0.6 for gnmt"""
    coverage_penalty: float = 0.0
    """beta of Wu et al. 2016: log(min(attention received, 1)), summed over the source's tokens, times
    this is added to the score; 0: none"""
    min_length: int | None = None
    """fewest tokens before <end>; None: 0, or 1 with search ctranslate2"""
    max_length: int | None = None
    """most tokens of a translation, <end> included; None: those of its source plus max_extra, or 256
    with search ctranslate2"""
    max_extra: int = 50
    """without max_length: most tokens beyond those of the line's own source (or as many as min_length
    asks for)"""
    no_repeat_ngram: int = 0
    """no sequence of so many tokens occurs twice in a translation; 0: they may"""
    temperature: float | None = None
    """None: search for the best; a number: draw at random from probabilities sharpened by it"""
    top_k: int | None = None
    """sampling: keep the k likeliest tokens"""
    top_p: float | None = None
    """sampling: keep the fewest likeliest tokens whose probabilities reach this"""
    seed: int = 0
    """sampling: seed of the draws; a line's draws do not depend on the lines beside it"""
    batch_size: int = 64
    """lines translated side by side; changes the speed alone"""
    no_source: bool = False
    """blank what comes from the source, to see what the target alone would say"""

    @property
    def exponent(self) -> float:
        """The alpha that holds."""
        if self.alpha is not None:
            return self.alpha
        return 1.0 if self.length_penalty == "average" else 0.6

    @property
    def like_ctranslate2(self) -> bool:
        """Whether the search follows CTranslate2's rules."""
        return self.search == "ctranslate2"

    @property
    def least(self) -> int:
        """The min_length that holds."""
        return int(self.like_ctranslate2) if self.min_length is None else self.min_length

    @property
    def sampling(self) -> bool:
        """Whether tokens are drawn at random."""
        return self.temperature is not None

    @property
    def width(self) -> int:
        """Hypotheses per source: the beam, or the samples."""
        return self.n_best if self.sampling else self.beam_size

    def validate(self) -> TranslationOptions:
        """Return self, or raise one `UserError` that lists every problem."""
        wrong = type_problems(self)
        mistyped = {problem.split()[0] for problem in wrong}
        for name, (holds, rule) in _RULES.items():
            value = getattr(self, name)
            if name not in mistyped and value is not None and not holds(value):
                wrong.append(f"{name} = {value!r} {rule}")
        if not wrong:
            wrong = self._contradictions()
        if wrong:
            lines = "\n".join(f"  - {problem}" for problem in wrong)
            raise UserError(f"these translation options cannot be used:\n{lines}")
        return self

    def _contradictions(self) -> list[str]:
        found = []
        if not self.sampling:
            if self.n_best > self.beam_size:
                found.append(
                    f"n_best = {self.n_best} needs as large a beam: beam_size is {self.beam_size}, "
                    f"make it {self.n_best} or more"
                )
            found += [
                f"{name} is for sampling: give a temperature too, such as 1"
                for name in ("top_k", "top_p")
                if getattr(self, name) is not None
            ]
        if self.like_ctranslate2:
            found += self._not_imitated()
        if self.max_length is not None and (self.min_length or 0) >= self.max_length:
            found.append(
                f"min_length = {self.min_length} leaves no room for <end> within max_length = "
                f"{self.max_length}"
            )
        return found

    def _not_imitated(self) -> list[str]:
        """What of CTranslate2 has no counterpart here, and what of ours it has not."""
        found = []
        if self.sampling:
            found.append("search = ctranslate2 is for searching: leave temperature out")
        if self.length_penalty == "gnmt":
            found.append(
                "search = ctranslate2 knows the length penalties average and none, not gnmt"
            )
        if self.coverage_penalty:
            found.append(
                "search = ctranslate2 has no coverage_penalty: that library takes it from other heads"
            )
        return found


def _at_least(least: int) -> tuple[Callable[[Any], bool], str]:
    return (lambda n: n >= least), f"must be {least} or more"


def _not_negative(value: float) -> bool:
    return value >= 0 and math.isfinite(value)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "beam_size": _at_least(1),
    "n_best": _at_least(1),
    "alpha": (_not_negative, "must be a number that is 0 or more"),
    "coverage_penalty": (_not_negative, "must be a number that is 0 or more"),
    "min_length": _at_least(0),
    "max_length": _at_least(1),
    "max_extra": _at_least(0),
    "no_repeat_ngram": _at_least(0),
    "temperature": (
        lambda t: t > 0 and math.isfinite(t),
        "must be above 0 (leave it out to search, with beam_size 1 for greedy)",
    ),
    "top_k": _at_least(1),
    "top_p": (lambda p: 0 < p <= 1, "must be above 0 and at most 1"),
    "seed": _at_least(0),
    "batch_size": _at_least(1),
}
