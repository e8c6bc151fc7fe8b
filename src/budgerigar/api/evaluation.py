"""Evaluating a model on its own validation text, or on another file."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model
    from budgerigar.evaluation import Evaluation


def evaluate_model(
    model: Model, file: str | Path | None, *, streaming: bool, encoding: str | None = None
) -> Evaluation:
    """Score every token of a text but its first. `encoding` is the file's, if not UTF-8.

    Raises:
        UserError: the run's own text is no longer what it was trained on, or the file is unusable.
    """
    from budgerigar.evaluation import evaluate

    store = _file_store(model, Path(file), encoding) if file else _validation_store(model)
    return evaluate(model.network, store, streaming=streaming)


def _validation_store(model: Model) -> Any:
    """The validation part of the run's corpus, checked to be the one it was trained beside."""
    from budgerigar.training.corpora import files_of, gather_corpus, what_changed
    from budgerigar.training.recipe import recipe_from_dict

    if model.recipe is None or model.folder is None:
        raise UserError("this model came without a recipe: give a text file to evaluate it on")
    text = model.settings.get("text", {})
    recipe = recipe_from_dict(model.recipe, str(model.folder / "recipe.toml"))
    corpus = gather_corpus(recipe.text, files_of(text, model.folder), model.tokenizer)
    changed = what_changed(corpus, text)
    if changed:
        raise UserError(
            f"{changed} since {model.folder} was trained, so the text that it was validated on is "
            f"not to be had. Put the old text back, or name one: budgie evaluate {model.folder} FILE"
        )
    return corpus.validation


def _file_store(model: Model, file: Path, encoding: str | None) -> Any:
    """Another text as tokens, cut into documents as the model learnt to read them."""
    from budgerigar.text.documents import read_documents
    from budgerigar.text.store import StoreWriter, TokenStore

    how = (model.settings.get("text") or {}).get("documents", "none")
    if not file.is_file():
        raise UserError(f"there is no text file {file}")
    with TemporaryDirectory(prefix="budgie-") as folder:
        path = Path(folder) / "text.tokens"
        with closing(StoreWriter(path, model.tokenizer, how != "none")) as writer:
            for piece in read_documents([file], how, encoding):
                writer.add(piece)
            writer.finish()
        store = TokenStore.open(path)
        # The mapped file goes away with its folder.
        return dataclasses.replace(store, tokens=np.array(store.tokens), path=None)
