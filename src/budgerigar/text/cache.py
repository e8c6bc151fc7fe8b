"""Where prepared data lies, and how a folder of it appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from budgerigar.errors import UserError


def cache_folder(cache: str | Path | None = None) -> Path:
    """`cache`, else the environment's `BUDGIE_CACHE`, else the user's cache folder."""
    if chosen := cache or os.environ.get("BUDGIE_CACHE"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("budgerigar", appauthor=False))


@contextmanager
def building(target: Path) -> Iterator[Path]:
    """A new folder to fill, which becomes `target` when the block ends without an error.

    Its files are fsynced and the folder renamed, so that `target` is never half-written; after an
    error nothing is left. If another process made `target` meanwhile, that one stays. A full disk
    or a read-only place is a `UserError`.
    """
    aside = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        try:
            aside.mkdir(parents=True)
            yield aside
            for file in aside.rglob("*"):
                _fsync(file)
            _fsync(aside)
            try:
                os.rename(aside, target)
            except OSError:
                if not target.is_dir():
                    raise
            _fsync(target.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror}. Free some space, or name another place in "
            "the environment variable BUDGIE_CACHE."
        ) from None


def _fsync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
