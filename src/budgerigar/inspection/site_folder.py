"""The page as a folder for any web server, at its root or below it, with real traces.

    index.html, main.js, style.css …   the page, as `budgie explore` serves it
    records/*.json                     the answers to one question each, fetched when it is looked at
    budgerigar-site.json               what was written, so that it can be written anew

Nothing asks any other host. A folder appears, or takes an older one's place, when all of it is there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.formats.atomic import PARTIAL, folder_aside
from budgerigar.inspection.besides import Besides
from budgerigar.inspection.export import State, block_of, model_of, recorded_block
from budgerigar.inspection.inlining import json_block, page_folder, page_text
from budgerigar.inspection.records import Params, Recorded, record
from budgerigar.inspection.views import Look
from budgerigar.progress import track

LIST = "budgerigar-site.json"
"""of a site's files; a folder without it is no site, and is never replaced"""
SITE_RECORDS = 8_000_000
"""bytes of one look's records in a site beyond which nothing is added that it can do without"""
_OF_SYSTEMS = frozenset((".DS_Store", "Thumbs.db", "desktop.ini"))
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class SitePage:
    """One page of a site.

    name: of its file, without .html; state: how it begins; extra: further views to record of each
    look; besides: also what `Besides` adds; full, limit: see `records.record`; blocks: id -> JSON for
    scripts of the page.
    """

    name: str
    title: str
    looks: Sequence[Look]
    state: State | None = None
    extra: Sequence[tuple[str, Params]] = ()
    besides: bool = True
    full: bool = False
    limit: float = SITE_RECORDS
    blocks: Mapping[str, Any] = field(default_factory=dict)


def write_site(
    folder: str | Path, pages: Sequence[SitePage], files: Mapping[str, str] | None = None
) -> Path:
    """Write the folder; an older site there is replaced. files: name -> text of further files.

    Raises:
        UserError: the folder holds something else, or two pages have one name.
    """
    target = checked_folder(folder)
    names = [page.name for page in pages]
    for name in names:
        if not re.fullmatch(r"[\w-]+", name) or names.count(name) > 1:
            raise UserError(f"{name!r} cannot name a page: letters, digits, _ and -, and each once")
    total = sum(len(page.looks) for page in pages)
    with (
        folder_aside(target, f"write the site {target}") as aside,
        track("writing the site", total, unit="questions") as job,
    ):
        _copy(page_folder(), aside)
        (aside / "records").mkdir()
        for name, text in (files or {}).items():
            _write(aside / name, text)
        for page in pages:
            _write(aside / f"{page.name}.html", _site_page(page, aside, job.advance))
        if "index" not in names:
            _write(aside / "index.html", _contents(pages))
        _write(aside / LIST, json.dumps({"files": _files(aside)}, indent=1))
    return target


def checked_folder(folder: str | Path) -> Path:
    """Where a site may be written: nothing is there, an empty folder, or a site.

    What a killed run left beside it is put in order: a site that it had moved away returns.

    Raises:
        UserError: something else is there, or a site with files in it that are not its own.
    """
    target = Path(folder).resolve()
    olds = sorted(target.parent.glob(f".{target.name}.*.old{PARTIAL}"))
    if olds and not target.exists():
        olds.pop().rename(target)
    for left in target.parent.glob(f".{target.name}.*{PARTIAL}"):
        shutil.rmtree(left, ignore_errors=True)
    if not target.exists():
        return target
    if not target.is_dir():
        raise UserError(f"{folder} is a file; choose a folder for the site")
    found = [name for name in _files(target) if Path(name).name not in _OF_SYSTEMS]
    own = _listed(target)
    if found and own is None:
        raise UserError(
            f"{folder} is not empty and no site that was written here; choose another folder"
        )
    if foreign := sorted(set(found) - (own or set())):
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise UserError(
            f"{folder} holds {foreign[0]}{more}, which the site did not write and would lose; move "
            "that away, or choose another folder"
        )
    return target


def _listed(folder: Path) -> set[str] | None:
    """The files of the site in a folder; None: it is no site."""
    try:
        found = json.loads((folder / LIST).read_text(encoding="utf-8"))["files"]
        return {LIST, *map(str, found)}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _files(folder: Path) -> list[str]:
    """Names of everything in a folder that is no folder, relative to it."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def _copy(source: Traversable, target: Path) -> None:
    """The page's files, but index.html, which each page takes the place of."""
    for one in source.iterdir():
        if one.is_dir():
            (target / one.name).mkdir()
            _copy(one, target / one.name)
        elif one.name != "index.html" and not one.name.endswith((".py", ".pyc")):
            (target / one.name).write_bytes(one.read_bytes())


def _site_page(page: SitePage, folder: Path, done: Callable[[], None]) -> str:
    besides = Besides(page.looks) if page.besides else None
    blocks: list[dict[str, Any]] = []
    for look in page.looks:
        found = record(look, page.full, extra=page.extra, limit=page.limit)
        if besides:
            besides.add_to(found, look, page.limit)
        blocks.append({**block_of(found), "file": _beside(found, folder)})
        for other in besides.beside(look) if besides else ():
            blocks.append({**block_of(other), "file": _beside(other, folder), "beside": True})
        done()
    recorded = recorded_block(list(_models(page, besides)), blocks, page.state)
    values = {"recorded": recorded, **page.blocks}
    data = "\n".join(json_block(name, value) for name, value in values.items())
    return _with_policy(page.title).replace("</body>", f"{data}\n</body>")


def _models(page: SitePage, besides: Besides | None) -> Iterator[dict[str, Any]]:
    for look in page.looks:
        names = besides.checkpoints(look) if besides else []
        yield {**model_of(look), **({"checkpoints": names} if names else {})}


def _beside(found: Recorded, folder: Path) -> str:
    """Write the records of a look; the file's name."""
    text = json.dumps(found.records, ensure_ascii=False, separators=(",", ":"))
    name = f"records/{sha256(text.encode()).hexdigest()[:16]}.json"
    _write(folder / name, text)
    return name


def _with_policy(title: str) -> str:
    """index.html of the page, with its own policy and title."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n<title>'
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
