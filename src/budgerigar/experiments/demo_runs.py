"""Runs of experiments: trained once, gone on with when stopped, loaded when finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class StoppedError(Exception):
    """The user stopped a part; its state is saved."""


def trained(
    recipe: Any,
    corpus: Any,
    folder: Path,
    callbacks: Sequence[Any] = (),
    minutes: float | None = None,
    given: Mapping[str, Any] | None = None,
) -> tuple[Any, bool]:
    """The trained run in `folder`, and whether anything was trained for it just now.

    `given`: the files that `corpus` was made of, as `train` takes them; none: it was generated.

    Raises:
        StoppedError: the user stopped it; its state is saved.
    """
    from budgerigar.training.run import TrainedRun, train

    standing = standing_of(folder)
    if standing is not None and standing.get("finished"):
        from budgerigar.formats.run import load_model

        loaded = load_model(folder)
        return TrainedRun(folder, loaded.network, loaded.tokenizer, dict(standing)), False
    if standing is not None:
        done = train(resume=folder, corpus=corpus, callbacks=callbacks)
    else:
        settings: dict[str, Any] = {"minutes": minutes, "callbacks": callbacks, **(given or {})}
        done = train(recipe, corpus=corpus, out=folder, **settings)
    if not done.report["finished"]:
        raise StoppedError(str(folder))
    return done, True


def standing_of(folder: Path) -> dict[str, Any] | None:
    """Where the run in `folder` stands; None where there is none."""
    if not (folder / "config.json").is_file():
        return None
    from budgerigar.formats.checkpoints import read_latest_checkpoint

    checkpoint = read_latest_checkpoint(folder)
    return {} if checkpoint is None else dict(checkpoint.state)
