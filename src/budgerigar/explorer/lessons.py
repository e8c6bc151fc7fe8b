"""The tours that a page can show, and the experiments that a reader starts from one.

The lesson is a tour of the package: `page/lesson/en/*.md` and `page/lesson/zh/*.md`, a file a page.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.explorer.files import page_folder
from budgerigar.explorer.jobs import Desk, Job
from budgerigar.explorer.tour import Blocks, parse_tour, read_tour
from budgerigar.inspection.views.look import reads_pairs
from budgerigar.inspection.views.params import View, text, whole
from budgerigar.inspection.views.payload import pack
from budgerigar.progress import Report

LESSON = "lesson"
LANGUAGES = ("en", "zh")
MOST_WAITING = 4
"""experiments that may wait; more are refused"""


@cache
def lesson(language: str) -> Blocks:
    """The lesson's pages in a language."""
    folder = page_folder() / "lesson" / language
    if not folder.is_dir():
        return []
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".md")), key=_name)
    return [
        page
        for file in files
        for page in parse_tour(file.read_text(encoding="utf-8"), f"lesson/{language}/{file.name}")
    ]


def _name(file: Any) -> str:
    return str(file.name)


def tours(own: Iterable[str | Path] = ()) -> list[dict[str, Any]]:
    """What the page reads: the reader's own tours first, then the lesson.

    [{"id": name, "languages": {"en": [PAGE], "zh": [PAGE]} or {"any": [PAGE]}}]
    PAGE: see `tour.parse_tour`.

    Raises:
        UserError: a file cannot be read or has a mistake, or two have one name.
    """
    found: list[dict[str, Any]] = []
    for path in own:
        name = Path(path).stem
        if name in (LESSON, *(tour["id"] for tour in found)):
            raise UserError(f"--tour {path}: there is a tour named {name!r} already; rename it")
        found.append({"id": name, "languages": {"any": read_tour(path)}})
    return [*found, {"id": LESSON, "languages": {n: p for n in LANGUAGES if (p := lesson(n))}}]


def sentences(told: Iterable[Mapping[str, Any]], kind: str) -> list[str]:
    """What the pages of some tours speak of to a model of this kind, each text once."""
    found: dict[str, None] = {}
    for tour in told:
        for page in (page for pages in tour["languages"].values() for page in pages):
            if page["model"] == ["any"] or kind in page["model"]:
                found |= dict.fromkeys(_spoken(page, reads_pairs(kind)))
    return [text for text in found if text]


def _spoken(page: Mapping[str, Any], pair: bool) -> list[str]:
    own = page["source"] or page["sentence"] if pair else page["sentence"]
    later = [block["rest"] for block in page["blocks"] if block["kind"] == "sentence"]
    return [own, *later]


class Whys:
    """Experiments of `budgie why`, run one after the other beside the models, each once."""

    def __init__(self) -> None:
        from budgerigar.experiments.why import MORE, PARTS

        parts = (*PARTS, *MORE)
        self._view = View(lambda: None, {"part": text(40), "seed": whole(0, 2**31 - 1, 1)})
        self._parts, self._lock = parts, threading.Lock()
        self.desk = Desk("the experiments")
        self._kept: dict[tuple[str, int], Job] = {}

    def job(self, params: Mapping[str, Any]) -> Job:
        """Whose answer is a WHY (see `why_told`); the same job for all who ask for the same one.

        Raises:
            UserError: no such part, a wrong parameter, or several wait already.
        """
        checked = self._view.checked("why", params)
        if checked["part"] not in self._parts:
            raise UserError(
                f"why: there is no part {checked['part']!r}; there are {', '.join(self._parts)}"
            )
        key = (checked["part"], checked["seed"])
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.stopped or (kept.answer.done() and kept.answer.exception()):
                ahead = [one for (one, _), job in self._kept.items() if _is_open(job)]
                self._kept[key] = kept = self.desk.quick(lambda: self._run(key), MOST_WAITING)
                if ahead:
                    kept.report = Report(f"waiting behind {', '.join(ahead)}", 0, None, "")
        return kept

    def _run(self, key: tuple[str, int]) -> bytes:
        """In the desk's thread, when its turn has come."""
        with self._lock:  # whoever asked for it has said what it waited for
            self._kept[key].report = None
        return _why(*key)

    def close(self) -> None:
        """Start no more."""
        self.desk.close()


def _is_open(job: Job) -> bool:
    return not (job.stopped or job.answer.done())


def _why(part: str, seed: int) -> bytes:
    from budgerigar.experiments.why import run
    from budgerigar.explorer.why_told import why_told

    return pack(why_told(run(part, seed, quiet=True)))
