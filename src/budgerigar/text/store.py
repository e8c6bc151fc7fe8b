"""Token stores: a split's ids in one flat file, mapped into memory, not read.

With documents the ids are `<end> document <end> document <end>`: an `<end>` as input opens the
next document, as target it closes the one before. Without documents they are the plain stream.

Where the authors of an imported tokenizer open a text with a token of its own (Llama's `<s>`, BERT's
`[CLS]`), it stands before each document: `<s> document </s> <s> document </s> <s>`; before a plain
stream once. It is read and never a target: nobody has to predict that a text begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.text.documents import Piece
from budgerigar.text.tokenizer import Tokenizer

_BATCH_CHARACTERS = 1 << 20  # encoded at a time: bounds memory, keeps all cores busy


@dataclass(frozen=True)
class TokenStore:
    """The ids of one split.

    tokens: (n_tokens,) uint16 or uint32, read-only. n_bytes, n_characters: of the split's
    LF-normalised text, with what separates documents. end_id: id of `<end>`; None: no documents.
    counts: (V,) int64, how often each id occurs. path: the file, or None if held in memory.
    start_ids: what opens each document where `<end>` does not.
    """

    tokens: np.ndarray
    n_bytes: int
    n_characters: int
    end_id: int | None
    counts: np.ndarray
    path: Path | None = None
    start_ids: tuple[int, ...] = ()

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def opens_id(self) -> int | None:
        """The id that opens a document as input; None: there are no documents."""
        return self.start_ids[0] if self.start_ids and self.end_id is not None else self.end_id

    @property
    def n_targets(self) -> int:
        """Tokens that are predicted: all but the first and those that only open a document."""
        return max(0, self.n_tokens - 1 - int(self.only_open(np.asarray(self.tokens[1:])).sum()))

    def only_open(self, tokens: np.ndarray) -> np.ndarray:
        """Which of `tokens` open a document without ending one: they are never targets."""
        return np.isin(tokens, self.start_ids) if self.start_ids else np.zeros(tokens.shape, bool)

    @classmethod
    def open(cls, path: Path) -> TokenStore:
        """Map a store that `StoreWriter` wrote."""
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        dtype = np.dtype(about["dtype"])
        # Nothing cannot be mapped.
        tokens = np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)
        if len(tokens) != about["n_tokens"]:
            raise UserError(f"{path} is damaged. Delete its folder: it is then made anew.")
        counts = np.load(path.with_suffix(".npy"), allow_pickle=False)
        # A plain array over the same memory: np.memmap's own indexing is several times slower.
        return cls(
            np.asarray(tokens),
            about["n_bytes"],
            about["n_characters"],
            about["end_id"],
            counts,
            path,
            tuple(about.get("start_ids", ())),
        )


def opens_texts(store: Any) -> bool:
    """Whether something stands before a text: `<end>` before documents, or what its authors put."""
    return store.end_id is not None or bool(getattr(store, "start_ids", ()))


def end_id_of(tokenizer: Tokenizer) -> int | None:
    """What ends a document: `<end>`, or what the authors put after every text (BERT's `[SEP]`)."""
    return tokenizer.end_id if tokenizer.end_id is not None else _last(tokenizer.closing_ids)


def _last(ids: tuple[int, ...]) -> int | None:
    return ids[-1] if ids else None


def start_ids_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What opens a text of this tokenizer, where that is not what ends one."""
    start = tuple(tokenizer.start_ids)
    return () if end_id_of(tokenizer) in start else start


class StoreWriter:
    """Encodes a split's pieces into a file, a batch at a time; `finish` completes it."""

    def __init__(self, path: Path, tokenizer: Tokenizer, with_documents: bool) -> None:
        self._path, self._tokenizer = path, tokenizer
        self._end_id = end_id_of(tokenizer) if with_documents else None
        assert not with_documents or self._end_id is not None
        self._file = open(path, "wb")  # noqa: SIM115 (closed by `close`)
        self._texts: list[str] = []  # each ends at a safe place
        self._ends: list[bool] = []  # whether a document ends there
        self._rest = ""  # of the document being read
        self._waiting = 0  # characters
        self.n_bytes = self.n_characters = self.n_tokens = self.n_documents = 0
        self._counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        self._start_ids = start_ids_of(tokenizer)
        first = self._start_ids or (() if self._end_id is None else (self._end_id,))
        self._write(np.array(first, dtype=tokenizer.id_type))

    def add(self, piece: Piece) -> None:
        """Take the next piece of the split."""
        self.n_characters += len(piece.text) + len(piece.gap)
        self.n_bytes += len(piece.text.encode()) + len(piece.gap.encode())
        text = self._rest + piece.text if self._rest else piece.text
        if piece.ends and len(text) < _BATCH_CHARACTERS:
            self._rest = text
        else:
            blocks, self._rest = self._tokenizer.split_safely(text)
            self._texts += blocks
            self._ends += [False] * len(blocks)
        if piece.ends:
            self._finish_document()
        self._waiting += len(piece.text)
        if self._waiting >= _BATCH_CHARACTERS:
            self._flush()

    def finish(self) -> None:
        """Encode what is left, and write what `TokenStore.open` needs."""
        self._texts.append(self._rest)
        self._ends.append(False)
        self._flush()
        self._file.close()
        about = {
            "dtype": np.dtype(self._tokenizer.id_type).name,
            "n_bytes": self.n_bytes,
            "n_characters": self.n_characters,
            "end_id": self._end_id,
            "n_tokens": self.n_tokens,
            "start_ids": self._start_ids,
        }
        self._path.with_suffix(".json").write_text(json.dumps(about), encoding="utf-8")
        np.save(self._path.with_suffix(".npy"), self._counts, allow_pickle=False)

    def close(self) -> None:
        """Close the file, finished or not."""
        self._file.close()

    def _finish_document(self) -> None:
        self._texts.append(self._rest)
        self._ends.append(True)
        self._rest = ""
        self.n_documents += 1

    def _flush(self) -> None:
        ids, lengths = self._tokenizer.encode_many(self._texts)
        if self._end_id is not None:
            places = np.cumsum(lengths)[np.array(self._ends, dtype=bool)]
            ids = _insert(ids, places, (self._end_id, *self._start_ids))
        self._write(ids)
        self._texts, self._ends, self._waiting = [], [], 0

    def _write(self, ids: np.ndarray) -> None:
        self._file.write(ids.tobytes())
        self._counts += np.bincount(ids, minlength=len(self._counts))
        self.n_tokens += len(ids)


def store_from_documents(texts: Iterable[str], tokenizer: Tokenizer) -> TokenStore:
    """A store in memory of documents that are at hand. n_bytes and n_characters are theirs alone:
    nothing lies between them."""
    documents = list(texts)
    end_id = end_id_of(tokenizer)
    assert end_id is not None
    ids, lengths = tokenizer.encode_many(documents)
    start = start_ids_of(tokenizer)
    tokens = _insert(ids, np.cumsum(lengths), (end_id, *start))
    tokens = _insert(tokens, np.zeros(1, dtype=np.int64), start or (end_id,))
    tokens.setflags(write=False)
    return TokenStore(
        tokens,
        sum(len(text.encode()) for text in documents),
        sum(map(len, documents)),
        end_id,
        np.bincount(tokens, minlength=tokenizer.vocab_size),
        start_ids=start,
    )


def _insert(ids: np.ndarray, places: np.ndarray, between: tuple[int, ...]) -> np.ndarray:
    """`ids` with all of `between` in front of each of `places`."""
    new = np.tile(np.array(between, dtype=ids.dtype), len(places))
    return np.insert(ids, np.repeat(places, len(between)), new)
