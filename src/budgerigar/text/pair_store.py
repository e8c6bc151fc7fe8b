"""Stores of sentence pairs: the ids of all lines of a side in one flat array, and where each begins.

Lines are kept without start and end. `<end>` ends the source that an encoder reads and the target
that a decoder must write; what starts the decoder is the model's affair.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from budgerigar.errors import UserError
from budgerigar.text.tokenizer import Tokenizer

_BATCH_CHARACTERS = 1 << 20  # encoded at a time
_LONG_LINE = 1 << 15  # characters; longer lines are encoded in blocks
_SIDES = ("source", "target")
_SIZES = ("bytes.i64", "characters.i64")  # of each target line


@dataclass(frozen=True)
class TokenLines:
    """Lines of ids. tokens: all in a row, uint16 or uint32. offsets: int64 (n+1), line i is
    tokens[offsets[i]:offsets[i+1]]."""

    tokens: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> np.ndarray:
        if not 0 <= line < len(self):
            raise IndexError(line)
        return self.tokens[self.offsets[line] : self.offsets[line + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Ids of each line, int64 (n,)."""
        return np.diff(self.offsets)

    def subset(self, lines: np.ndarray) -> TokenLines:
        """These lines, in this order, in memory."""
        lengths = self.lengths[lines]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        # Places in `tokens`: each line's first, and then on by one.
        places = np.repeat(self.offsets[lines] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return TokenLines(self.tokens[places], offsets)


@dataclass(frozen=True)
class PairStore:
    """The pairs of one split.

    line_bytes, line_characters: int64 (n,), UTF-8 bytes and characters of each target line.
    end_id, source_end_id: the id of `<end>` in the target's and the source's vocabulary. path: the
    folder it is mapped from, or None if held in memory.
    """

    source: TokenLines
    target: TokenLines
    line_bytes: np.ndarray
    line_characters: np.ndarray
    end_id: int
    source_end_id: int
    path: Path | None = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def n_pairs(self) -> int:
        """Pairs."""
        return len(self.target)

    @property
    def n_tokens(self) -> int:
        """Scored tokens: all of the target's and one `<end>` a pair."""
        return int(self.target.offsets[-1] - self.target.offsets[0]) + self.n_pairs

    @property
    def n_source_tokens(self) -> int:
        """Tokens that the encoder reads: all of the source's and one `<end>` a pair."""
        return int(self.source.offsets[-1] - self.source.offsets[0]) + self.n_pairs

    @property
    def n_bytes(self) -> int:
        """UTF-8 bytes of the target lines, each with its LF, for which `<end>` stands."""
        return int(self.line_bytes.sum()) + self.n_pairs

    @property
    def n_characters(self) -> int:
        """Characters of the target lines, each with its LF."""
        return int(self.line_characters.sum()) + self.n_pairs

    def subset(self, pairs: Sequence[int] | np.ndarray) -> PairStore:
        """The pairs of these numbers, in this order, in memory."""
        chosen = np.asarray(pairs, dtype=np.int64)
        return PairStore(
            self.source.subset(chosen),
            self.target.subset(chosen),
            self.line_bytes[chosen],
            self.line_characters[chosen],
            self.end_id,
            self.source_end_id,
        )

    def within(self, max_source: int | None = None, max_target: int | None = None) -> np.ndarray:
        """bool (n,): pairs of at most so many tokens a side, `<end>` included."""
        fits = np.ones(self.n_pairs, dtype=bool)
        for lines, most in ((self.source, max_source), (self.target, max_target)):
            if most is not None:
                fits &= lines.lengths + 1 <= most
        return fits

    @classmethod
    def open(cls, folder: Path) -> PairStore:
        """Map a store that `PairWriter` wrote."""
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        source, target = (_open_lines(folder, side, about[side]) for side in _SIDES)
        n_bytes, n_characters = (_map(folder / name, np.dtype(np.int64)) for name in _SIZES)
        if not len(source) == len(target) == len(n_bytes) == len(n_characters):
            raise _damaged(folder)
        end_id, source_end_id = about["end_id"], about["source_end_id"]
        return cls(source, target, n_bytes, n_characters, end_id, source_end_id, folder)


def _open_lines(folder: Path, side: str, about: dict) -> TokenLines:
    tokens = _map(folder / f"{side}.tokens", np.dtype(about["dtype"]))
    offsets = _map(folder / f"{side}.offsets", np.dtype(np.int64))
    if not len(offsets) or offsets[-1] != len(tokens):
        raise _damaged(folder)
    return TokenLines(tokens, offsets)


def _damaged(folder: Path) -> UserError:
    return UserError(f"{folder} is damaged. Delete {folder.parent}: it is then made anew.")


def _map(path: Path, dtype: np.dtype) -> np.ndarray:
    if not path.stat().st_size:  # nothing cannot be mapped
        return np.empty(0, dtype)
    # A plain array over the same memory: np.memmap's own indexing is several times slower.
    return np.asarray(np.memmap(path, dtype, mode="r"))


def encode_source(tokenizer: Tokenizer, line: str) -> list[int]:
    """What an encoder reads for `line`: its ids and `<end>`."""
    return [*tokenizer.encode(line), end_of(tokenizer)]


def encode_target(tokenizer: Tokenizer, line: str) -> list[int]:
    """What a decoder must write for `line`: its ids and `<end>`."""
    return [*tokenizer.encode(line), end_of(tokenizer)]


def end_of(tokenizer: Tokenizer) -> int:
    """The id of `<end>`. Raises `UserError` for a tokenizer that has none."""
    if tokenizer.end_id is None:
        raise UserError("the given tokenizer has no <end>, which a sentence pair needs.")
    return tokenizer.end_id


def encode_lines(tokenizer: Tokenizer, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(ids of all lines in a row, ids of each line (int64)); a line of any length."""
    parts: list[str] = []
    firsts = []  # the number of each line's first part
    for line in lines:
        firsts.append(len(parts))
        if len(line) <= _LONG_LINE:
            parts.append(line)
        else:
            blocks, rest = tokenizer.split_safely(line)
            parts += [*blocks, rest]
    ids, lengths = tokenizer.encode_many(parts)
    if not firsts:
        return ids, lengths
    return ids, np.add.reduceat(lengths, firsts)


class PairWriter:
    """Encodes the pairs of a split into the files of a folder, a batch at a time."""

    def __init__(self, folder: Path, source: Tokenizer, target: Tokenizer) -> None:
        folder.mkdir(parents=True)
        self._folder, self._tokenizers = folder, (source, target)
        self._ends = end_of(source), end_of(target)
        self._lines: tuple[list[str], list[str]] = ([], [])
        self._waiting = 0  # characters
        names = [f"{side}.{what}" for side in _SIDES for what in ("tokens", "offsets")]
        self._files: dict[str, IO[bytes]] = {
            name: open(folder / name, "wb")  # noqa: SIM115 (closed by `close`)
            for name in (*names, *_SIZES)
        }
        self._n_tokens = [0, 0]
        self.counts = [np.zeros(one.vocab_size, dtype=np.int64) for one in self._tokenizers]
        self.n_pairs = 0
        for side in _SIDES:
            self._files[f"{side}.offsets"].write(np.zeros(1, dtype=np.int64).tobytes())

    def add(self, source: str, target: str) -> None:
        """Take the next pair."""
        self._lines[0].append(source)
        self._lines[1].append(target)
        self.n_pairs += 1
        self._waiting += len(source) + len(target)
        if self._waiting >= _BATCH_CHARACTERS:
            self._flush()

    def finish(self) -> None:
        """Encode what is left, and write what `PairStore.open` needs."""
        self._flush()
        self.close()
        about = {
            side: {"dtype": np.dtype(tokenizer.id_type).name}
            for side, tokenizer in zip(_SIDES, self._tokenizers, strict=True)
        }
        whole = about | {"source_end_id": self._ends[0], "end_id": self._ends[1]}
        (self._folder / "about.json").write_text(json.dumps(whole), encoding="utf-8")
        for side, counts in zip(_SIDES, self.counts, strict=True):
            np.save(self._folder / f"{side}.counts.npy", counts, allow_pickle=False)

    def close(self) -> None:
        """Close the files, finished or not."""
        for file in self._files.values():
            file.close()

    def _flush(self) -> None:
        for side, name in enumerate(_SIDES):
            ids, lengths = encode_lines(self._tokenizers[side], self._lines[side])
            self._files[f"{name}.tokens"].write(ids.tobytes())
            offsets = self._n_tokens[side] + np.cumsum(lengths)
            self._files[f"{name}.offsets"].write(offsets.astype(np.int64).tobytes())
            self._n_tokens[side] += len(ids)
            self.counts[side] += np.bincount(ids, minlength=len(self.counts[side]))
        for name, sizes in zip(_SIZES, _sizes(self._lines[1]), strict=True):
            self._files[name].write(sizes.tobytes())
        self._lines, self._waiting = ([], []), 0


def _sizes(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(UTF-8 bytes, characters) of each line, int64."""
    n_bytes = np.array([len(line.encode()) for line in lines], dtype=np.int64)
    return n_bytes, np.array([len(line) for line in lines], dtype=np.int64)


def store_from_pairs(
    pairs: Iterable[tuple[str, str]],
    tokenizer: Tokenizer,
    source_tokenizer: Tokenizer | None = None,
) -> PairStore:
    """A store in memory. source_tokenizer: None where the vocabulary is joint."""
    source_tokenizer = source_tokenizer or tokenizer
    both = list(pairs)
    source, target = (
        _lines_of(encoder, [pair[side] for pair in both])
        for side, encoder in enumerate((source_tokenizer, tokenizer))
    )
    n_bytes, n_characters = _sizes([line for _, line in both])
    end_id, source_end_id = end_of(tokenizer), end_of(source_tokenizer)
    return PairStore(source, target, n_bytes, n_characters, end_id, source_end_id)


def _lines_of(tokenizer: Tokenizer, lines: Sequence[str]) -> TokenLines:
    ids, lengths = encode_lines(tokenizer, lines)
    ids.setflags(write=False)
    return TokenLines(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
