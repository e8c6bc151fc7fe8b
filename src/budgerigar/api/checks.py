"""What callers give, checked, with an error in words where it is something else."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from budgerigar.errors import UserError
from budgerigar.generation.options import SamplingOptions


def checked_target(value: object) -> str:
    """The target of a pair, which must not be left out."""
    if value is None:
        raise UserError(
            "an encoder-decoder scores a translation beside its source: score(source, target)"
        )
    return checked_text(value)


def checked_text(value: object, hint: str = "give text in quotes") -> str:
    """`value`, or a `UserError` where it is not text."""
    if not isinstance(value, str):
        raise UserError(f"{value!r} is a {type(value).__name__}, not text; {hint}")
    return value


def checked_ids(values: Iterable[Any]) -> list[int]:
    """Token ids as Python's numbers, also from an array or a tensor."""
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise UserError(
            f"{values!r} is no list of token ids (whole numbers); model.encode(text) gives one"
        ) from None


def sampling_options(options: dict[str, Any]) -> SamplingOptions:
    """Checked options; an unknown name is an error that lists the known ones."""
    known = [f.name for f in fields(SamplingOptions)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UserError(
            f"generate has no option {unknown[0]!r}; its options are {', '.join(known)}"
        )
    return SamplingOptions(**options).validate()
