"""Writing so that a crash, a kill or a full disk leaves the old state or the new one, never half.

The recipe is always the same: write under another name beside the target, fsync, rename, fsync the
folder. A rename within one file system is atomic; fsync before it makes the content arrive first.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from budgerigar.errors import UserError

PARTIAL = ".partial"  # suffix of what is still being written; leftovers of a kill are swept away

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space there, or choose another --out"),
    errno.EDQUOT: ("your disk quota is used up", "free some space there, or choose another --out"),
    errno.EROFS: ("that file system is read-only", "choose a folder that can be written"),
    errno.EACCES: ("you may not write there", "choose another folder, or change its permissions"),
    errno.EPERM: ("you may not write there", "choose another folder, or change its permissions"),
    errno.ENOENT: ("a folder of that path does not exist", "make it first, or choose another path"),
    errno.ENOTDIR: ("a part of that path is a file, not a folder", "choose another path"),
}


def explain_disk_error(error: OSError, doing: str) -> UserError:
    """A `UserError` that says what could not be done, why, and what to do about it."""
    reason, advice = _REASONS.get(
        error.errno or 0, (error.strerror or str(error), "look at that folder and try again")
    )
    return UserError(
        f"Could not {doing}: {reason}. What was written before is untouched; {advice}."
    )


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn what the operating system refuses inside the block into a `UserError`."""
    try:
        yield
    except OSError as error:
        raise explain_disk_error(error, doing) from error


def fsync_folder(folder: Path) -> None:
    """Make renames inside `folder` durable (a no-op where folders cannot be opened)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_file(path: Path) -> None:
    """Force one written file to the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def file_aside(target: Path, doing: str | None = None) -> Iterator[Path]:
    """Yield a path to write; on success it replaces `target` in one step, on failure it is gone."""
    target = Path(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}{PARTIAL}")
    with disk_errors(doing or f"write {target}"):
        try:
            yield aside
            fsync_file(aside)
            os.replace(aside, target)
            fsync_folder(target.parent)
        finally:
            aside.unlink(missing_ok=True)


@contextmanager
def folder_aside(target: Path, doing: str | None = None) -> Iterator[Path]:
    """Yield a new folder to fill; on success it appears as `target`, whole, in one step.

    An older `target` is replaced. Files are fsynced before the rename.
    """
    target = Path(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}{PARTIAL}")
    old = target.with_name(f".{target.name}.{os.getpid()}.old{PARTIAL}")
    with disk_errors(doing or f"write {target}"):
        try:
            shutil.rmtree(aside, ignore_errors=True)  # a killed process may have had this number
            aside.mkdir(parents=True)
            yield aside
            for path in sorted(aside.rglob("*")):
                if path.is_file():
                    fsync_file(path)
            fsync_folder(aside)
            if target.exists():
                os.rename(target, old)
            try:
                os.rename(aside, target)
            except OSError:
                if old.exists():  # it is not lost with the new one
                    os.rename(old, target)
                raise
            fsync_folder(target.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def write_bytes(target: Path, content: bytes) -> None:
    """Replace `target` with `content` atomically."""
    with file_aside(target) as aside:
        aside.write_bytes(content)


def write_text(target: Path, text: str) -> None:
    """Replace `target` with UTF-8 `text` atomically, line ends as given."""
    write_bytes(target, text.encode("utf-8"))


def sweep_partials(folder: Path) -> None:
    """Remove what a killed process left half-written directly inside `folder`."""
    for path in Path(folder).glob(f".*{PARTIAL}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
