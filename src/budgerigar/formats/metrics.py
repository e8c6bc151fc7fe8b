"""metrics.jsonl: one JSON object a line, appended while a run goes on, cut back when it resumes.

Everything that depends on the clock stands under the key `clock`; the rest is the same for a run
that was stopped and resumed as for one that was not.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import IO, Any

from budgerigar.formats.atomic import disk_errors


def _plain(value: Any) -> Any:
    """JSON has no NaN or infinity; they are written as strings so that every parser reads on."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class MetricsFile:
    """The open end of a metrics.jsonl."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with disk_errors(f"open {self.path}"):
            self._file: IO[bytes] = open(self.path, "ab")  # noqa: SIM115

    def append(self, entry: dict[str, Any]) -> None:
        """Add one line; it reaches the disk at the next `flush`."""
        line = json.dumps(_plain(entry), ensure_ascii=False) + "\n"
        with disk_errors(f"write {self.path}"):
            self._file.write(line.encode("utf-8"))

    def flush(self, sync: bool = False) -> int:
        """Hand lines to the system (`sync`: to the disk); returns the file's length in bytes."""
        with disk_errors(f"write {self.path}"):
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
            return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file; what cannot be flushed any more is lost without a second error."""
        try:
            self._file.close()
        except OSError:
            self._file = open(os.devnull, "ab")  # noqa: SIM115


def append_metrics(path: Path, entry: dict[str, Any]) -> None:
    """Add one line to a metrics file that nobody holds open."""
    file = MetricsFile(path)
    file.append(entry)
    file.flush()
    file.close()


def read_metrics(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The entries of a metrics.jsonl, a last line that a kill cut in two left out."""
    entries = []
    if not Path(path).is_file():
        return []
    for line in Path(path).read_bytes().split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and (kind is None or entry.get("kind") == kind):
            entries.append(entry)
    return entries


def cut_metrics(path: Path, n_bytes: int) -> None:
    """Forget what was written after a checkpoint that saw `n_bytes` of the file."""
    if not Path(path).exists():
        return
    with disk_errors(f"write {path}"), open(path, "rb+") as file:
        file.truncate(n_bytes)
        os.fsync(file.fileno())
