"""How far back the gradient of a prediction reaches: of one model, or of several on the same text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.api.checks import checked_text
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model
    from budgerigar.inspection.reach import Reach

TOKENS = 4096
"""Most tokens of a validation text that are measured on."""
_COMPARED = 2000  # characters whose tokens are compared


def reach(model: Model, text: str | None = None, **options: Any) -> Reach:
    """The gradient norms of predictions by distance; `text` None: the run's validation text.

    Options: see `inspection.reach.reach`.
    """
    from budgerigar.inspection.reach import reach as measure

    _refuse(model)
    text = validation_text(model) if text is None else checked_text(text)
    options.setdefault("name", "" if model.folder is None else model.folder.name)
    return measure(model.network, model.encode(text), **options)


def reaches(models: Sequence[Model], text: str | None = None, **options: Any) -> list[Reach]:
    """The same of several models on one text: the validation text of the first, unless given."""
    for model in models:  # before the first is measured
        _refuse(model)
    text = validation_text(models[0]) if text is None else checked_text(text)
    return [
        reach(model, text, name=name, **options)
        for model, name in zip(models, _names(models), strict=True)
    ]


def _refuse(model: Model) -> None:
    if model.translates or model.role != "text":
        what = "is an encoder-decoder" if model.translates else "holds word vectors"
        raise UserError(
            f"{model.name} {what}: how far back a prediction reaches is measured on models that "
            "continue a text (n-gram, feed-forward, recurrent, decoder-only)"
        )


def validation_text(model: Model) -> str:
    """The beginning of the text that a run kept back."""
    from budgerigar.api.evaluation import text_store

    tokens = text_store(model, None).tokens[:TOKENS]
    return str(model.tokenizer.decode([int(token) for token in tokens]))


def same_tokens(models: Sequence[Model], text: str | None = None) -> bool:
    """Whether all cut a text into the same tokens, so that their distances compare."""
    text = validation_text(models[0]) if text is None else text
    readers = [model.tokenizer for model in models]
    return len({tuple(one.pieces(list(one.encode(text[:_COMPARED])))) for one in readers}) == 1


def draw_reaches(found: Sequence[Reach], path: str | Path, about: str = "") -> Path:
    """All in one picture: PNG, SVG or PDF."""
    from budgerigar.inspection.plots import save
    from budgerigar.inspection.reach_plots import reach_figure

    svg = Path(path).suffix.lower() == ".svg"
    return save(reach_figure(found, about, svg), path)


def _names(models: Sequence[Model]) -> list[str]:
    """The folders' names, with their parents' where two are the same."""
    folders = [model.folder for model in models]
    short = ["" if folder is None else folder.name for folder in folders]
    return [
        str(folder) if folder is not None and short.count(name) > 1 else name
        for folder, name in zip(folders, short, strict=True)
    ]
