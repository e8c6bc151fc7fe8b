"""`budgie explore --site DIR`: the page about some models and sentences as files for any web server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.explorer.lessons import LANGUAGES, lesson, sentences, tours
from budgerigar.explorer.opening import load_models
from budgerigar.inspection.export import SitePage, write_site
from budgerigar.inspection.views import Look, look_at
from budgerigar.inspection.views.look import kind_of

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
    told = tours(own_tours)
    looks = looks_at(load_models(runs, device, threads), texts, told)
    files = {"tours.json": json.dumps({"tours": told}, ensure_ascii=False), **_doors()}
    return write_site(
        folder, [SitePage("index", TITLE, looks, blocks={"tours": "tours.json"})], files
    )


def _doors() -> dict[str, str]:
    """lesson-3-zh.html and its like: each page of the lesson has an address that can be linked to."""
    return {
        f"lesson-{number}-{language}.html": _DOOR.format(
            language=language,
            title=escape(page["title"]),
            target=f"index.html#view=lesson&amp;language={language}&amp;v.page={number}",
        )
        for language in LANGUAGES
        for number, page in enumerate(lesson(language), 1)
    }


_DOOR = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={target}">
<title>{title}</title>
<p><a href="{target}">{title}</a></p>
</html>
"""


TITLE = "Budgerigar: look inside"


def looks_at(
    models: Mapping[str, Model],
    texts: Sequence[str] = (),
    told: Sequence[Mapping[str, Any]] | None = None,
) -> list[Look]:
    """A look of each model at each text; without texts, at the sentences of `told` for its kind.

    told: tours (none given: the lesson).

    Of the tours' sentences, those that a model cannot read (too long for it) are left out and named.
    """
    found = []
    with progress.track("reading", total=len(models), unit="models") as job:
        for name, model in models.items():
            for question in _questions(model, texts, tours() if told is None else told):
                look = look_at(model, {"model": name, **question})
                try:
                    look.trace  # noqa: B018
                except UserError as error:
                    if texts:
                        raise
                    progress.note(f"{name}: a sentence of the lesson is left out: {error}")
                else:
                    found.append(look)
            job.advance()
    return found


def _questions(
    model: Model, texts: Sequence[str], told: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    pair, kind = model.translates, kind_of(model.network)
    usual = SENTENCES["pair" if pair else "encoder" if kind == "encoder" else "text"]
    for text in texts or dict.fromkeys([*usual, *sentences(told, kind)]):
        yield {"source": text, "target": None} if pair else {"text": text}
