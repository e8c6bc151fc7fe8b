"""The tokenizers of sentence pairs: one for both sides, or one for each.

What decides under "auto" is how the sides are written. Subwords are merged inside what stands
between spaces; where there are none (Chinese, Japanese), merging would make pieces of whole phrases,
which a small corpus shows too seldom to learn. Such a side gets characters of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.cache import building
from budgerigar.text.pair_plan import PairPlan
from budgerigar.text.pair_store import end_of
from budgerigar.text.sampling import Sample, draw_sample
from budgerigar.text.tokenizers import SAMPLE_BYTES, Tokenizer, build_tokenizer, check_kind

VOCABULARIES = ("auto", "joint", "separate")
Trained = list[tuple[Tokenizer, str]]  # (tokenizer, note): of source and target, or of both
_FORMAT = 2  # of what "auto" chooses: a change trains cached tokenizers anew


@dataclass(frozen=True)
class Wanted:
    """Which tokenizers are asked for: a kind, or one that is there already."""

    tokenizer: str | Tokenizer
    vocab_size: int | None
    vocabulary: str
    source_tokenizer: str | Tokenizer | None
    source_vocab_size: int | None

    def validate(self) -> None:
        """Raise `UserError` for names that do not exist and settings that contradict each other."""
        if self.vocabulary not in VOCABULARIES:
            raise UserError(
                f"vocabulary {self.vocabulary!r}: choose one of {', '.join(VOCABULARIES)}."
            )
        if self.vocabulary == "joint" and self.asks_for_two:
            raise UserError(
                "a source_tokenizer or source_vocab_size of its own needs vocabulary separate: a "
                "joint vocabulary has one tokenizer for both sides."
            )
        for one in (self.tokenizer, self.source_tokenizer):
            if isinstance(one, Tokenizer):
                end_of(one)
            elif one is not None:
                check_kind(one)

    @property
    def asks_for_two(self) -> bool:
        """Whether the source's is spoken of."""
        return bool(self.source_tokenizer or self.source_vocab_size)

    @property
    def separate(self) -> bool:
        """Whether two are asked for, whatever the text is."""
        return self.vocabulary == "separate" or self.asks_for_two


def cached_tokenizers(plan: PairPlan, wanted: Wanted, cache: Path) -> Trained:
    """As `train_tokenizers`, from the cache if they are there."""
    kinds = [
        [one.fingerprint if isinstance(one, Tokenizer) else one, size]
        for one, size in (
            (wanted.source_tokenizer, wanted.source_vocab_size),
            (wanted.tokenizer, wanted.vocab_size),
        )
    ]
    folder = cache / "tokenizers" / plan.key("tokenizers", _FORMAT, kinds, wanted.vocabulary)
    if not folder.is_dir():
        trained = train_tokenizers(plan, wanted)
        with building(folder) as aside:
            for number, (tokenizer, note) in enumerate(trained):
                tokenizer.save(aside / str(number))
                (aside / str(number) / "note.txt").write_text(note, encoding="utf-8")
    found = sorted(folder.iterdir())
    return [(Tokenizer.load(one), (one / "note.txt").read_text(encoding="utf-8")) for one in found]


def train_tokenizers(plan: PairPlan, wanted: Wanted) -> Trained:
    """One tokenizer and its note where the vocabulary is joint, else the source's and the target's;
    trained on the training part only."""
    if not wanted.separate:
        if wanted.vocabulary == "auto" and wanted.tokenizer == "auto":
            samples = [_sample(plan, side) for side in ("source", "target")]
            if samples[0].without_spaces != samples[1].without_spaces:
                size = wanted.vocab_size
                return [
                    _trained(sample, "auto", size, side)
                    for sample, side in zip(samples, ("source", "target"), strict=True)
                ]
        return [_one(plan, wanted.tokenizer, wanted.vocab_size, "source and target")]
    source: str | Tokenizer | None = wanted.source_tokenizer
    size = wanted.source_vocab_size
    if source is None:
        source = (
            wanted.tokenizer.kind if isinstance(wanted.tokenizer, Tokenizer) else wanted.tokenizer
        )
        size = size or wanted.vocab_size
    return [
        _one(plan, source, size, "source"),
        _one(plan, wanted.tokenizer, wanted.vocab_size, "target"),
    ]


def _one(
    plan: PairPlan, asked: str | Tokenizer, vocab_size: int | None, side: str
) -> tuple[Tokenizer, str]:
    if isinstance(asked, Tokenizer):
        return asked, f"tokenizer of the {side}: {asked.kind}, as given"
    return _trained(_sample(plan, side), asked, vocab_size, side)


def _trained(
    sample: Sample, asked: str, vocab_size: int | None, side: str
) -> tuple[Tokenizer, str]:
    kind, why = (asked, "as asked") if asked != "auto" else _kind_for(sample)
    size = vocab_size
    if size is None and kind in ("bpe", "unigram", "wordpiece"):
        size = pair_vocab_size(sample.total_bytes) + (256 if kind == "wordpiece" else 0)
    with progress.track(f"training the tokenizer of {side}"):
        tokenizer = build_tokenizer(sample, kind, size, end=True)
    return tokenizer, f"tokenizer of {side}: {kind}, {tokenizer.vocab_size:,} pieces, {why}"


def _kind_for(sample: Sample) -> tuple[str, str]:
    """(kind, why) of "auto"."""
    if sample.without_spaces:
        return "character", "because it is written without spaces"
    return "bpe", "sized by the text"


def _sample(plan: PairPlan, side: str) -> Sample:
    return draw_sample(_texts(plan, side), SAMPLE_BYTES, plan.seed)


def _texts(plan: PairPlan, side: str) -> Iterator[str]:
    for held_out, source, target in plan.sides("sampling the text"):
        if held_out:
            continue
        if side != "target":
            yield source
        if side != "source":
            yield target


def pair_vocab_size(n_bytes: int) -> int:
    """Pieces for pairs: the power of two nearest to 4 times the root of the bytes, 512 to 32,768.

    More than for running text, where every piece is predicted from all before it: a sentence that
    is cut into fewer pieces is shorter for both stacks, and words keep together. Multi30k (29,000
    pairs, 3.9 MB) gets 8,192; IWSLT14 16,384; WMT 32,768.
    """
    power = round(np.log2(4 * max(n_bytes, 1) ** 0.5))
    return int(2 ** min(max(power, 9), 15))
