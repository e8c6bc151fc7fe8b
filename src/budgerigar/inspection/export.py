"""The page as files: one offline HTML, a frame of a notebook, or a folder for any web server.

All three show what `budgie explore` shows, from records (`records.py`) instead of a live model: the
same modules draw it. One file has everything in it and forbids itself every request; a site has its
records beside its pages and asks nothing but its own server.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError
from budgerigar.formats.atomic import PARTIAL, write_text
from budgerigar.inspection.inlining import json_block, page_folder, page_text, whole_page
from budgerigar.inspection.records import (
    DEFAULTS,
    SMALL,
    Params,
    Recorded,
    model_id,
    record,
    without_its_source,
)
from budgerigar.inspection.views import Look, can

if TYPE_CHECKING:
    from budgerigar.inspection.heads import Head
    from budgerigar.inspection.traces import Trace

_SITE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'"
)


State = Mapping[str, Any]
"""How a page begins, as `state.js` has it: {"view": "head", "selection": {"layer": 2, "head": 3}}."""


def page_of(
    looks: Look | Sequence[Look],
    *,
    full: bool = False,
    steps: bool = True,
    state: State | None = None,
) -> str:
    """The HTML text of one file about one or several looks, the first one shown at first.

    full: every number as float32, and every extra. steps: without them, a small page of the text and
    the attention over it.
    """
    given = [looks] if isinstance(looks, Look) else list(looks)
    limit = (SMALL - len(whole_page("", {}))) / len(given)
    found = [record(look, full, steps=steps, limit=limit) for look in given]
    beside = [other for look in given for other in without_its_source(look)] if steps else []
    return _page(given, found, state, beside)


def head_page(head: Head) -> str:
    """A small page about one head alone."""
    look = look_of(head.trace)
    return _page([look], [record(look, heads=[head])], head_state(head))


def write_page(
    trace: Trace, path: str | Path, *, full: bool = False, state: State | None = None
) -> Path:
    """Write the page of a trace as one file."""
    target = Path(path)
    write_text(target, page_of(look_of(trace), full=full, state=state))
    return target


def frame(html: str, height: int = 760) -> str:
    """A page in an iframe, for a notebook or a report: its scripts and styles stay its own."""
    inner = escape(html, quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{inner}" style="{style}" title="Budgerigar: look inside"></iframe>'


def look_of(trace: Trace) -> Look:
    """The look that a trace is of, for the page's views.

    Raises:
        UserError: the trace does not know its tokenizer (it is an untrained copy's).
    """
    model, question = trace.asked or (_Stand.of(trace), _question(trace))
    look = Look(model, question)
    look.__dict__["trace"] = trace  # made already
    return look


def _question(trace: Trace) -> dict[str, Any]:
    """What would make this trace again."""
    from budgerigar.inspection.pair_traces import PairTrace

    if not isinstance(trace, PairTrace):
        return {"ids": list(trace.ids)}
    written = trace.targets[:-1] if trace.prefix else trace.targets
    target = None if trace.own else written
    return {"source": trace.source, "target": target, **({"prefix": True} if trace.prefix else {})}


@dataclass(frozen=True)
class _Stand:
    """Stands for the model of a trace that was made without one."""

    network: Any
    tokenizer: Any
    source_tokenizer: Any
    name: str
    folder: None = None

    @classmethod
    def of(cls, trace: Trace) -> _Stand:
        if trace.tokenizer is None:
            raise UserError(
                "this trace does not know its tokenizer, so no page can name its tokens"
            )
        name = trace.name or "this model"
        return cls(trace.network, trace.tokenizer, trace.source_tokenizer, name)


def head_state(head: Head) -> dict[str, Any]:
    """A page that begins with this head."""
    site = head.site
    place = {"of": site.of, "kind": site.kind, "layer": head.layer, "head": head.head}
    return {"view": "head", "selection": place}


def _page(
    looks: Sequence[Look], found: Sequence[Recorded], state: Any, beside: Sequence[Recorded] = ()
) -> str:
    """beside: records of questions that no reader chooses, but views ask."""
    blocks: list[dict[str, Any]] = [{**_block(one), "records": one.records} for one in found]
    blocks += [{**_block(one), "records": one.records, "beside": True} for one in beside]
    recorded = _recorded(looks, blocks, state)
    return whole_page(looks[0].trace.about or "Budgerigar: look inside", {"recorded": recorded})


def _block(found: Recorded) -> dict[str, Any]:
    return {"question": found.question, "views": found.views}


def _recorded(looks: Sequence[Look], blocks: Sequence[Any], state: Any) -> dict[str, Any]:
    """What `recorded.js` reads."""
    models = {model_id(look): _model(look) for look in looks}
    value = {"models": list(models.values()), "defaults": DEFAULTS, "looks": list(blocks)}
    return value if state is None else {**value, "state": dict(state)}


def _model(look: Look) -> dict[str, Any]:
    """As `GET /api/models` has it; its name without the folders above it."""
    return {"id": model_id(look), "name": look.name, "kind": look.kind, "views": can(look.model)}


SITE_RECORDS = 8_000_000
"""bytes of one look's records in a site, which lie in a file of their own"""


# -- a site ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SitePage:
    """One page of a site.

    name: of its file, without .html; state: how it begins; extra: further views to record of each
    look; full, limit: see `records.record`; blocks: id -> JSON for scripts of the page.
    """

    name: str
    title: str
    looks: Sequence[Look]
    state: State | None = None
    extra: Sequence[tuple[str, Params]] = ()
    full: bool = False
    limit: float = SITE_RECORDS
    blocks: Mapping[str, Any] = field(default_factory=dict)


def write_site(
    folder: str | Path, pages: Sequence[SitePage], files: Mapping[str, str] | None = None
) -> Path:
    """Write a folder that any web server can serve, at its root or below it, with real traces.

    The page's own files lie beside the pages, the records of each look in `records/`; nothing asks
    any other host. files: name -> text of further files. The folder appears when all of it is there.

    Raises:
        UserError: the folder exists, or two pages have one name.
    """
    target = Path(folder)
    if target.exists():
        raise UserError(f"{target} exists already; choose another folder or remove it")
    names = [page.name for page in pages]
    for name in names:
        if not re.fullmatch(r"[\w-]+", name) or names.count(name) > 1:
            raise UserError(f"{name!r} cannot name a page: letters, digits, _ and -, and each once")
    aside = target.with_name(target.name + PARTIAL)
    if aside.exists():
        shutil.rmtree(aside)
    aside.mkdir(parents=True)
    _copy(page_folder(), aside)
    (aside / "records").mkdir()
    for name, text in (files or {}).items():
        write_text(aside / name, text)
    for page in pages:
        write_text(aside / f"{page.name}.html", _site_page(page, aside))
    if "index" not in names:
        write_text(aside / "index.html", _contents(pages))
    aside.rename(target)
    return target


def _copy(source: Traversable, target: Path) -> None:
    """The page's files, but index.html, which each page takes the place of."""
    for one in source.iterdir():
        if one.is_dir():
            (target / one.name).mkdir()
            _copy(one, target / one.name)
        elif one.name != "index.html" and not one.name.endswith((".py", ".pyc")):
            (target / one.name).write_bytes(one.read_bytes())


def _site_page(page: SitePage, folder: Path) -> str:
    found = [record(look, page.full, extra=page.extra, limit=page.limit) for look in page.looks]
    blocks: list[dict[str, Any]] = [{**_block(one), "file": _beside(one, folder)} for one in found]
    for look in page.looks:
        for other in without_its_source(look):
            blocks.append({**_block(other), "file": _beside(other, folder), "beside": True})
    values = {"recorded": _recorded(page.looks, blocks, page.state), **page.blocks}
    data = "\n".join(json_block(name, value) for name, value in values.items())
    return _with_policy(page.title).replace("</body>", f"{data}\n</body>")


def _beside(found: Recorded, folder: Path) -> str:
    """Write the records of a look; the file's name."""
    text = json.dumps(found.records, ensure_ascii=False, separators=(",", ":"))
    name = f"records/{sha256(text.encode()).hexdigest()[:16]}.json"
    write_text(folder / name, text)
    return name


def _with_policy(title: str) -> str:
    """index.html of the page, with its own policy and title."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_SITE_POLICY}">\n<title>'
    text = re.sub(
        r"<title>.*?</title>", lambda _: f"<title>{escape(title)}</title>", page_text("index.html")
    )
    return text.replace("<title>", meta, 1)


def _contents(pages: Sequence[SitePage]) -> str:
    """index.html of a site without a page of that name: links to all."""
    links = "\n".join(f'<li><a href="{p.name}.html">{escape(p.title)}</a></li>' for p in pages)
    text = _with_policy("Budgerigar")
    main = f'<main class="starting"><h1>Budgerigar</h1>\n<ul>\n{links}\n</ul></main>'
    text = text.replace('<script type="module" src="main.js"></script>\n', "")
    return re.sub(r"<body>.*</body>", lambda _: f"<body>\n{main}\n</body>", text, flags=re.DOTALL)
