"""From sentence pairs to a corpus: tokenizers, and pair stores to train on and to validate with.

As `corpus.prepare` for running text: everything that is decided on the way is said in
`PairCorpus.notes`, and prepared stores lie in the user's cache.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.cache import building, cache_folder
from budgerigar.text.pair_catalogue import fetch_pairs, find_pairs, generated_pairs, guess_languages
from budgerigar.text.pair_files import PairFiles
from budgerigar.text.pair_plan import PairPlan, Pairs, plan_pairs
from budgerigar.text.pair_store import PairStore, PairWriter, end_of, store_from_pairs
from budgerigar.text.plan import digest
from budgerigar.text.sampling import draw_sample
from budgerigar.text.tokenizers import (
    SAMPLE_BYTES,
    Tokenizer,
    build_tokenizer,
    check_kind,
)

__all__ = [
    "PairCorpus",
    "PairFiles",
    "fetch_pairs",
    "find_pairs",
    "generated_pairs",
    "prepare_pair_lists",
    "prepare_pairs",
]

VOCABULARIES = ("joint", "separate")


@dataclass(frozen=True)
class PairCorpus:
    """Pairs made ready. tokenizer: of the target; source_tokenizer: of the source, the same object
    where the vocabulary is joint. n_documents: pairs of both parts together. sources: path, sha256
    and bytes of each file. fingerprint: SHA-256 of texts, split and tokenizers. notes: what was
    decided and why, one sentence each. source_language, target_language: two letters, where known.
    """

    train: PairStore
    validation: PairStore
    tokenizer: Tokenizer
    source_tokenizer: Tokenizer
    documents: str
    n_documents: int
    sources: list[dict[str, Any]]
    fingerprint: str
    notes: list[str] = field(default_factory=list)
    source_language: str | None = None
    target_language: str | None = None


@dataclass(frozen=True)
class _Wanted:
    """Which tokenizers are asked for: a kind, or one that is there already."""

    tokenizer: str | Tokenizer
    vocab_size: int | None
    vocabulary: str
    source_tokenizer: str | Tokenizer | None
    source_vocab_size: int | None

    @property
    def joint(self) -> bool:
        return self.vocabulary == "joint"

    def validate(self) -> None:
        if self.vocabulary not in VOCABULARIES:
            raise UserError(
                f"vocabulary {self.vocabulary!r}: choose one of {', '.join(VOCABULARIES)}."
            )
        if self.joint and (self.source_tokenizer or self.source_vocab_size):
            raise UserError(
                "a source_tokenizer or source_vocab_size of its own needs vocabulary separate: a "
                "joint vocabulary has one tokenizer for both sides."
            )
        for one in (self.tokenizer, self.source_tokenizer):
            if isinstance(one, Tokenizer):
                end_of(one)
            elif one is not None:
                check_kind(one)


def prepare_pairs(
    files: PairFiles,
    *,
    tokenizer: str | Tokenizer = "auto",
    vocab_size: int | None = None,
    vocabulary: str = "joint",
    source_tokenizer: str | Tokenizer | None = None,
    source_vocab_size: int | None = None,
    validation: PairFiles | None = None,
    validation_fraction: float = 0.1,
    encoding: str | None = None,
    lowercase: bool = False,
    seed: int = 0,
    cache: str | Path | None = None,
    mix: PairFiles | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> PairCorpus:
    """Prepare files of sentence pairs for training, in constant memory (16 bytes a pair).

    tokenizer: a kind (see `tokenizers`), "auto" (byte-level BPE sized by the text), or one that is
    trained already; it is trained on the training part only. vocabulary: "joint", one for both
    sides, or "separate", with `source_tokenizer` and `source_vocab_size` for the source (default:
    as the target's). validation: pairs to validate with, else about `validation_fraction` is held
    out such that no sentence is in both parts. mix: further pairs to learn from. lowercase: all
    text in small letters. Raises `UserError` for anything about files or settings that the user
    can mend.
    """
    if not 0 < validation_fraction < 1:
        raise UserError(f"validation_fraction {validation_fraction}: a number between 0 and 1.")
    wanted = _Wanted(tokenizer, vocab_size, vocabulary, source_tokenizer, source_vocab_size)
    wanted.validate()
    plan = plan_pairs(
        files,
        validation,
        mix,
        encoding=encoding,
        lowercase=lowercase,
        fraction=validation_fraction,
        seed=seed,
    )
    folder = cache_folder(cache)
    trained = _tokenizers(plan, wanted, folder)
    stores = folder / "pairs" / plan.key(*(one.fingerprint for one, _ in trained))
    if not stores.is_dir():
        _write_stores(plan, stores, [one for one, _ in trained])
    about = json.loads((stores / "about.json").read_text(encoding="utf-8"))
    train = PairStore.open(stores / "train")
    held_out = train if about["shared"] else PairStore.open(stores / "validation")
    counts = [np.load(stores / "train" / f"{side}.counts.npy") for side in ("source", "target")]
    guessed = guess_languages(files)
    return _finished(
        train,
        held_out,
        wanted,
        trained,
        counts,
        sources=plan.sources,
        fingerprint=stores.name,
        notes=about["notes"],
        languages=(source_language or guessed[0], target_language or guessed[1]),
    )


def prepare_pair_lists(
    train: Pairs,
    validation: Pairs,
    *,
    tokenizer: str | Tokenizer = "auto",
    vocab_size: int | None = None,
    vocabulary: str = "joint",
    source_tokenizer: str | Tokenizer | None = None,
    source_vocab_size: int | None = None,
    encoding: str | None = None,
    lowercase: bool = False,
    seed: int = 0,
    mix: PairFiles | None = None,
    source: str = "generated",
    source_language: str | None = None,
    target_language: str | None = None,
) -> PairCorpus:
    """A corpus of pairs that are at hand (generated text), held in memory; as `prepare_pairs`.

    mix: real pairs to learn from beside them. encoding: of its files. source: where the pairs come
    from, in place of a file's path.
    """
    wanted = _Wanted(tokenizer, vocab_size, vocabulary, source_tokenizer, source_vocab_size)
    wanted.validate()
    plan = plan_pairs(
        train, validation, mix, encoding=encoding, lowercase=lowercase, fraction=0.1, seed=seed
    )
    trained = _train_tokenizers(plan, wanted)
    tokenizers = [one for one, _ in trained]
    sides: tuple[Pairs, Pairs] = [], []
    for held_out, *pair in plan.sides("encoding"):
        sides[held_out].append((pair[0], pair[1]))
    stores = [store_from_pairs(pairs, tokenizers[-1], tokenizers[0]) for pairs in sides]
    counts = [
        np.bincount(lines.tokens, minlength=one.vocab_size)
        for lines, one in zip(
            (stores[0].source, stores[0].target), (tokenizers[0], tokenizers[-1]), strict=True
        )
    ]
    text_hash = digest([hashlib.sha256("\n".join(p).encode()).hexdigest() for p in train])
    other_hash = digest([hashlib.sha256("\n".join(p).encode()).hexdigest() for p in validation])
    known = {
        "path": source,
        "sha256": digest([text_hash, other_hash]),
        "bytes": sum(store.n_bytes for store in stores),
    }
    return _finished(
        stores[0],
        stores[1],
        wanted,
        trained,
        counts,
        sources=[known, *plan.sources],
        fingerprint=plan.key(text_hash, other_hash, *(one.fingerprint for one in tokenizers)),
        notes=plan.notes(),
        languages=(source_language, target_language),
    )


Trained = list[tuple[Tokenizer, str]]  # (tokenizer, note): of source and target, or of both


def _finished(
    train: PairStore,
    validation: PairStore,
    wanted: _Wanted,
    trained: Trained,
    counts: list[np.ndarray],
    *,
    sources: list[dict[str, Any]],
    fingerprint: str,
    notes: list[str],
    languages: tuple[str | None, str | None],
) -> PairCorpus:
    said = [note for _, note in trained]
    target = _marked(trained[-1][0], counts[1], train.end_id, wanted.tokenizer)
    said[-1] += _new_to(wanted.tokenizer, counts[1])
    source = target
    if not wanted.joint:
        given = wanted.source_tokenizer
        source = _marked(trained[0][0], counts[0], train.source_end_id, given)
        said[0] += _new_to(given, counts[0])
    n_pairs = train.n_pairs + (validation.n_pairs if validation is not train else 0)
    return PairCorpus(
        train,
        validation,
        target,
        source,
        "pairs",
        n_pairs,
        sources,
        fingerprint,
        [*notes, *said],
        *languages,
    )


def _marked(
    tokenizer: Tokenizer, counts: np.ndarray, end_id: int, given: str | Tokenizer | None
) -> Tokenizer:
    """`tokenizer` with the pieces marked that neither this side nor an earlier text showed it. A
    joint one is marked by what targets hold: of the source's pieces none is ever to be written."""
    never_seen = counts == 0
    never_seen[end_id] = False
    if isinstance(given, Tokenizer):
        never_seen &= given.never_seen
    return tokenizer.with_never_seen(never_seen)


def _new_to(given: str | Tokenizer | None, counts: np.ndarray) -> str:
    """How well a tokenizer of an earlier text fits this one, as the end of a note."""
    if not isinstance(given, Tokenizer):
        return ""
    share = float(counts[given.never_seen].sum()) / max(int(counts.sum()), 1)
    return f"; {100 * share:.2g} % of the tokens are new to it" if share else ""


def _tokenizers(plan: PairPlan, wanted: _Wanted, cache: Path) -> Trained:
    """As `_train_tokenizers`, from the cache if they are there."""
    kinds = [
        [one.fingerprint if isinstance(one, Tokenizer) else one, size]
        for one, size in (
            (wanted.source_tokenizer, wanted.source_vocab_size),
            (wanted.tokenizer, wanted.vocab_size),
        )
    ]
    folder = cache / "tokenizers" / plan.key("tokenizers", kinds, wanted.vocabulary)
    if not folder.is_dir():
        trained = _train_tokenizers(plan, wanted)
        with building(folder) as aside:
            for number, (tokenizer, note) in enumerate(trained):
                tokenizer.save(aside / str(number))
                (aside / str(number) / "note.txt").write_text(note, encoding="utf-8")
    found = sorted(folder.iterdir())
    return [(Tokenizer.load(one), (one / "note.txt").read_text(encoding="utf-8")) for one in found]


def _train_tokenizers(plan: PairPlan, wanted: _Wanted) -> Trained:
    """One tokenizer and its note where the vocabulary is joint, else the source's and the target's;
    trained on the training part only."""
    if wanted.joint:
        return [_one_tokenizer(plan, wanted.tokenizer, wanted.vocab_size, "source and target")]
    source: str | Tokenizer | None = wanted.source_tokenizer
    size = wanted.source_vocab_size
    if source is None:
        source = (
            wanted.tokenizer.kind if isinstance(wanted.tokenizer, Tokenizer) else wanted.tokenizer
        )
        size = size or wanted.vocab_size
    return [
        _one_tokenizer(plan, source, size, "source"),
        _one_tokenizer(plan, wanted.tokenizer, wanted.vocab_size, "target"),
    ]


def _one_tokenizer(
    plan: PairPlan, asked: str | Tokenizer, vocab_size: int | None, side: str
) -> tuple[Tokenizer, str]:
    if isinstance(asked, Tokenizer):
        return asked, f"tokenizer of the {side}: {asked.kind}, as given"
    sample = draw_sample(_texts(plan, side), SAMPLE_BYTES, plan.seed)
    kind, why = (asked, "as asked") if asked != "auto" else ("bpe", "sized by the text")
    size = vocab_size
    if size is None and kind in ("bpe", "unigram", "wordpiece"):
        size = pair_vocab_size(sample.total_bytes) + (256 if kind == "wordpiece" else 0)
    with progress.track(f"training the tokenizer of {side}"):
        tokenizer = build_tokenizer(sample, kind, size, end=True)
    return tokenizer, f"tokenizer of {side}: {kind}, {tokenizer.vocab_size:,} pieces, {why}"


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


def _write_stores(plan: PairPlan, folder: Path, tokenizers: list[Tokenizer]) -> None:
    with building(folder) as aside:
        with (
            closing(PairWriter(aside / "train", tokenizers[0], tokenizers[-1])) as train,
            closing(PairWriter(aside / "validation", tokenizers[0], tokenizers[-1])) as other,
        ):
            for held_out, source, target in plan.sides("encoding"):
                (other if held_out else train).add(source, target)
            train.finish()
            other.finish()
        about = {"shared": plan.shared, "notes": plan.notes()}
        (aside / "about.json").write_text(json.dumps(about), encoding="utf-8")
