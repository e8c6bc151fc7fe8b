"""The files that a run was given: a text, or sentence pairs with or without their own validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.text.pair_files import PairFiles

Paths = str | Path | Sequence[str | Path]

# Field -> its name in config.json.
_STORED = {
    "files": "files",
    "source": "source_files",
    "target": "target_files",
    "pairs": "pair_files",
    "validation_source": "validation_source_files",
    "validation_target": "validation_target_files",
    "validation_pairs": "validation_pair_files",
}

PAIR_FILES = tuple(name for name in _STORED if name != "files")


def command_words(described: Mapping[str, Any]) -> list[str]:
    """What to type after `budgie train` for the files that config.json's part `text` names."""
    words = [str(file) for file in described.get("files", ())]
    for name, stored in _STORED.items():
        if name != "files":
            flag = f"--{name.replace('_', '-')}"
            words += [word for file in described.get(stored, ()) for word in (flag, str(file))]
    return words


def with_full_paths(recipe: Any) -> Any:
    """The recipe with the files that it names by their full paths: it may be gone on with from
    another directory. Names of the catalogue, and what is no file here, stay as they are."""

    def full(name: str | None) -> str | None:
        return str(Path(name).resolve()) if name and Path(name).exists() else name

    text, training = recipe.text, recipe.training
    return recipe.replace(
        text={"validation": full(text.validation), "mix": full(text.mix)},
        training={"embedding_from": full(training.embedding_from)},
    )


@dataclass(frozen=True)
class Given:
    """files: of running text. source, target: parallel files. pairs: files that hold both sides.
    A single path will do where there is one."""

    files: Paths = ()
    source: Paths = ()
    target: Paths = ()
    pairs: Paths = ()
    validation_source: Paths = ()
    validation_target: Paths = ()
    validation_pairs: Paths = ()

    def __post_init__(self) -> None:
        for name in _STORED:
            value = getattr(self, name)
            paths = [value] if isinstance(value, str | Path) else list(value or ())
            object.__setattr__(self, name, tuple(map(Path, paths)))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in _STORED)

    @property
    def has_pairs(self) -> bool:
        """Sentence pairs were given."""
        return any(getattr(self, name) for name in _STORED if name != "files")

    @property
    def text_files(self) -> list[Path]:
        """Files of running text."""
        return self._paths("files")

    @property
    def stem(self) -> str | None:
        """What to call a run on them; None: nothing was given."""
        first = [*self._paths("files"), *self._paths("source"), *self._paths("pairs")]
        return first[0].stem if first else None

    def training_pairs(self, columns: tuple[str, str] | None) -> PairFiles:
        """The pairs to learn from; `columns` are those of files that hold both sides."""
        return self._pair_files("", columns)

    def validation_split(self, columns: tuple[str, str] | None) -> PairFiles | None:
        """The pairs to validate on; None: none were given."""
        return self._pair_files("validation_", columns) or None

    def described(self) -> dict[str, list[str]]:
        """What config.json keeps: full paths."""
        kept = {}
        for name, stored in _STORED.items():
            if getattr(self, name) or name == "files":
                kept[stored] = [str(path.resolve()) for path in self._paths(name)]
        return kept

    @classmethod
    def from_described(cls, described: Mapping[str, Any], folder: Path) -> Given:
        """The files that the run in `folder` was given.

        Raises:
            UserError: names one that is gone.
        """
        found = {name: tuple(described.get(stored, ())) for name, stored in _STORED.items()}
        gone = [path for paths in found.values() for path in paths if not Path(path).exists()]
        if gone:
            raise UserError(
                f"The text of {folder} is gone: there is no {gone[0]}. Put it back there."
            )
        return cls(**found)

    def replace(self, **changes: Any) -> Given:
        """A copy with some files changed."""
        return dataclasses.replace(self, **changes)

    def _paths(self, name: str) -> list[Path]:
        return [Path(path) for path in getattr(self, name)]

    def _pair_files(self, prefix: str, columns: tuple[str, str] | None) -> PairFiles:
        from budgerigar.text.pair_files import PairFiles

        sides = [tuple(self._paths(prefix + name)) for name in ("source", "target", "pairs")]
        return PairFiles(sides[0], sides[1], sides[2], columns if sides[2] else None)
