"""The roles that a head may have: their names, and from which numbers on a head has one.

Thresholds are conventions, each with its source; a score stands beside what a uniform head, an
untrained copy and the best fixed distance get, so that everybody can set their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from budgerigar.inspection import induction
from budgerigar.inspection.role_scores import SINK_EPSILON
from budgerigar.said import said

PLACE_SHARE = 0.5
"""mean weight on the token before, after, or itself (Clark et al. 2019 call this positional)"""
PLACE_HITS = 0.9
"""or that share of the rows with their largest weight there (Voita et al. 2019, section 4.1)"""
LAST_SHARE = 0.6
"""mean weight on a special token (Clark et al. 2019)"""
DUPLICATE_SHARE = 0.4
INDUCTION_SHARE = induction.THRESHOLD
GOLD_MARGIN = 0.10
"""recall above that of the best fixed distance (Voita et al. 2019, section 4.2)"""
GOLD_SHARE = 0.4
"""and mean weight on the right words; our own, as for duplicate and induction"""
LEARNT_MARGIN = 0.10
"""above the best head of an untrained copy, for every role: what was there before is not learnt"""
FEWEST_ROWS = 20
"""eligible rows below which no head is said to have a role"""
BROAD = 0.78
"""normalised entropy (Clark et al. 2019 call 3.8 nats of at most 4.85 broad)"""
CONFIDENT = 0.8
"""mean of the largest weight (Voita et al. 2019, section 4.1)"""

Kind = Literal["place", "rest", "tokens", "gold"]


@dataclass(frozen=True)
class Role:
    """key: its name in code and JSON; name: in a table; what: the row, and what is right for it."""

    key: str
    name: str
    kind: Kind
    share: float
    what: str

    def fits(self, score: float, recall: float, offset: float, untrained: float | None) -> bool:
        """Whether a head with these numbers has the role; nan fits nothing."""
        enough = score >= self.share
        if self.kind == "rest":
            enough = score > self.share
        if self.kind == "place":
            enough = enough or recall >= PLACE_HITS
        if self.kind == "gold":
            enough = enough and recall >= offset + GOLD_MARGIN
        return enough and (untrained is None or not score < untrained + LEARNT_MARGIN)

    @property
    def rule(self) -> str:
        """From when on a head has it, in words."""
        if self.kind == "place":
            return said("score ≥ {share:g} or recall ≥ {hits:g}", share=self.share, hits=PLACE_HITS)
        if self.kind == "rest":
            return said("score > {share:g}", share=self.share)
        if self.kind == "gold":
            return said(
                "score ≥ {share:g} and recall ≥ fixed distance + {margin:g}",
                share=self.share,
                margin=GOLD_MARGIN,
            )
        return said("score ≥ {share:g}", share=self.share)


ROLES = {
    role.key: role
    for role in (
        Role("previous", "previous token", "place", PLACE_SHARE, "the token before the row's"),
        Role("next", "next token", "place", PLACE_SHARE, "the token after the row's"),
        Role("self", "itself", "place", PLACE_SHARE, "the row's own token"),
        Role("first", "first token", "rest", SINK_EPSILON, "the first token, where heads rest"),
        Role("last", "end token", "rest", LAST_SHARE, "<end>, where heads rest"),
        Role("duplicate", "duplicate token", "tokens", DUPLICATE_SHARE,
             "another place of the row's token"),
        Role("induction", "induction", "tokens", INDUCTION_SHARE,
             "what followed another place of the row's token"),
        Role("reference", "reference of “it”", "gold", GOLD_SHARE,
             "“it” (or “they”): a mention of what it stands for"),
        Role("reference_needed", "“it”, if needed", "gold", GOLD_SHARE,
             "“it” before a word that depends on the pet (“it sang”): a mention of the pet"),
        Role("reference_verb", "“it”, at its verb", "gold", GOLD_SHARE,
             "the verb of “it”: a mention of what “it” stands for"),
        Role("gap", "pet of the gap", "gold", GOLD_SHARE,
             "the word before the pet is asked for: a mention of it"),
        Role("subject", "subject of a verb", "gold", GOLD_SHARE, "a verb: its subject"),
        Role("adjective", "adjective and noun", "gold", GOLD_SHARE,
             "an adjective: its noun (a causal head: the later of them, the earlier)"),
        Role("bracket", "bracket, stories", "gold", GOLD_SHARE, "a closing bracket: its opening one"),
        Role("code_bracket", "bracket, Python", "gold", GOLD_SHARE,
             "a closing bracket: its opening one"),
        Role("alignment", "word alignment", "gold", GOLD_SHARE,
             "a word being predicted: its counterpart in the source"),
    )
}  # fmt: skip
"""In the order of the table."""

BY_SITE: dict[str, tuple[str, ...]] = {
    "decoder self": ("previous", "self", "first", "duplicate", "induction", "reference",
                     "reference_needed", "reference_verb", "gap", "subject", "adjective",
                     "bracket", "code_bracket"),
    "encoder self": ("previous", "next", "self", "first", "last", "duplicate", "induction",
                     "reference", "reference_verb", "subject", "adjective", "bracket", "code_bracket"),
    "decoder cross": ("last", "alignment"),
}  # fmt: skip
"""Which roles have a meaning for which kind of attention."""
