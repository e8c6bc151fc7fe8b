"""The tours that a page can show, and the experiments that a reader starts from one.

The lesson is a tour of the package: `page/lesson/en/*.md` and `page/lesson/zh/*.md`, a file a page.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.explorer.files import page_folder
from budgerigar.explorer.tour import Blocks, parse_tour, read_tour
from budgerigar.inspection.views.params import View, text, whole
from budgerigar.inspection.views.payload import pack

LESSON = "lesson"
LANGUAGES = ("en", "zh")
MOST_WAITING = 4


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
                found |= dict.fromkeys(_spoken(page, "encoder-decoder" in kind))
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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="why")
        self._kept: dict[tuple[str, int], Future[bytes]] = {}

    def submit(self, params: Mapping[str, Any]) -> Future[bytes]:
        """The payload to come: a WHY.

        WHY: {"part", "seed", "problem", "without": SIDE, "with": SIDE, "shows", "held", "verdict",
        "seconds", "bars": [{"title", "unit", "top", "rows": [[name, value, words]]}], "text": the
        whole result as a terminal shows it}; SIDE: {"what", "words"}

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
            if kept is not None and not (kept.done() and kept.exception()):
                return _copy(kept)
            if sum(not each.done() for each in self._kept.values()) >= MOST_WAITING:
                raise UserError("several experiments wait already; ask again when they are done")
            self._kept[key] = future = self._thread.submit(_why, *key)
        return _copy(future)

    def close(self) -> None:
        """Start no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _copy(kept: Future[bytes]) -> Future[bytes]:
    """A future of its own for each who asks: one of them going away cancels nobody else's."""
    own: Future[bytes] = Future()

    def tell(done: Future[bytes]) -> None:
        if not own.set_running_or_notify_cancel():
            return
        if done.cancelled():
            own.set_exception(UserError("the server is ending"))
        elif error := done.exception():
            own.set_exception(error)
        else:
            own.set_result(done.result())

    kept.add_done_callback(tell)
    return own


def _why(part: str, seed: int) -> bytes:
    from budgerigar.experiments.why import run
    from budgerigar.experiments.why.frame import Bars, number

    result = run(part, seed, quiet=True)
    sides = {"without": result.without, "with": result.with_part}
    drawn = [panel for panel in result.panels if isinstance(panel, Bars)]
    return pack(
        {
            "part": part,
            "seed": seed,
            **{name: {"what": side.what, "words": str(side)} for name, side in sides.items()},
            "problem": result.problem,
            "shows": result.shows,
            "held": result.held,
            "verdict": result.verdict,
            "seconds": result.seconds,
            "bars": [
                {
                    "title": panel.title,
                    "unit": panel.unit,
                    "top": panel.top or max((value for _, value in panel.rows), default=1.0) or 1.0,
                    "rows": [[name, value, number(value)] for name, value in panel.rows],
                }
                for panel in drawn
            ],
            "text": result.text(84),
        }
    )
