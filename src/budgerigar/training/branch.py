"""Runs of several lengths from one start: branching off where the learning rate begins to fall.

With the schedule warmup-stable-decay, runs of any length are the same run until then. A run keeps the
checkpoint of that moment (its trunk), and a longer one goes on from there in a folder of its own, as
if it had been asked for its number of steps from the start.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.adapters import ADAPTERS, WEIGHTS
from budgerigar.formats.atomic import disk_errors, write_text
from budgerigar.formats.checkpoints import checkpoint_name, read_checkpoint, trunk_checkpoint
from budgerigar.formats.run import RunFolder, load_tokenizers
from budgerigar.training.recipe import Recipe, recipe_from_dict, to_toml
from budgerigar.training.schedules import decay_start


def branch_off(
    path: Path, out: Path, minutes: float | None, settings: Mapping[str, Any] | None
) -> tuple[Path, dict[str, Any]]:
    """Make `out` a run that stands where the run at `path` began to decay, and asks for more steps.

    Args:
        minutes: length of the whole run, the shared start included, at the pace that the run had.
        settings: `steps` (or `minutes`), and whatever may change when a run goes on.

    Returns:
        The new folder, to be resumed, and the settings that are left to apply there.

    Raises:
        UserError: there is no trunk, or the length asked for would have decayed before it.
    """
    changes = {name: value for name, value in (settings or {}).items() if value is not None}
    asked_minutes = changes.pop("minutes", None)
    minutes = asked_minutes if minutes is None else minutes
    steps = changes.pop("steps", None)
    run = RunFolder.open(path)
    stored = run.recipe()
    trunk = trunk_checkpoint(path)
    if stored is None or trunk is None:
        raise UserError(
            f"{path} has no checkpoint to branch from: only a run with schedule warmup-stable-decay "
            "that has come to where its rate falls keeps one. Leave --out out to go on with it."
        )
    recipe = recipe_from_dict(stored, str(run.recipe_path))
    state = read_checkpoint(trunk).state
    if steps is None:
        steps = _steps_for(minutes, state)
    _check_length(recipe, int(steps), int(state["step"]), path)
    recipe = recipe.replace(training={"steps": int(steps), "minutes": minutes})
    _copy(run, trunk, out, recipe)
    progress.note(
        f"branching off {path} at step {state['step']:,}, where its rate begins to fall: "
        f"{int(steps):,} steps in all, in {out}"
    )
    return out, changes


def _steps_for(minutes: float | None, state: dict[str, Any]) -> int:
    """Steps that fit into `minutes` at the pace of the trunk, evaluations included."""
    if minutes is None:
        raise UserError(
            "--resume RUN --out NEW branches off into a run of another length: say which, with "
            "--steps or --minutes."
        )
    return max(int(60 * minutes / (state["seconds"] / state["step"])), 1)


def _check_length(recipe: Recipe, steps: int, trunk: int, path: Path) -> None:
    begins = decay_start(recipe.training, steps)
    if begins is None or begins < trunk:
        share = recipe.training.decay_fraction
        raise UserError(
            f"{path} stayed at its full rate for {trunk:,} steps; a run of {steps:,} would have "
            f"begun to lower it after {begins or 0:,}. Ask for at least "
            f"{round(trunk / (1 - share)) if share < 1 else trunk:,} steps, or start a new run."
        )


def _copy(run: RunFolder, trunk: Path, out: Path, recipe: Recipe) -> None:
    """The new folder: the run's, as it was at the trunk."""
    config = {**run.config(), "branched_from": str(run.path.resolve())}
    RunFolder.create(out, config, to_toml(recipe), *load_tokenizers(run.path))
    try:
        with disk_errors(f"copy the start of {run.path} into {out}"):
            _copy_state(trunk, Path(out))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # without its start it would be another run
        raise


def _copy_state(trunk: Path, out: Path) -> None:
    """The checkpoint as the latest, and metrics and best weights; its own trunk comes later."""
    name = checkpoint_name(int(trunk.name.split("-")[1]))
    target = out / "checkpoints" / name
    target.mkdir(parents=True)
    for file in trunk.iterdir():
        beside = file.name in ("metrics.jsonl", WEIGHTS, ADAPTERS)
        shutil.copyfile(file, (out if beside else target) / file.name)
    write_text(out / "checkpoints" / "latest", name + "\n")
