from __future__ import annotations

import errno
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.text.cache import building, cache_folder


def test_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BUDGIE_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    assert cache_folder(tmp_path) == tmp_path
    monkeypatch.delenv("BUDGIE_CACHE")
    assert "budgerigar" in str(cache_folder())


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    with building(target) as aside:
        (aside / "file").write_text("x")
        assert not target.exists()
    assert (target / "file").read_text() == "x"
    assert [path.name for path in target.parent.iterdir()] == ["b"]


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt()])
def test_nothing_is_left_after_an_error(tmp_path: Path, error: BaseException) -> None:
    def fill() -> None:
        with building(tmp_path / "b") as aside:
            (aside / "file").write_text("x")
            raise error

    with pytest.raises(type(error)):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="BUDGIE_CACHE"), building(tmp_path / "b"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_who_comes_second_keeps_the_first(tmp_path: Path) -> None:
    target = tmp_path / "b"
    with building(target) as aside:
        (aside / "file").write_text("second")
        with building(target) as other:
            (other / "file").write_text("first")
    assert (target / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
