"""`budgie explore --site DIR`: the page about some models and sentences as files for any web server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.explorer.lessons import LANGUAGES, lesson, sentences, tours
from budgerigar.explorer.opening import load_models
from budgerigar.inspection.site_folder import SitePage, checked_folder, write_site
from budgerigar.inspection.views import Look, look_at
from budgerigar.inspection.views.look import kind_of, most_tokens

if TYPE_CHECKING:
    from budgerigar.api import Model

TITLE = "Budgerigar: look inside"
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
    """Write the page about `runs` (none: the demo's models) and `texts` into a folder.

    The lesson is on it, and the reader's `own_tours`. An older site in the folder is replaced.

    Raises:
        UserError: the folder holds something else, a model is not there, or a text does not fit it.
    """
    checked_folder(folder)  # before minutes are spent on it
    tours(own_tours)
    return site_of(folder, load_models(runs, device, threads), texts, own_tours=own_tours)


def site_of(
    folder: str | Path,
    models: Mapping[str, Model],
    texts: Sequence[str] = (),
    *,
    own_tours: Sequence[str | Path] = (),
) -> Path:
    """The same of models by name."""
    told = tours(own_tours)
    looks = looks_at(models, texts, told)
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
<link rel="icon" href="icon.svg">
<title>{title}</title>
<p><a href="{target}">{title}</a></p>
</html>
"""


def looks_at(
    models: Mapping[str, Model],
    texts: Sequence[str] = (),
    told: Sequence[Mapping[str, Any]] | None = None,
) -> list[Look]:
    """A look of each model at each text; without texts, at the sentences of `told` for its kind.

    told: tours (none given: the lesson).

    A model that cannot read one of their stories reads a shorter one, as on the page; where none is
    short enough, that is noted.
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
    asked = texts or [_fitting(model, text) for text in (*usual, *sentences(told, kind))]
    for text in dict.fromkeys(asked):
        yield {"source": text, "target": None} if pair else {"text": text}


def _fitting(model: Model, story: str) -> str:
    """The story, or the longest shorter one of which the model can read all, and one token more."""
    room = most_tokens(model.network)
    told = stories(story)
    return next((one for one in told if len(model.encode(one)) < room), story)


_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]*\s*|[.!?。！？]+\s*")


def stories(story: str) -> list[str]:
    """The story, then shorter ones, as the page's lesson makes them (`lesson_scene.js`): sentences are
    left out from the last but one backwards; its first and its last stay.
    """
    parts, found = _SENTENCE.findall(story), [story]
    while len(parts) > 2:
        del parts[-2]
        found.append("".join(parts))
    return found
