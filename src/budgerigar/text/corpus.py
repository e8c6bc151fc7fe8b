"""From files to a corpus: a tokenizer, and token stores to train on and to validate with.

Everything that is decided on the way is said in `Corpus.notes`. Prepared stores lie in the user's
cache under a key of the text's and the tokenizer's hash; the same text is not encoded twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.cache import building, cache_folder
from budgerigar.text.holdout import Holdout
from budgerigar.text.plan import Plan, digest, expand, hash_files, how_to_split
from budgerigar.text.sampling import Sample, draw_sample
from budgerigar.text.store import (
    StoreWriter,
    TokenStore,
    end_id_of,
    start_ids_of,
    store_from_documents,
)
from budgerigar.text.tokenizers import (
    SAMPLE_BYTES,
    Tokenizer,
    build_tokenizer,
    check_kind,
    choose_kind,
)


@dataclass(frozen=True)
class Corpus:
    """A text made ready. documents: one of `documents.HOWS`. n_documents: of both parts together,
    0 without documents. sources: path, sha256 and bytes of each file. fingerprint: SHA-256 of
    texts, split and tokenizer. notes: what was decided and why, one sentence each."""

    train: TokenStore
    validation: TokenStore
    tokenizer: Tokenizer
    documents: str
    n_documents: int
    sources: list[dict[str, Any]]
    fingerprint: str
    notes: list[str] = field(default_factory=list)


def prepare(
    files: str | Path | Sequence[str | Path],
    *,
    tokenizer: str | Tokenizer = "auto",
    vocab_size: int | None = None,
    documents: str = "auto",
    validation: str | Path | Sequence[str | Path] | None = None,
    validation_fraction: float = 0.1,
    encoding: str | None = None,
    seed: int = 0,
    cache: str | Path | None = None,
    specials: Sequence[str] = (),
) -> Corpus:
    """Prepare text files (or folders of them) for training, in constant memory.

    tokenizer: a kind (see `tokenizers`), "auto", or one that is trained already; it is trained on
    the training part only. documents: one of `documents.HOWS`, or "auto", which proposes one.
    validation: files to validate with, else the last `validation_fraction` of the text is held
    out. encoding: of all files. cache: where to keep what is prepared. specials: special tokens that
    a tokenizer trained here has beside `<end>`. Raises `UserError` for anything about files or
    settings that the user can mend, a text of fewer than two tokens too.
    """
    if not 0 < validation_fraction < 1:
        raise UserError(f"validation_fraction {validation_fraction}: a number between 0 and 1.")
    given = tokenizer if isinstance(tokenizer, Tokenizer) else None
    if isinstance(tokenizer, str):
        check_kind(tokenizer)
    paths = expand(files)
    validation_paths = expand(validation) if validation is not None else []
    how, why = how_to_split(paths, documents, encoding, given)
    sources = hash_files([*paths, *validation_paths])
    plan = Plan(paths, validation_paths, how, encoding, validation_fraction, sources)
    folder = cache_folder(cache)
    if given:
        trained = given
    else:
        trained, note = _tokenizer(plan, folder, str(tokenizer), vocab_size, seed, specials)
    stores = _stores(plan, folder, trained)
    about = json.loads((stores / "about.json").read_text(encoding="utf-8"))
    train = TokenStore.open(stores / "train.tokens")
    held_out = train if about["shared"] else TokenStore.open(stores / "validation.tokens")
    if given:
        note = _as_given(given, train) + _opening_words(given, plan.with_documents)
    found = f"; {about['n_documents']:,} of them" if plan.with_documents else ""
    notes = [plan.describe_text(), f"documents: {how}, {why}{found}", note, about["note"]]
    return Corpus(
        train,
        held_out,
        _marked(trained, train, given),
        how,
        about["n_documents"],
        sources,
        stores.name,
        notes,
    )


def prepare_documents(
    train: list[str],
    validation: list[str],
    *,
    tokenizer: str | Tokenizer = "auto",
    vocab_size: int | None = None,
    seed: int = 0,
    source: str = "generated",
    specials: Sequence[str] = (),
) -> Corpus:
    """A corpus of documents that are at hand (generated text), held in memory; as `prepare`.

    `source` names where they come from, in place of a file's path.
    """
    train, validation = [t for t in train if t], [t for t in validation if t]
    if not train or not validation:
        raise UserError("there is no text to train on, or none to validate with.")
    given = tokenizer if isinstance(tokenizer, Tokenizer) else None
    if given is None:
        check_kind(str(tokenizer))
        sample = draw_sample(train, SAMPLE_BYTES, seed)
        trained, note = _train(sample, str(tokenizer), vocab_size, True, specials)
    elif end_id_of(given) is None:
        raise UserError("the given tokenizer has no <end>, which documents need.")
    else:
        trained = given
    stores = [store_from_documents(texts, trained) for texts in (train, validation)]
    if given:
        note = _as_given(given, stores[0]) + _opening_words(given, True)
    text_hash = digest([hashlib.sha256(text.encode()).hexdigest() for text in train + validation])
    return Corpus(
        stores[0],
        stores[1],
        _marked(trained, stores[0], given),
        "files",
        len(train) + len(validation),
        [{"path": source, "sha256": text_hash, "bytes": sum(store.n_bytes for store in stores)}],
        digest([text_hash, len(train), trained.fingerprint]),
        [f"documents: {len(train):,} to train on, {len(validation):,} held out ({source})", note],
    )


def _marked(tokenizer: Tokenizer, train: TokenStore, given: Tokenizer | None) -> Tokenizer:
    """`tokenizer` with the pieces marked that neither this text nor an earlier one showed it."""
    never_seen = train.counts == 0
    return tokenizer.with_never_seen(never_seen & given.never_seen if given else never_seen)


def _as_given(given: Tokenizer, train: TokenStore) -> str:
    """The note about a tokenizer of an earlier text: how well it fits this one."""
    note = f"tokenizer: {given.kind}, as given"
    new = float(train.counts[given.never_seen].sum()) / max(train.n_tokens, 1)
    if new == 0:
        return note
    how = "characters that it lacks are written byte by byte; " if given.kind == "character" else ""
    return f"{note}; {100 * new:.2g} % of the tokens are new to it ({how}they are learnt from here)"


def _opening_words(given: Tokenizer, with_documents: bool) -> str:
    """What its authors put before a text, in words."""
    start = start_ids_of(given)
    if not start:
        return ""
    names = {number: name for name, number in given.special_ids.items()}
    shown = " ".join(names.get(number, str(number)) for number in start)
    where = "each document" if with_documents else "the text"
    return f"; {shown} stands before {where}, as its authors have it, and is not predicted"


def _tokenizer(
    plan: Plan, cache: Path, kind: str, vocab_size: int | None, seed: int, specials: Sequence[str]
) -> tuple[Tokenizer, str]:
    """(tokenizer trained on the training part, what was decided), from the cache if it is there."""
    asked = ("tokenizer", kind, vocab_size, seed, *specials)
    folder = cache / "tokenizers" / plan.key(*asked)
    if not folder.is_dir():
        texts = (
            piece.text for is_held_out, piece in plan.sides("sampling the text", plan.holdout)
            if not is_held_out
        )  # fmt: skip
        sample = draw_sample(texts, SAMPLE_BYTES, seed)
        with progress.track("training the tokenizer"):
            trained, note = _train(sample, kind, vocab_size, plan.with_documents, specials)
        with building(folder) as aside:
            trained.save(aside)
            (aside / "note.txt").write_text(note, encoding="utf-8")
    # Read back also when new: what is used is what is kept.
    return Tokenizer.load(folder), (folder / "note.txt").read_text(encoding="utf-8")


def _train(
    sample: Sample, kind: str, vocab_size: int | None, end: bool, specials: Sequence[str]
) -> tuple[Tokenizer, str]:
    why = "as asked"
    if kind == "auto":
        kind, why = choose_kind(sample)
    tokenizer = build_tokenizer(sample, kind, vocab_size, end, specials)
    return tokenizer, f"tokenizer: {kind}, {tokenizer.vocab_size:,} pieces, {why}"


class _TooShortError(Exception):
    """A part came out with fewer than two tokens."""


def _stores(plan: Plan, cache: Path, tokenizer: Tokenizer) -> Path:
    """The folder of both token stores, written unless it is there. Its name is their key."""
    opening = start_ids_of(
        tokenizer
    )  # of an imported one: its fingerprint is that of its ids alone
    more = [opening] if opening else []
    folder = cache / "tokens" / plan.key("tokens", tokenizer.fingerprint, *more)
    if folder.is_dir():
        return folder
    try:
        try:
            _write_stores(plan, folder, tokenizer, plan.holdout)
        except _TooShortError:
            if plan.holdout is None:
                raise
            _write_stores(plan, folder, tokenizer, None)
    except _TooShortError:
        raise UserError(
            f"{plan.name} is a single token for this tokenizer, and there is nothing to predict. "
            "Use more text, or --tokenizer character."
        ) from None
    return folder


def _write_stores(plan: Plan, folder: Path, tokenizer: Tokenizer, holdout: Holdout | None) -> None:
    shared = holdout is None and not plan.validation_paths
    with (
        building(folder) as aside,
        closing(StoreWriter(aside / "train.tokens", tokenizer, plan.with_documents)) as train,
        closing(StoreWriter(aside / "validation.tokens", tokenizer, plan.with_documents)) as other,
    ):
        for is_held_out, piece in plan.sides("encoding", holdout):
            (other if is_held_out else train).add(piece)
        train.finish()
        other.finish()
        if train.n_tokens < 2 or (other.n_tokens < 2 and not shared):
            raise _TooShortError
        about = {
            "shared": shared,
            "n_documents": train.n_documents + other.n_documents,
            "note": _describe_split(plan, train, other, shared),
        }
        (aside / "about.json").write_text(json.dumps(about), encoding="utf-8")


def _describe_split(plan: Plan, train: StoreWriter, other: StoreWriter, shared: bool) -> str:
    if shared:
        return "validation: the training text itself, because it is too short to hold a part out"
    which = "the given file" if plan.validation_paths else "the last part of the text"
    if plan.with_documents and not plan.validation_paths:
        which += f", {other.n_documents:,} documents, no copy of which is learnt from"
    return (
        f"validation: {which}, {other.n_characters:,} characters; "
        f"{train.n_characters:,} to learn from"
    )
