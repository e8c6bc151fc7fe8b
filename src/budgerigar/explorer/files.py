"""The files of the page, which lie in the package beside this one.

A request names one by words between slashes. Only names made of plain letters, digits, `_`, `-` and
single dots inside are looked up, and only files of the kinds below exist for it: no name can leave
the folder, whatever is encoded in it.
"""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
"""ending -> what a browser is told that it is; written out, for systems know other ones by it"""

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def page_folder() -> Traversable:
    """Where the page's files lie."""
    return files("budgerigar.explorer") / "page"


def page_file(path: str) -> tuple[bytes, str] | None:
    """(content, MIME type) of the file at a URL's path, "/" being index.html; None: no such file."""
    names = (path.removeprefix("/") or "index.html").split("/")
    kind = KINDS.get(f".{names[-1].rpartition('.')[2]}")
    if kind is None or not all(_NAME.fullmatch(name) for name in names):
        return None
    file = page_folder().joinpath(*names)
    try:
        return (file.read_bytes(), kind) if file.is_file() else None
    except OSError:  # a name longer than a file system takes
        return None
