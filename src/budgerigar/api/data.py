"""The catalogue: get a corpus or a model, check a file, list what there is. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.text.catalogue import FetchedCorpus
    from budgerigar.text.check import Report
    from budgerigar.text.model_catalogue import FetchedModel


def get(name: str) -> FetchedCorpus | FetchedModel:
    """Fetch a corpus or a model of the catalogue into the cache, or find it there; verified by SHA-256.

    Raises:
        UserError: unknown name (the nearest is named), no network, wrong checksum.
    """
    from budgerigar.text.catalogue import catalogue, fetch
    from budgerigar.text.model_catalogue import fetch_model, models, note_licence

    if name in models():
        note_licence(models()[name])
        return fetch_model(name)
    if name not in catalogue():
        raise UserError(_unknown(name, [*catalogue(), *models()]))
    return fetch(name)


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"the catalogue has no {name!r}.{hint} It has: {', '.join(known)}."


def check(
    files: Sequence[str | Path], *, pairs: bool = False, encoding: str | None = None
) -> Report:
    """What files are like before training on them; `pairs`: a source and a target file."""
    from budgerigar.text.check import check_files

    return check_files([Path(file) for file in files], pairs=pairs, encoding=encoding)


def listing() -> dict[str, dict[str, Any]]:
    """Corpora, models, recipes, papers' shapes and runs: name -> what there is to say about it."""
    from budgerigar.models.papers import papers
    from budgerigar.text.catalogue import catalogue
    from budgerigar.text.model_catalogue import models
    from budgerigar.training.recipe import load_recipe, recipe_names

    return {
        "corpora": {name: vars(entry) for name, entry in catalogue().items()},
        "models": {
            name: {**vars(entry), "n_bytes": entry.n_bytes} for name, entry in models().items()
        },
        "recipes": {name: {"about": load_recipe(name).about} for name in recipe_names()},
        "papers": {name: {"about": about} for name, about in papers().items()},
        "runs": {path.name: {"folder": path} for path in runs()},
    }


def runs() -> list[Path]:
    """Run folders under runs/, the newest first."""
    found = [path.parent for path in Path("runs").glob("*/config.json")]
    return sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True)
