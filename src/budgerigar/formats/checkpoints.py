"""Checkpoints: all that training needs to go on as if it had never stopped.

checkpoints/step-00001000/weights.safetensors   the network's weights at that step
                          training.safetensors  optimizer, averages, generator states
                          state.json            step, data cursor, best loss, patience, versions
checkpoints/latest                              the name of the newest whole folder

A checkpoint is written under another name, fsynced and renamed; only then `latest` is replaced, and
only then old ones are removed. Whenever a process dies, `latest` names a whole checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.adapters import ADAPTERS, WEIGHTS
from budgerigar.formats.atomic import folder_aside, sweep_partials, write_text
from budgerigar.formats.tensors import read_tensors, write_tensors


@dataclass
class Checkpoint:
    """One moment of a training run, on the CPU."""

    step: int
    state: dict[str, Any]
    weights: dict[str, Tensor]
    training: dict[str, Tensor]


def checkpoint_name(step: int) -> str:
    """The folder's name of a step; sorts by step."""
    return f"step-{step:08d}"


def write_checkpoint(
    folder: Path,
    step: int,
    state: dict[str, Any],
    weights: Mapping[str, Tensor],
    training: Mapping[str, Tensor],
    keep: int = 2,
) -> Path:
    """Write the checkpoint of `step` into `folder`/checkpoints and drop all but the newest `keep`.

    Raises:
        UserError: the disk refuses; the checkpoints before are untouched.
    """
    checkpoints = Path(folder) / "checkpoints"
    target = checkpoints / checkpoint_name(step)
    doing = f"write the checkpoint of step {step} into {checkpoints}"
    with folder_aside(target, doing) as aside:
        write_tensors(aside / "weights.safetensors", weights)
        write_tensors(aside / "training.safetensors", training)
        text = json.dumps({"step": step, **state}, indent=1) + "\n"
        (aside / "state.json").write_text(text, encoding="utf-8")
    write_text(checkpoints / "latest", target.name + "\n")
    for old in sorted(checkpoints.glob("step-*"))[:-keep]:
        if old != target:
            shutil.rmtree(old, ignore_errors=True)
    return target


def keep_trunk(folder: Path, step: int) -> Path:
    """Keep the checkpoint of `step` for good as `checkpoints/trunk-…`, for longer runs to branch from.

    With it go metrics.jsonl and the best weights of that moment. A trunk of an earlier step stays: it
    is the one whose learning rate had never fallen.
    """
    checkpoints = Path(folder) / "checkpoints"
    target = checkpoints / checkpoint_name(step).replace("step", "trunk")
    kept = trunk_checkpoint(folder)
    if kept is not None and kept.name < target.name:
        return kept
    with folder_aside(target, f"keep the checkpoint of step {step} in {checkpoints}") as aside:
        for file in (checkpoints / checkpoint_name(step)).iterdir():
            shutil.copyfile(file, aside / file.name)
        for name in ("metrics.jsonl", WEIGHTS, ADAPTERS):
            if (Path(folder) / name).is_file():
                shutil.copyfile(Path(folder) / name, aside / name)
    for other in checkpoints.glob("trunk-*"):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)
    return target


def trunk_checkpoint(folder: Path) -> Path | None:
    """The folder that `keep_trunk` made; None where there is none."""
    found = sorted((Path(folder) / "checkpoints").glob("trunk-*"))
    return next((path for path in found if (path / "state.json").is_file()), None)


def latest_checkpoint(folder: Path) -> Path | None:
    """The folder that `latest` names; None when the run has none yet.

    Raises:
        UserError: there should be one, but somebody removed it.
    """
    checkpoints = Path(folder) / "checkpoints"
    pointer = checkpoints / "latest"
    if not pointer.is_file():
        return None
    named = pointer.read_text(encoding="utf-8").strip()
    # Written anew at the same step, a folder is gone for a moment; the one before will do then.
    whole = [p for p in checkpoints.glob("step-*") if (p / "state.json").is_file()]
    usable = sorted(p for p in whole if p.name <= named)
    if not usable:
        raise UserError(
            f"{pointer} names {named}, which is not there or not whole, nor is one before it. "
            f"Delete {checkpoints} to start this run again."
        )
    return usable[-1]


def checkpoint_names(folder: Path) -> list[str]:
    """The whole checkpoints of a run that are there now, the earliest first ("step-00001000", …)."""
    return sorted(
        path.name
        for path in (Path(folder) / "checkpoints").glob("step-*")
        if (path / "weights.safetensors").is_file() and (path / "state.json").is_file()
    )


def read_checkpoint(path: Path) -> Checkpoint:
    """Read one checkpoint folder."""
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path / 'state.json'} cannot be read: {error}") from error
    if not isinstance(state, dict) or not isinstance(state.get("step"), int):
        raise UserError(
            f"{path / 'state.json'} does not say which step it is of; it is damaged. Delete {path} "
            "to go on from the checkpoint before it."
        )
    weights = read_tensors(path / "weights.safetensors")
    return Checkpoint(state["step"], state, weights, read_tensors(path / "training.safetensors"))


def read_latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint of a run, or None; sweeps up what a kill left half-written."""
    checkpoints = Path(folder) / "checkpoints"
    sweep_partials(checkpoints)
    path = latest_checkpoint(folder)
    return None if path is None else read_checkpoint(path)
