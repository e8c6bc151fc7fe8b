"""The page's files: found by plain names only, with the kinds that a browser needs."""

from __future__ import annotations

import pytest

from budgerigar.explorer.files import KINDS, page_file, page_folder


def everything() -> list[tuple[str, bytes]]:
    found, waiting = [], [("", page_folder())]
    while waiting:
        path, place = waiting.pop()
        for one in place.iterdir():
            name = f"{path}/{one.name}"
            if one.is_dir():
                waiting.append((name, one))
            else:
                found.append((name, one.read_bytes()))
    return found


def test_every_file_of_the_page_is_served() -> None:
    files = everything()
    assert any(path == "/index.html" for path, _ in files)
    for path, content in files:
        found = page_file(path)
        assert found is not None, f"{path} has a kind or a name that is not served"
        assert found[0] == content
        assert found[1].startswith(("text/", "application/json", "image/"))


def test_the_root_is_the_index() -> None:
    assert page_file("/") == page_file("/index.html")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "//",
        "/..",
        "/../files.py",
        "/../server.py",
        "/i18n/../index.html",
        "/./index.html",
        "/index.html/",
        "/index.html\n",
        "/index.html\0",
        "/\\..\\index.html",
        "/.index.html",
        "/index..html",
        "/i18n",
        "/" + "a" * 5000 + ".js",
        "/" + "a/" * 5000 + "a.js",
        "/no.js",
    ],
)
def test_other_names_are_nothing(path: str) -> None:
    assert page_file(path) is None or path == ""


def test_code_is_told_as_code() -> None:
    assert KINDS[".js"].startswith("text/javascript")
    assert ".py" not in KINDS
