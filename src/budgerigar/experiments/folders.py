"""The folder of an experiment: made by it alone, gone on with by the same experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError


def refuse_strangers(folder: Path, mark: str, what: str) -> None:
    """Raise where there is something in `folder` that lacks the file `mark`, which `what` leaves."""
    if folder.exists() and not (folder / mark).is_file():
        raise UserError(
            f"{folder} exists already and holds no {what}. Choose another --out or remove it."
        )


def read_kept(path: Path, mark: bool = False) -> dict[str, Any]:
    """What an experiment wrote for going on later. `UserError` where that is damaged.

    mark: the file is the one by which the folder is known.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError(
            f"{path} is damaged, and nothing can go on from it. Remove "
            f"{path.parent if mark else path}, and the same command does again what is missing; or "
            "choose another --out."
        )
    return found
