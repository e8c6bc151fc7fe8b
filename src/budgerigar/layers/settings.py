"""Frozen dataclasses as plain values and back, and whether their values have the declared types.

For configurations: fields are numbers, text, options (`Literal`), tuples, further such dataclasses,
or one of several (`|`). Imports no torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from budgerigar.errors import UserError


def plain(value: Any) -> Any:
    """Plain values for JSON and TOML; fields that are None are left out."""
    if dataclasses.is_dataclass(value):
        items = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: plain(item) for name, item in items if item is not None}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def build(kind: type, values: dict[str, Any], where: str) -> Any:
    """The reverse of `plain`: a `kind`. Unknown names and wrong types are listed in one `UserError`."""
    hints = _hints(kind)
    wrong = [f"{where} has no setting {name!r}" for name in values if name not in hints]
    given = {n: _built(hints[n], value, n) for n, value in values.items() if n in hints}
    for name, value in given.items():
        complaint = _complaint(hints[name], value)
        if complaint:
            wrong.append(f"{where}.{name} = {value!r}: {complaint}")
    if wrong:
        raise UserError("settings that cannot be used:\n" + "\n".join(f"  - {w}" for w in wrong))
    return kind(**given)


def type_problems(settings: Any, where: str = "") -> list[str]:
    """In words, every field of a dataclass whose value does not fit its declared type."""
    found: list[str] = []
    kind: type = type(settings)
    for name, hint in _hints(kind).items():
        value = getattr(settings, name)
        complaint = _complaint(hint, value)
        if complaint:
            found.append(f"{where}{name} = {value!r} {complaint}")
            continue
        for part in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(part):
                found += type_problems(part, f"{where}{name}: ")
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Declared types of the fields of a dataclass, in order."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _built(hint: Any, value: Any, where: str) -> Any:
    """Lists become tuples, and dictionaries the dataclass that `hint` names."""
    options = [o for o in _options(hint) if isinstance(o, type) and dataclasses.is_dataclass(o)]
    if options and isinstance(value, dict):
        return build(options[0], value, where)
    if not isinstance(value, list):
        return value
    inner = get_args(hint)[0] if get_origin(hint) is tuple else Any
    return tuple(_built(inner, item, where) for item in value)


def _options(hint: Any) -> tuple[Any, ...]:
    """The types that `hint` allows."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _complaint(hint: Any, value: Any) -> str:
    """Why `value` does not fit the type `hint`; empty when it does."""
    words: list[str] = []
    for option in _options(hint):
        name = _misfit(option, value)
        if not name:
            return ""
        words.append(name)
    known = [word for word in dict.fromkeys(words) if word != "nothing"]
    return "must be " + ", ".join(known)


def _misfit(option: Any, value: Any) -> str:
    """What a single type would have wanted instead of `value`; empty where it fits."""
    if option is type(None):
        return "" if value is None else "nothing"
    if get_origin(option) is Literal:
        choices = get_args(option)
        fits = isinstance(value, str) and value in choices
        return "" if fits else ", ".join(map(str, choices))
    if get_origin(option) in (tuple, Sequence):
        inner, several = get_args(option)[0], isinstance(value, get_origin(option))
        fits = several and not any(_complaint(inner, item) for item in value)
        return "" if fits else f"a list ({_misfit(inner, object())} each)"
    number = isinstance(value, Real) and not isinstance(value, bool)
    fits, name = {
        bool: (isinstance(value, bool), "true or false"),
        int: (number and isinstance(value, Integral), "a whole number"),
        float: (number, "a number"),
        str: (isinstance(value, str), "text"),
    }.get(option, (isinstance(value, option), f"a {option.__name__}"))
    return "" if fits else name
