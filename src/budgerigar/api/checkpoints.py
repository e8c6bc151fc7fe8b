"""A run's model as it was at an earlier step, where that checkpoint is kept (`keep_checkpoints`)."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

from budgerigar.errors import UserError
from budgerigar.said import said

if TYPE_CHECKING:
    from budgerigar.api.model import Model


def checkpoints(model: Model) -> list[str]:
    """The checkpoints of the run that `model` was loaded from, the earliest first."""
    from budgerigar.formats.checkpoints import checkpoint_names

    return [] if model.folder is None else checkpoint_names(model.folder)


def at_checkpoint(model: Model, name: str) -> Model:
    """`model` with the weights that it had at a checkpoint ("step-00001000"); `model` stays as it is.

    They are those of that very step, also where the run's own are averages.

    Raises:
        UserError: there is no such checkpoint (the kept ones are named), or it is damaged: also one
            that holds values which are no numbers.
    """
    from budgerigar.formats.tensors import load_network_tensors, read_tensors

    kept = checkpoints(model)
    if model.folder is None or name not in kept:
        which = f"it has {', '.join(kept)}" if kept else "none is kept"
        raise UserError(f"{model.name} has no checkpoint {name!r}; {which}.")
    path = model.folder / "checkpoints" / name / "weights.safetensors"
    network = copy.deepcopy(model.network)
    tensors = read_tensors(path)
    load_network_tensors(network, tensors, path)
    wrong = [key for key, value in tensors.items() if not value.isfinite().all()]
    if wrong:
        raise UserError(
            said(
                "{path} holds values that are no finite numbers (in {name}): the training had gone "
                "astray by then, or the file is damaged",
                path=path,
                name=wrong[0],
            )
        )
    return dataclasses.replace(model, network=network)
