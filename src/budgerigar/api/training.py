"""`train`: a text, or pairs of sentences, in, a run out.

The recipe, the plan and the loop live in the room `training`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.api.data import get
from budgerigar.api.model import Model
from budgerigar.api.translation import Files, several
from budgerigar.api.vectors import model_of
from budgerigar.errors import UserError
from budgerigar.training.recipe import Recipe, flat, load_recipe, override

if TYPE_CHECKING:
    from budgerigar.training.run import TrainedRun


@dataclass(frozen=True)
class Run:
    """A finished (or stopped) training run."""

    model: Model
    report: Any = field(repr=False)
    folder: Path


def train(
    *files: str | Path,
    source: Files = (),
    target: Files = (),
    pairs: Files = (),
    validation_source: Files = (),
    validation_target: Files = (),
    validation_pairs: Files = (),
    recipe: str | Path | Recipe | None = None,
    minutes: float | None = None,
    corpus: str | None = None,
    config: str | Path | None = None,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    start_from: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] = (),
    **more_settings: Any,
) -> Run:
    """Train on text files (or a folder, or a corpus of the catalogue) and return the run.

    `source` and `target`, parallel files (line n is a translation of line n), or `pairs`, files of
    pairs (tab-separated or JSON lines), make a translator; so does a corpus of pairs, with the
    settings source_language and target_language where it has several.

    Each overrides the one before: `recipe`, the `config` file, the settings: any field of a recipe,
    by its name (`train("my.txt", n_layers=6)`) or in parts (`settings={"training": {"steps": 9}}`).
    Without a recipe the plan is made from the text, this machine's speed and `minutes` (default
    10). `resume` goes on with a run (with `out` and a number of steps: from where its rate began to
    fall, in a new folder); `start_from` begins with another's weights.

    Raises:
        UserError: nothing to learn from, an unreadable file, settings without meaning.
    """
    from budgerigar.training.run import train as train_run

    layers = [layer for layer in (settings, more_settings) if layer]
    if resume is not None:
        return _resumed(resume, out, minutes, flat(nested(layers)), callbacks)
    pairs_given = bool(source or target or pairs)
    base = resolve(recipe or _recipe_of(corpus, layers), config, layers, corpus, pairs_given)
    paths, chosen = _of_catalogue(corpus) if corpus and base is None else (paths_of(files), [])
    done = train_run(
        base,
        paths,
        source=paths_of(source),
        target=paths_of(target),
        pairs=paths_of(pairs),
        validation_source=paths_of(validation_source),
        validation_target=paths_of(validation_target),
        validation_pairs=paths_of(validation_pairs),
        out=out,
        minutes=minutes,
        settings=nested([*layers, *chosen]),
        start_from=start_from,
        callbacks=callbacks,
    )
    return _run_of(done)


def _resumed(
    run: str | Path,
    out: str | Path | None,
    minutes: float | None,
    changes: dict[str, Any],
    callbacks: Sequence[Any],
) -> Run:
    from budgerigar.training.run import train as train_run

    if minutes is not None:
        changes["minutes"] = minutes
    aside: dict[str, Any] = {} if out is None else {"out": out}
    return _run_of(train_run(resume=run, settings=changes, callbacks=callbacks, **aside))


def _recipe_of(corpus: str | None, layers: Sequence[Mapping[str, Any]]) -> str | None:
    """The recipe that generated text has of itself: of pairs where a language of these is named."""
    if corpus != "stories":
        return None
    languages = {"source_language", "target_language"} & set(flat(nested(layers)))
    return "stories-zh-en" if languages else "stories"


def paths_of(files: Files) -> list[Path]:
    return [_path(file) for file in several(files)]


def _of_catalogue(corpus: str) -> tuple[list[Path], list[dict[str, Any]]]:
    """(files to learn from, settings that name them) of a corpus: a text's or sentence pairs'."""
    from budgerigar.text.catalogue import entry

    if entry(corpus).kind == "pairs":
        return [], [{"text": {"corpus": corpus}}]
    return list(get(corpus).files.values()), []


def _path(file: object) -> Path:
    if not isinstance(file, str | PathLike) or not str(file).strip():
        raise UserError(f"{file!r} names no file. Give the path of a text, or of a folder of them.")
    return Path(file)


def resolve(
    recipe: str | Path | Recipe | None,
    config: str | Path | None,
    layers: Sequence[Mapping[str, Any]],
    corpus: str | None,
    pairs_given: bool,
) -> Recipe | None:
    """Recipe < config file < settings; None where the plan is to be made from the text."""
    from budgerigar.training.pair_corpora import for_other_pairs

    if recipe is None and config is None:
        return None
    base = recipe if isinstance(recipe, Recipe) else load_recipe(recipe) if recipe else Recipe()
    base = for_other_pairs(base, pairs_given, corpus)
    chosen = {"text": {"corpus": corpus}} if corpus else None
    return override(base, config, *layers, chosen)


def nested(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """All settings as one mapping for the plan; later ones win."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if isinstance(value, Mapping):
                merged[name] = {**merged.get(name, {}), **value}
            else:
                merged[name] = value
    return merged or None


def _run_of(done: TrainedRun) -> Run:
    from budgerigar.formats.run import RunFolder

    run = RunFolder.open(done.folder)
    model = model_of(done, run.config(), run.recipe())
    return Run(model, done.report, done.folder)
