"""Reading another's config.json: every missing or strange value is collected, then told at once."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

_REQUIRED: Any = object()


class Values:
    """The values of a config.json. What is wrong is collected; `check` raises it.

    `where` names the file in messages. A value that is null counts as left out, as its authors mean.
    """

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = {name: value for name, value in values.items() if value is not None}
        self.nulls = set(values) - set(self.values)
        self.where, self.problems = where, list[str]()

    @classmethod
    def read(cls, path: Path) -> Values:
        """The values of a JSON file.

        Raises:
            UserError: it is not there or holds no table.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UserError(f"{path} is missing: it says what kind of model this is.") from error
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{path} cannot be read: {str(error)[:120]}") from error
        if not isinstance(values, dict):
            raise UserError(f"{path} is damaged: it holds no table of settings.")
        return cls(values, str(path))

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def whole(self, name: str, default: int | None = _REQUIRED) -> Any:
        """A whole number, 0 or more. Of a required one that is not there the caller gets a 1."""
        value = self._get(name, default, 1)
        fits = value is None or (type(value) is int and 0 <= value < 2**63)
        return value if fits else self._wrong(name, value, "a whole number", 1)

    def number(self, name: str, default: float | None = _REQUIRED) -> Any:
        """A finite number."""
        value = self._get(name, default, 1.0)
        if value is None:
            return None
        fits = type(value) in (int, float) and math.isfinite(value)
        return float(value) if fits else self._wrong(name, value, "a number", 1.0)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._get(name, default, default)
        return value if type(value) is bool else self._wrong(name, value, "true or false", default)

    def text(self, name: str, default: str) -> str:
        """A word."""
        value = self._get(name, default, default)
        return value if type(value) is str else self._wrong(name, value, "text", default)

    def words(self, name: str) -> list[str]:
        """A list of words; empty where there is none."""
        value = self._get(name, [], [])
        fits = isinstance(value, list) and all(isinstance(word, str) for word in value)
        return value if fits else self._wrong(name, value, "a list of words", [])

    def table(self, name: str) -> Values:
        """A table inside; its problems count as this one's."""
        value = self._get(name, {}, {})
        if not isinstance(value, dict):
            value = self._wrong(name, value, "a table", {})
        inner = Values(value, f"{self.where}: {name}")
        inner.problems = self.problems
        return inner

    def choice(self, name: str, options: dict[str, Any], default: str) -> Any:
        """What `options` says for a word; a word that is not among them is a problem."""
        word = self.text(name, default)
        if word in options:
            return options[word]
        self.refuse(f"{name} = {word!r}: known here are {', '.join(options)}")
        return next(iter(options.values()))

    def refuse(self, words: str) -> None:
        """Note something that this Transformer has no dial for."""
        self.problems.append(words)

    def unless(self, name: str, value: Any, words: str) -> None:
        """Refuse another value than the usual one of a setting that this Transformer does not have."""
        if self.values.get(name, value) != value:
            self.refuse(f"{name} = {self.values[name]!r}: {words}")

    def check(self) -> None:
        """Raise one `UserError` that lists every problem."""
        if self.problems:
            shown = "\n".join(f"  - {problem}" for problem in dict.fromkeys(self.problems))
            raise UserError(f"{self.where} describes a model that cannot be built here:\n{shown}")

    def _get(self, name: str, default: Any, instead: Any) -> Any:
        if name in self.values:
            return self.values[name]
        if default is not _REQUIRED:
            return default
        self.problems.append(f"{name} is missing")
        return instead

    def _wrong(self, name: str, value: Any, words: str, instead: Any) -> Any:
        self.problems.append(f"{name} = {str(value)[:40]!r}: must be {words}")
        return instead
