"""`train`: a text in, a run out. The recipe, the plan and the loop live in the room `training`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.api.data import get
from budgerigar.api.model import Model
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

    Each overrides the one before: `recipe`, the `config` file, the settings. A setting is any field
    of a recipe, by its name (`train("my.txt", n_layers=6)`) or in parts (`settings={"training":
    {"steps": 100}}`). Without a recipe the plan is made from the text, this machine's speed and
    `minutes` (default 10). `resume` goes on with a run; `start_from` begins with another's weights.

    Raises:
        UserError: nothing to learn from, an unreadable file, settings without meaning.
    """
    from budgerigar.training.run import train as train_run

    if resume is not None:
        changes = {**flat(settings), **more_settings}
        if minutes is not None:
            changes["minutes"] = minutes
        return _run_of(train_run(resume=resume, settings=changes, callbacks=callbacks))
    layers = [layer for layer in (settings, more_settings) if layer]
    if corpus == "stories" and recipe is None:
        recipe = "stories"
    base = _resolve(recipe, config, layers, corpus)
    paths = [_path(file) for file in files]
    if corpus is not None and base is None:
        paths = list(get(corpus).files.values())
    done = train_run(
        base,
        paths,
        out=out,
        minutes=minutes,
        settings=_nested(layers),
        start_from=start_from,
        callbacks=callbacks,
    )
    return _run_of(done)


def _path(file: object) -> Path:
    if not isinstance(file, str | PathLike) or not str(file).strip():
        raise UserError(f"{file!r} names no file. Give the path of a text, or of a folder of them.")
    return Path(file)


def _resolve(
    recipe: str | Path | Recipe | None,
    config: str | Path | None,
    layers: Sequence[Mapping[str, Any]],
    corpus: str | None,
) -> Recipe | None:
    """Recipe < config file < settings; None where the plan is to be made from the text."""
    if recipe is None and config is None:
        return None
    base = recipe if isinstance(recipe, Recipe) else load_recipe(recipe) if recipe else Recipe()
    chosen = {"text": {"corpus": corpus}} if corpus else None
    return override(base, config, *layers, chosen)


def _nested(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
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
    model = Model(done.network, done.tokenizer, run.config(), run.recipe(), done.folder)
    return Run(model, done.report, done.folder)
