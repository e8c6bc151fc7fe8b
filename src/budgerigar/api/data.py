"""Corpora: get one of the catalogue, check a file, list what there is. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgerigar.text.catalogue import FetchedCorpus
    from budgerigar.text.check import Report


def get(name: str) -> FetchedCorpus:
    """Fetch a corpus of the catalogue into the cache, or find it there; verified by SHA-256.

    Raises:
        UserError: unknown name (the nearest is named), no network, wrong checksum.
    """
    from budgerigar.text.catalogue import fetch

    return fetch(name)


def check(
    files: Sequence[str | Path], *, pairs: bool = False, encoding: str | None = None
) -> Report:
    """What files are like before training on them; `pairs`: a source and a target file."""
    from budgerigar.text.check import check_files

    return check_files([Path(file) for file in files], pairs=pairs, encoding=encoding)


def listing() -> dict[str, dict[str, Any]]:
    """Corpora, recipes, papers' shapes and runs: name -> what there is to say about it."""
    from budgerigar.models.papers import papers
    from budgerigar.text.catalogue import catalogue
    from budgerigar.training.recipe import load_recipe, recipe_names

    return {
        "corpora": {name: vars(entry) for name, entry in catalogue().items()},
        "recipes": {name: {"about": load_recipe(name).about} for name in recipe_names()},
        "papers": {name: {"about": about} for name, about in papers().items()},
        "runs": {path.name: {"folder": path} for path in runs()},
    }


def runs() -> list[Path]:
    """Run folders under runs/, the newest first."""
    found = [path.parent for path in Path("runs").glob("*/config.json")]
    return sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True)
