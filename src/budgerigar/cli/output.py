"""Results on stdout: a table, numbers in a readable form, one JSON object."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def print_json(value: Any, write: Callable[[str], object] = print) -> None:
    """One JSON object; NaN and infinities as null, since JSON has no such numbers."""
    write(json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """Dataclasses, paths, tuples and numpy numbers as what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):  # numpy and torch scalars
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def cells_wide(text: str) -> int:
    """Columns that a text takes in a terminal (a Chinese character takes two)."""
    from wcwidth import wcswidth

    return max(wcswidth(text), 0)


def table(rows: Iterable[Sequence[object]], indent: str = "  ") -> str:
    """Rows as aligned columns; numbers to the right, the last column as it is."""
    texts = [[str(cell) for cell in row] for row in rows]
    if not texts:
        return ""
    n = max(len(row) for row in texts)
    texts = [row + [""] * (n - len(row)) for row in texts]
    widths = [max(cells_wide(row[column]) for row in texts) for column in range(n)]
    lines = []
    for row in texts:
        cells = [_pad(cell, width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append((indent + "  ".join([*cells, row[-1]])).rstrip())
    return "\n".join(lines)


def _pad(cell: str, width: int) -> str:
    gap = " " * (width - cells_wide(cell))
    return gap + cell if cell[:1].isdigit() or cell[:1] in "-+." else cell + gap


def count(n: float) -> str:
    """A large number in words: 1,234 · 118 k · 124.4 M · 174.6 G."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(n) >= factor:
            return f"{n / factor:,.1f} {unit}"
    return f"{n / 1e3:,.0f} k" if abs(n) >= 1e5 else f"{n:,.0f}"


def size(n_bytes: float) -> str:
    """A number of bytes: 512 B · 1.2 MB · 350 GB."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(n_bytes) >= factor:
            return f"{n_bytes / factor:,.1f} {unit}"
    return f"{n_bytes:,.0f} B"
