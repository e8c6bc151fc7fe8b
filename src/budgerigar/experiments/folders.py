"""The folder of an experiment: made by it alone, gone on with by the same experiment."""

from __future__ import annotations

from pathlib import Path

from budgerigar.errors import UserError


def refuse_strangers(folder: Path, mark: str, what: str) -> None:
    """Raise where there is something in `folder` that lacks the file `mark`, which `what` leaves."""
    if folder.exists() and not (folder / mark).is_file():
        raise UserError(
            f"{folder} exists already and holds no {what}. Choose another --out or remove it."
        )
