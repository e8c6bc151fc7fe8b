"""What a corpus is made of: which files, split how, held out where."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.documents import HOWS, Piece, read_documents
from budgerigar.text.holdout import Contents, Holdout, hold_out, route, survey
from budgerigar.text.proposing import explain_split
from budgerigar.text.reading import detect_encoding
from budgerigar.text.store import end_id_of
from budgerigar.text.tokenizer import Tokenizer

_FORMAT = 1  # of what is cached: a change makes everything anew
_RECORD_FILES = {".jsonl", ".ndjson"}


def expand(files: str | Path | Sequence[str | Path]) -> list[Path]:
    """Files as given, folders as all files in them, in order of name; hidden ones left out."""
    given = [files] if isinstance(files, str | Path) else list(files)
    found: list[Path] = []
    for path in map(Path, given):
        if not path.exists():
            raise UserError(f"{path}: there is no such file. Is the path right?")
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(
            file
            for file in path.rglob("*")
            if file.is_file()
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        )
        if not inside:
            raise UserError(f"{path} holds no files. Put the text into it, or name another folder.")
        found += inside
    if not found:
        raise UserError("no file to read was named.")
    return found


def how_to_split(
    paths: Sequence[Path], documents: str, encoding: str | None, tokenizer: Tokenizer | None
) -> tuple[str, str]:
    """(one of `documents.HOWS`, why). `tokenizer`: the given one, which may know no `<end>`."""
    if documents != "auto":
        if documents not in HOWS:
            choices = ", ".join(HOWS)
            raise UserError(
                f"--documents {documents}: no such way. Choose auto or one of {choices}."
            )
        if documents != "none" and tokenizer is not None and end_id_of(tokenizer) is None:
            raise UserError(
                f"--documents {documents} needs a tokenizer with <end>, and the given one has none. "
                "Use --documents none."
            )
        return documents, "as asked"
    if tokenizer is not None and end_id_of(tokenizer) is None:
        return "none", "because the given tokenizer has no <end>"
    if all(path.suffix.lower() in _RECORD_FILES for path in paths):
        return "json-lines", "by the name of the file"
    if len(paths) > 1:
        return "files", "each file is one"
    how, why = explain_split(paths[0], encoding)
    return how, f"because {why}"


def hash_files(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """path, sha256 and bytes of each file."""
    sources = []
    with progress.track(
        "hashing", total=sum(path.stat().st_size for path in paths), unit="B"
    ) as job:
        for path in paths:
            sha = hashlib.sha256()
            n_bytes = 0
            try:
                with open(path, "rb") as file:
                    while block := file.read(1 << 22):
                        sha.update(block)
                        n_bytes += len(block)
                        job.advance(len(block))
            except OSError as error:
                raise UserError(f"{path} cannot be read: {error.strerror}.") from None
            sources.append(
                {"path": str(path.resolve()), "sha256": sha.hexdigest(), "bytes": n_bytes}
            )
    return sources


def digest(values: Sequence[object]) -> str:
    """SHA-256 of JSON-able values, hexadecimal."""
    return hashlib.sha256(json.dumps(list(values)).encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """The files to read and how they are split: all that decides the tokens but the tokenizer."""

    paths: list[Path]
    validation_paths: list[Path]
    how: str
    encoding: str | None
    fraction: float
    sources: list[dict[str, Any]]

    @property
    def with_documents(self) -> bool:
        return self.how != "none"

    @property
    def name(self) -> str:
        """What to call the text in a message."""
        return (
            str(self.paths[0]) if len(self.paths) == 1 else f"the text of {len(self.paths)} files"
        )

    def key(self, *more: object) -> str:
        """Hash of the texts, of how they are split, and of `more`."""
        hashes = [source["sha256"] for source in self.sources]
        split = [len(self.paths), self.how, self.encoding, self.fraction]
        return digest([_FORMAT, hashes, split, *more])

    @cached_property
    def contents(self) -> Contents:
        """What one pass over the text finds. Raises `UserError` if nothing can be learnt from it."""
        found = survey(self._pieces("reading"), self.with_documents)
        if found.n_characters == 0:
            raise UserError(f"{self.name} is empty: there is nothing to learn from.")
        if not len(found.lengths):
            raise UserError(
                f"{self.name} holds no document, only blank lines. Use --documents none to learn "
                "from these."
            )
        if not self.with_documents and found.n_characters == 1:
            raise UserError(
                f"{self.name} is a single character: there is nothing to predict. Two are the least."
            )
        return found

    @cached_property
    def holdout(self) -> Holdout | None:
        """The part held out; None where files for validation are given, or the text is too short."""
        return None if self.validation_paths else hold_out(self.contents, self.fraction)

    def sides(self, what: str, holdout: Holdout | None) -> Iterator[tuple[bool, Piece]]:
        """(is held out, piece), of the text and then of the files to validate with."""
        assert self.contents.n_characters > 0
        if holdout is None:
            yield from ((False, piece) for piece in self._pieces(what))
        else:
            yield from route(self._pieces(what), holdout, self.with_documents)
        for piece in read_documents(self.validation_paths, self.how, self.encoding):
            yield True, piece

    def describe_text(self) -> str:
        """A note: which text, how large, in which encoding."""
        n_bytes = sum(source["bytes"] for source in self.sources[: len(self.paths)])
        detected = detect_encoding(self.paths[0], self.encoding)
        return (
            f"text: {self.name}, {n_bytes:,} bytes, read as {detected.encoding} ({detected.reason})"
        )

    def _pieces(self, what: str) -> Iterator[Piece]:
        """The pieces of the text, with progress."""
        total = sum(source["bytes"] for source in self.sources[: len(self.paths)])
        with progress.track(what, total=total, unit="B") as job:
            yield from read_documents(self.paths, self.how, self.encoding, job.advance)
