"""From sentence pairs to a corpus: tokenizers, and pair stores to train on and to validate with.

As `corpus.prepare` for running text: everything that is decided on the way is said in
`PairCorpus.notes`, and prepared stores lie in the user's cache.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.text.cache import building, cache_folder
from budgerigar.text.pair_catalogue import fetch_pairs, find_pairs, generated_pairs, guess_languages
from budgerigar.text.pair_files import PairFiles
from budgerigar.text.pair_plan import PairPlan, Pairs, plan_pairs
from budgerigar.text.pair_store import PairStore, PairWriter, store_from_pairs
from budgerigar.text.pair_tokenizers import Trained, Wanted, cached_tokenizers, train_tokenizers
from budgerigar.text.plan import digest
from budgerigar.text.tokenizers import Tokenizer

__all__ = [
    "PairCorpus",
    "PairFiles",
    "fetch_pairs",
    "find_pairs",
    "generated_pairs",
    "prepare_pair_lists",
    "prepare_pairs",
]


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


def prepare_pairs(
    files: PairFiles,
    *,
    tokenizer: str | Tokenizer = "auto",
    vocab_size: int | None = None,
    vocabulary: str = "auto",
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

    tokenizer: a kind (see `tokenizers`), "auto" (byte-level BPE sized by the text; characters for
    a side that is written without spaces), or one that is trained already; it is trained on the
    training part only. vocabulary: "joint", one for both sides, "separate", with
    `source_tokenizer` and `source_vocab_size` for the source (default: as the target's), or
    "auto": joint, unless the tokenizer is "auto" too and one side alone is written without spaces.
    validation: pairs to validate with, else about `validation_fraction` is held out such that no
    sentence is in both parts. mix: further pairs to learn from. lowercase: all text in small
    letters. Raises `UserError` for anything about files or settings that the user can mend.
    """
    if not 0 < validation_fraction < 1:
        raise UserError(f"validation_fraction {validation_fraction}: a number between 0 and 1.")
    wanted = Wanted(tokenizer, vocab_size, vocabulary, source_tokenizer, source_vocab_size)
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
    trained = cached_tokenizers(plan, wanted, folder)
    stores = folder / "pairs" / plan.key(*(one.fingerprint for one, _ in trained))
    if not stores.is_dir():
        _write_stores(plan, stores, [one for one, _ in trained])
    train, held_out, counts, notes = _open_stores(stores)
    guessed = guess_languages(files)
    return _finished(
        train,
        held_out,
        wanted,
        trained,
        counts,
        sources=plan.sources,
        fingerprint=stores.name,
        notes=notes,
        languages=(source_language or guessed[0], target_language or guessed[1]),
    )


def prepare_pair_lists(
    train: Pairs,
    validation: Pairs,
    *,
    tokenizer: str | Tokenizer = "auto",
    vocab_size: int | None = None,
    vocabulary: str = "auto",
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
    wanted = Wanted(tokenizer, vocab_size, vocabulary, source_tokenizer, source_vocab_size)
    wanted.validate()
    plan = plan_pairs(
        train, validation, mix, encoding=encoding, lowercase=lowercase, fraction=0.1, seed=seed
    )
    trained = train_tokenizers(plan, wanted)
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


def _finished(
    train: PairStore,
    validation: PairStore,
    wanted: Wanted,
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
    if len(trained) > 1:
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
    return f"; {_percent(share)} % of the tokens are new to it" if share else ""


def _percent(share: float) -> str:
    """Two digits, and no exponent."""
    return f"{100 * share:.0f}" if share >= 0.095 else f"{100 * share:.2g}"


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


def _open_stores(folder: Path) -> tuple[PairStore, PairStore, list[np.ndarray], list[str]]:
    """(training pairs, held-out pairs, how often training holds each piece of source and target,
    notes) of what `_write_stores` wrote."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    train = PairStore.open(folder / "train")
    held_out = train if about["shared"] else PairStore.open(folder / "validation")
    counts = [np.load(folder / "train" / f"{side}.counts.npy") for side in ("source", "target")]
    return train, held_out, counts, about["notes"]
