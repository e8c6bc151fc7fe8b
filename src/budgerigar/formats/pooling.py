"""How the authors of an encoder make one vector of a text: what sentence-transformers writes down.

`modules.json` lists the steps, `1_Pooling/config.json` says what is made of the tokens' vectors,
`sentence_bert_config.json` after how many tokens a text is cut. What is not known here is refused:
leaving a step out would give other vectors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

POOLINGS = ("mean", "cls", "last", "max")

# their name of each way -> ours
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_STEPS = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class DeclaredPooling:
    """pooling: one of `POOLINGS`. normalise: to length 1. most: tokens of a text with
    what is put around it, None: as many as the model reads."""

    pooling: str
    normalise: bool = False
    most: int | None = None


def declared_pooling(folder: Path | None) -> DeclaredPooling | None:
    """What a folder declares; None where it declares nothing.

    Raises:
        UserError: a file is damaged, or asks for a step that is not known here.
    """
    if folder is None or not (folder / "1_Pooling" / "config.json").is_file():
        return None
    values = _read(folder / "1_Pooling" / "config.json")
    on = [name for name, value in values.items() if name.startswith("pooling_mode_") and value]
    unknown = [name for name in on if name not in _MODES]
    if isinstance(values.get("pooling_mode"), str):  # newer versions name the way itself
        mode = values["pooling_mode"].replace("lasttoken", "last")
        on, unknown = [mode], [] if mode in POOLINGS else [mode]
    if unknown or len(on) != 1:
        raise UserError(
            f"{folder / '1_Pooling' / 'config.json'} asks for {' and '.join(on) or 'no pooling'}; one "
            f"way is known here: {', '.join(POOLINGS)}. Choose one with --pooling."
        )
    steps = _steps(folder)
    cut = folder / "sentence_bert_config.json"
    most = _read(cut).get("max_seq_length") if cut.is_file() else None
    most = most if isinstance(most, int) and most > 0 else None
    return DeclaredPooling(_MODES.get(on[0], on[0]), "Normalize" in steps, most)


def _steps(folder: Path) -> list[str]:
    """The names of the steps in modules.json."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    found = _read(path, list)
    names = [str(one.get("type", "")).split(".")[-1] for one in found if isinstance(one, dict)]
    unknown = [name for name in names if name not in _STEPS]
    if unknown:
        raise UserError(
            f"{path} has a step {unknown[0]} after the encoder, which is not known here; without it "
            "the vectors would not be its authors'. Choose --pooling to have the encoder's own."
        )
    return names


def _read(path: Path, kind: type = dict) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {str(error)[:100]}") from None
    if not isinstance(found, kind):
        raise UserError(f"{path} is damaged: it is no {'table' if kind is dict else 'list'}")
    return found
