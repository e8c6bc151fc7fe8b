"""`load`: a `Model` from what is on the disk."""

from __future__ import annotations

from pathlib import Path

import torch

from budgerigar.api.model import Model
from budgerigar.api.vectors import model_of
from budgerigar.errors import UserError


def load(
    path: str | Path = "last", device: str = "auto", threads: int | str | None = None
) -> Model:
    """A model from a run's folder, its name under runs/, or "last" (the newest); or from a folder in
    the form of Hugging Face's hub (GPT-2, Llama and its likes, BERT, T5, Marian), a GGUF file or
    llama2.c's .bin; or a model by its name in the catalogue or on the hub, fetched if need be.

    Raises:
        UserError: there is none, or a file of it is missing, damaged or does not fit.
    """
    from budgerigar.formats.load import load_any

    if isinstance(threads, int):
        torch.set_num_threads(threads)
    loaded = load_any(path, device=choose_device(device))
    model = model_of(loaded, loaded.config, loaded.recipe)
    model.load_report = loaded.report
    return model


def choose_device(name: str) -> str:
    """`auto` is a CUDA device where there is one; any other name is checked."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"device {name!r} cannot be used here ({reason}); try cpu or auto"
        ) from None
    return name
