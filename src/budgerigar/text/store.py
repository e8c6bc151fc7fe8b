"""Token stores: a split's ids in one flat file, mapped into memory, not read.

With documents the ids are `<end> document <end> document <end>`: an `<end>` as input opens the
next document, as target it closes the one before. Without documents they are the plain stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
    """

    tokens: np.ndarray
    n_bytes: int
    n_characters: int
    end_id: int | None
    counts: np.ndarray
    path: Path | None = None

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

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
        )


class StoreWriter:
    """Encodes a split's pieces into a file, a batch at a time; `finish` completes it."""

    def __init__(self, path: Path, tokenizer: Tokenizer, with_documents: bool) -> None:
        self._path, self._tokenizer = path, tokenizer
        self._end_id = tokenizer.end_id if with_documents else None
        assert not with_documents or self._end_id is not None
        self._file = open(path, "wb")  # noqa: SIM115 (closed by `close`)
        self._texts: list[str] = []  # each ends at a safe place
        self._ends: list[bool] = []  # whether a document ends there
        self._rest = ""  # of the document being read
        self._waiting = 0  # characters
        self.n_bytes = self.n_characters = self.n_tokens = self.n_documents = 0
        self._counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        if self._end_id is not None:
            self._write(np.array([self._end_id], dtype=tokenizer.id_type))

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
            ids = np.insert(ids, np.cumsum(lengths)[np.array(self._ends, dtype=bool)], self._end_id)
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
    assert tokenizer.end_id is not None
    ids, lengths = tokenizer.encode_many(documents)
    places = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.insert(ids, places, tokenizer.end_id)
    tokens.setflags(write=False)
    return TokenStore(
        tokens,
        sum(len(text.encode()) for text in documents),
        sum(map(len, documents)),
        tokenizer.end_id,
        np.bincount(tokens, minlength=tokenizer.vocab_size),
    )
