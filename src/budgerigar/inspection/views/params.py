"""Parameters of views: what may be asked, checked before a view runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from budgerigar.errors import UserError

_NEEDED = object()


@dataclass(frozen=True)
class Param:
    """One parameter. check: value -> the value to use, or None where it is wrong; words: what it must
    be; default: where it is left out or null (none: it is needed).
    """

    check: Callable[[Any], Any]
    words: str
    default: Any = _NEEDED

    @property
    def optional(self) -> bool:
        """It has a default."""
        return self.default is not _NEEDED

    def checked(self, view: str, name: str, value: Any) -> Any:
        """The value to use. `UserError` for a missing or wrong one."""
        if value is None and self.optional:
            return self.default
        found = None if value is None else self.check(value)
        if found is None:
            given = "is missing" if value is None else f"= {value!r} is wrong"
            raise UserError(f"{view}: {name} {given}; it must be {self.words}")
        return found


def whole(low: int = 0, high: int | None = None, default: Any = _NEEDED) -> Param:
    """A whole number in a range."""

    def check(value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if low <= value and (high is None or value <= high) else None

    ends = f"{low} or more" if high is None else f"from {low} to {high}"
    return Param(check, f"a whole number, {ends}", default)


def number(low: float, high: float, default: Any = _NEEDED) -> Param:
    """A number in a range."""

    def check(value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if math.isfinite(value) and low <= value <= high else None

    return Param(check, f"a number from {low:g} to {high:g}", default)


def one_of(*choices: str, default: Any = _NEEDED) -> Param:
    """One of some words."""
    return Param(lambda v: v if v in choices else None, " or ".join(choices), default)


def flag(default: bool) -> Param:
    """True or false."""
    return Param(lambda v: v if isinstance(v, bool) else None, "true or false", default)


def text(longest: int = 1000, default: Any = _NEEDED) -> Param:
    """A text that is not too long."""

    def check(value: Any) -> str | None:
        return value if isinstance(value, str) and 0 < len(value) <= longest else None

    return Param(check, f"a text of 1 to {longest} characters", default)


def place(default: Any = _NEEDED) -> Param:
    """A position, those of a word's tokens, or a word ("it", "it#2"): see `Spelling.find`."""

    def check(value: Any) -> int | str | list[int] | None:
        if isinstance(value, list):
            whole_ones = all(isinstance(v, int) and not isinstance(v, bool) for v in value)
            return value if whole_ones and 0 < len(value) <= 1000 else None
        if isinstance(value, bool) or not isinstance(value, int | str):
            return None
        return value if isinstance(value, int) or 0 < len(value) <= 1000 else None

    return Param(check, "a position, a list of positions, or a word of the text", default)


def texts(longest: int = 100, default: Any = _NEEDED) -> Param:
    """A list of short texts, such as heads."""

    def check(value: Any) -> list[str] | None:
        given = isinstance(value, list) and len(value) <= longest
        return value if given and all(isinstance(one, str) for one in value) else None

    return Param(check, f"a list of at most {longest} texts", default)


SITE = {
    "of": one_of("encoder", "decoder", default=None),
    "kind": one_of("self", "cross", default=None),
}
"""Which attention; both may be left out where there is one choice."""


def _fits(network: Any) -> str:
    return ""


def _is_quick(params: Mapping[str, Any]) -> bool:
    return False


@dataclass(frozen=True)
class View:
    """A view: `run(look, **params)` -> JSON-able value with arrays.

    refusal: network -> why the view does not fit it, in words; "" where it does. long: params ->
    whether it may take seconds even of a small model; it then tells how far it is (`progress`).
    """

    run: Callable[..., Any]
    params: Mapping[str, Param] = field(default_factory=dict)
    refusal: Callable[[Any], str] = _fits
    long: Callable[[Mapping[str, Any]], bool] = _is_quick

    def checked(self, name: str, given: Any) -> dict[str, Any]:
        """Every parameter's value. `UserError` for unknown, missing and wrong ones."""
        if not isinstance(given, Mapping):
            raise UserError(f"{name}: parameters are a JSON object, not {given!r}")
        if unknown := [key for key in given if key not in self.params]:
            known = ", ".join(self.params) or "none"
            raise UserError(f"{name} has no parameter {unknown[0]!r}; it has {known}")
        return {key: param.checked(name, key, given.get(key)) for key, param in self.params.items()}
