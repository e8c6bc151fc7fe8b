"""`train`: a text in, a run out. The recipe, the plan and the loop live in the room `training`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.api.model import Model
from budgerigar.training.recipe import Recipe, load_recipe, override

if TYPE_CHECKING:
    from budgerigar.training.run import TrainedRun


@dataclass(frozen=True)
class Run:
    """A finished (or stopped) training run."""

    model: Model
    report: Any
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
    text: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] = (),
) -> Run:
    """Train on text files (or a folder, or a corpus of the catalogue) and return the run.

    Each overrides the one before: `recipe`, the `config` file, the settings in `text`, `model`
    and `training` (by the names of the recipe's parts). Without a recipe the plan is made from
    the text, this machine's speed and `minutes` (default 10). `resume` goes on with a run;
    `start_from` begins with another run's weights.

    Raises:
        UserError: nothing to learn from, an unreadable file, settings without meaning.
    """
    from budgerigar.training.run import train as train_run

    changes = {"text": text, "model": model, "training": training}
    settings = {part: dict(values) for part, values in changes.items() if values}
    done: TrainedRun = train_run(
        _resolve(recipe, config, settings),
        files=[Path(file) for file in files],
        corpus=corpus,
        out=None if out is None else Path(out),
        minutes=minutes,
        resume=resume,
        start_from=start_from,
        callbacks=callbacks,
    )
    return Run(_model_of(done), done.report, done.folder)


def _resolve(
    recipe: str | Path | Recipe | None, config: str | Path | None, settings: Mapping[str, Any]
) -> Recipe | None:
    """Recipe < config file < settings; None when nothing at all was asked for."""
    if recipe is None and config is None and not settings:
        return None
    base = recipe if isinstance(recipe, Recipe) else load_recipe(recipe) if recipe else Recipe()
    return override(base, config, settings or None)


def _model_of(done: TrainedRun) -> Model:
    from budgerigar.formats.run import RunFolder

    run = RunFolder.open(done.folder)
    return Model(done.network, done.tokenizer, run.config(), run.recipe(), done.folder)
