"""`budgie explore --site DIR`: the page about some models and sentences as files for any web server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.explorer.lessons import tours
from budgerigar.explorer.opening import load_models
from budgerigar.inspection.export import SitePage, write_site
from budgerigar.inspection.views import Look, can, look_at

if TYPE_CHECKING:
    from budgerigar.api import Model

SENTENCES = {
    "text": ["Xuanyuan had a budgerigar when he was young . It had green feathers ."],
    "pair": ["轩辕有一只虎皮鹦鹉。"],
    "encoder": [
        "The animal did not cross the street because it was too tired.",
        "The animal did not cross the street because it was too wide.",
    ],
}
"""What models are asked about where no text is given: the lesson's sentences."""


def site(
    folder: str | Path,
    runs: Sequence[str] = (),
    texts: Sequence[str] = (),
    *,
    own_tours: Sequence[str | Path] = (),
    device: str = "auto",
    threads: int | str | None = None,
) -> Path:
    """Write the page about `runs` (none: the demo's models) and `texts` into a new folder.

    The lesson is on it, and the reader's `own_tours`.

    Raises:
        UserError: the folder exists, a model is not there, or a text does not fit it.
    """
    if Path(folder).exists():  # before minutes are spent on it
        raise UserError(f"{folder} exists already; choose another folder or remove it")
    told = {"tours.json": json.dumps({"tours": tours(own_tours)}, ensure_ascii=False)}
    looks = looks_at(load_models(runs, device, threads), texts)
    return write_site(
        folder, [SitePage("index", TITLE, looks, blocks={"tours": "tours.json"})], told
    )


TITLE = "Budgerigar: look inside"


def looks_at(models: Mapping[str, Model], texts: Sequence[str] = ()) -> list[Look]:
    """A look of each model at each text; without texts, at sentences that fit it."""
    found = []
    with progress.track("reading", total=len(models), unit="models") as job:
        for name, model in models.items():
            for question in _questions(model, texts):
                found.append(look_at(model, {"model": name, **question}))
            job.advance()
    return found


def _questions(model: Model, texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    pair = model.translates
    kind = "pair" if pair else "encoder" if "mask_out" in can(model) else "text"
    for text in texts or SENTENCES[kind]:
        yield {"source": text, "target": None} if pair else {"text": text}
