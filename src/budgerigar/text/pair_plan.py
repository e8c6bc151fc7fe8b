"""What a corpus of pairs is made of: which files, held out how, and what was met on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.pair_files import (
    PairCounts,
    PairFiles,
    holds_records,
    iter_file_pairs,
)
from budgerigar.text.pair_holdout import PairHoldout, PairKeys, hold_out_pairs, sentence_keys
from budgerigar.text.plan import digest, hash_files
from budgerigar.text.reading import detect_encoding

_FORMAT = 1  # of what is cached: a change makes everything anew
Pairs = list[tuple[str, str]]


class SidedPair(NamedTuple):
    """A pair, and whether it is held out."""

    held_out: bool
    source: str
    target: str


@dataclass(frozen=True)
class PairPlan:
    """The pairs to read and how they are split: all that decides the tokens but the tokenizers.

    train, validation: files, or pairs that are at hand. validation None: a part of `train` is held
    out. mix: files whose pairs are learnt from too, unless one of their sentences is held out.
    """

    train: PairFiles | Pairs
    validation: PairFiles | Pairs | None
    mix: PairFiles | None
    encoding: str | None
    lowercase: bool
    fraction: float
    seed: int
    sources: list[dict[str, Any]] = field(default_factory=list)

    def key(self, *more: object) -> str:
        """Hash of the texts, of how they are split, and of `more`."""
        hashes = [source["sha256"] for source in self.sources]
        parts = [_shape_of(part) for part in (self.train, self.validation, self.mix)]
        how = [parts, self.encoding, self.lowercase, self.fraction, self.seed]
        return digest(["pairs", _FORMAT, hashes, how, *more])

    @cached_property
    def survey(self) -> PairKeys:
        """One pass over the training pairs. Raises `UserError` if there is none."""
        counts = PairCounts()
        keys = sentence_keys(self._read(self.train, "reading", counts))
        self._counts["train"] = counts
        if not len(keys):
            blank = ("blank source", "blank target", "blank pair")
            n = counts.blank_both + sum(map(counts.times, blank))
            lines = f" Every line is blank on one side or both ({n:,})." if n else ""
            raise UserError(f"no sentence pair to learn from in {self.name}.{lines}")
        return keys

    @cached_property
    def asked(self) -> PairKeys:
        """One pass over the pairs to validate with."""
        assert self.validation is not None
        counts = PairCounts()
        keys = sentence_keys(self._read(self.validation, "reading", counts))
        self._counts["validation"] = counts
        if not len(keys):
            raise UserError(f"no sentence pair to validate with in {_name(self.validation)}.")
        return keys

    @cached_property
    def holdout(self) -> PairHoldout | None:
        """The part held out; None where there are pairs to validate with, or no two different."""
        if self.validation is not None:
            return None
        return hold_out_pairs(self.survey, self.fraction, self.seed)

    @cached_property
    def _counts(self) -> dict[str, PairCounts]:
        return {}

    @property
    def name(self) -> str:
        """What to call the pairs in a message."""
        return _name(self.train)

    @property
    def shared(self) -> bool:
        """True where the training pairs themselves must be validated with."""
        return self.validation is None and self.holdout is None

    def sides(self, what: str) -> Iterator[SidedPair]:
        """All pairs of training, mixture and validation."""
        assert len(self.survey)
        if self.validation is not None:
            assert len(self.asked)  # an empty one is found before anything is written
        held_out = self.holdout.held_out.tolist() if self.holdout else None
        for number, pair in enumerate(self._read(self.train, what, PairCounts())):
            yield SidedPair(held_out is not None and held_out[number], *pair)
        if self.mix is not None:
            yield from self._mixed(what)
        if self.validation is not None:
            for pair in self._read(self.validation, what, PairCounts()):
                yield SidedPair(True, *pair)

    def _mixed(self, what: str) -> Iterator[SidedPair]:
        assert self.mix is not None
        clean = self._mix_is_clean
        for number, pair in enumerate(self._read(self.mix, what, PairCounts())):
            if clean[number]:
                yield SidedPair(False, *pair)

    @cached_property
    def _mix_is_clean(self) -> np.ndarray:
        """bool: which mixed-in pairs share no sentence with the held-out ones."""
        assert self.mix is not None
        counts = PairCounts()
        keys = sentence_keys(self._read(self.mix, "reading", counts))
        self._counts["mix"] = counts
        if not len(keys):
            raise UserError(f"nothing to mix in: no sentence pair in {_name(self.mix)}.")
        return ~_shares(keys, self._held_out_keys)

    @property
    def _held_out_keys(self) -> PairKeys:
        if self.validation is not None:
            return self.asked
        chosen = self.holdout.held_out if self.holdout else np.zeros(len(self.survey), dtype=bool)
        return PairKeys(self.survey.source[chosen], self.survey.target[chosen])

    def _read(
        self, part: PairFiles | Pairs, what: str, counts: PairCounts
    ) -> Iterator[tuple[str, str]]:
        if isinstance(part, PairFiles):
            total = sum(path.stat().st_size for path in part.paths if path.is_file())
            with progress.track(what, total=total, unit="B") as job:
                yield from iter_file_pairs(
                    part, self.encoding, self.lowercase, counts=counts, advance=job.advance
                )
            return
        for number, (source, target) in enumerate(part, 1):
            if source.strip() and target.strip():
                counts.n_pairs += 1
                yield (source.lower(), target.lower()) if self.lowercase else (source, target)
            else:
                counts.add("blank pair", f"pair {number:,}")

    def notes(self) -> list[str]:
        """What is worth knowing about the pairs and their split, one sentence each."""
        n_train = len(self.survey) - (int(self.holdout.held_out.sum()) if self.holdout else 0)
        notes = [f"pairs: {self.name}, {len(self.survey):,} pairs{_read_as(self)}"]
        if self.mix is not None:
            n_mixed, n_clean = len(self._mix_is_clean), int(self._mix_is_clean.sum())
            notes.append(f"mixed in to learn from: {n_clean:,} pairs of {_name(self.mix)}")
            if n_mixed > n_clean:
                notes[-1] += f"; {n_mixed - n_clean:,} left out, a sentence of which is held out"
        if self.validation is not None:
            notes += self._about_validation()
        elif self.holdout is not None:
            notes.append(
                f"validation: {len(self.survey) - n_train:,} of them, held out at random such that "
                f"{self.holdout.note}; {n_train:,} to learn from"
            )
        else:
            notes.append(
                "validation: the training pairs themselves, because there are no two different ones"
            )
        n_same = int((self.survey.source == self.survey.target).sum())
        if 2 * n_same > len(self.survey):
            notes.append(
                f"{n_same:,} pairs have the same sentence on both sides: copying is what they teach. "
                "Is each side the right file?"
            )
        for part, counts in self._counts.items():
            where = "" if part == "train" else f"{part}: "
            notes += [f"{where}{words}" for words in counts.notes()]
        return notes

    def _about_validation(self) -> list[str]:
        keys = self.asked
        said = [f"validation: {_name(self.validation)}, {len(keys):,} pairs"]
        in_source = np.isin(self.survey.source, keys.source)
        in_target = np.isin(self.survey.target, keys.target)
        if n := int((in_source | in_target).sum()):
            said.append(
                f"{n:,} training pairs have a sentence that is in the validation pairs too "
                f"({int(in_source.sum()):,} on the source side, {int(in_target.sum()):,} on the "
                "target side, case and spaces aside); they are kept, and flatter the validation "
                "loss a little"
            )
        return said


def plan_pairs(
    train: PairFiles | Pairs,
    validation: PairFiles | Pairs | None,
    mix: PairFiles | None,
    *,
    encoding: str | None,
    lowercase: bool,
    fraction: float,
    seed: int,
) -> PairPlan:
    """A plan; hashes the files. Raises `UserError` for files that cannot be pairs."""
    parts = [part for part in (train, validation, mix) if isinstance(part, PairFiles)]
    for part in parts:
        part.validate()
        for path in part.paths:
            if path.is_dir() or not path.exists():
                detect_encoding(path)  # says which
    sources = hash_files([path for part in parts for path in part.paths])
    return PairPlan(train, validation, mix, encoding, lowercase, fraction, seed, sources)


def _shares(keys: PairKeys, others: PairKeys) -> np.ndarray:
    """bool: which pairs have a source or a target sentence that is among the others'."""
    return np.isin(keys.source, others.source) | np.isin(keys.target, others.target)


def _name(part: PairFiles | Pairs | None) -> str:
    return str(part) if isinstance(part, PairFiles) else "the generated text"


def _shape_of(part: PairFiles | Pairs | None) -> list[Any]:
    """How files fall into sides and columns; by their names some hold records."""
    if not isinstance(part, PairFiles):
        return []
    records = [number for number, path in enumerate(part.pairs) if holds_records(path)]
    shape = [len(part.source), len(part.pairs), part.columns, *([records] if records else [])]
    return shape if part.prefix is None else [*shape, part.prefix]


def _read_as(plan: PairPlan) -> str:
    small = ", in small letters" if plan.lowercase else ""
    if not isinstance(plan.train, PairFiles):
        return small
    detected = detect_encoding(plan.train.paths[0], plan.encoding)
    return f", read as {detected.encoding} ({detected.reason}){small}"
