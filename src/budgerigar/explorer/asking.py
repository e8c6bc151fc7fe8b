"""What a page asks, read from a request that may come from anybody: capped, parsed, checked."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from budgerigar.said import said

MOST_BYTES = 256 * 1024  # of a body
_DRAINED = 16 * MOST_BYTES  # of a longer one, so that its sender is there to read the refusal
_SECONDS = 20.0  # for a body to arrive
_DEEPEST = 12  # values within values; a question needs 3
_LARGEST = 2**53  # of a whole number: beyond it JavaScript itself is not exact


class RefusedError(Exception):
    """A request that is not answered: an HTTP status and the words for whoever sent it."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


@dataclass(frozen=True)
class Asked:
    """One view of one thing: `name` with `params`, of what `question` says is looked at."""

    question: dict[str, Any]
    name: str
    params: dict[str, Any]


async def read_asked(request: Request) -> Asked:
    """The question in a request's body.

    Raises:
        RefusedError: 415 no JSON, 413 too long, 408 too slow, 400 anything else that is wrong.
    """
    _check_kind(request)
    try:
        async with asyncio.timeout(_SECONDS):
            body = await _body(request)
    except TimeoutError:
        raise RefusedError(
            408, said("the question did not arrive within {seconds:.0f} s", seconds=_SECONDS)
        ) from None
    except ClientDisconnect:
        raise RefusedError(400, "the connection ended before the question did") from None
    return as_asked(parse(body))


def _check_kind(request: Request) -> None:
    kind, _, settings = request.headers.get("content-type", "").partition(";")
    encodings = ("", "charset=utf-8", 'charset="utf-8"')
    if kind.strip().lower() != "application/json" or settings.strip().lower() not in encodings:
        raise RefusedError(415, "a question is sent as application/json in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "a question is sent uncompressed")


async def _body(request: Request) -> bytes:
    """At most MOST_BYTES, counted while they come: what a length says in advance may be untrue."""
    too_long = RefusedError(413, said("a question has at most {most} KB", most=MOST_BYTES // 1024))
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > _DRAINED:
        raise too_long
    kept, n_bytes = bytearray(), 0
    async for part in request.stream():
        n_bytes += len(part)
        if n_bytes <= MOST_BYTES:
            kept += part
        elif n_bytes > _DRAINED:
            break
    if n_bytes > MOST_BYTES:
        raise too_long
    return bytes(kept)


def parse(body: bytes) -> Any:
    """The value of a JSON text, without what Python's reader lets pass beside the standard.

    NaN and infinities (also 1e999), numbers beyond 2^53, halves of surrogate pairs, and values nested
    more than 12 deep are refused.
    """
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_exact,
            object_pairs_hook=_once_each,
        )
        _check(value, 0)
    except RecursionError:
        raise RefusedError(400, f"values are nested more than {_DEEPEST} deep") from None
    except UnicodeError:
        raise RefusedError(400, "a question is text in UTF-8") from None
    except ValueError as error:
        raise RefusedError(400, f"the question is not valid JSON: {error}") from None
    return value


def _no_number(word: str) -> NoReturn:
    raise RefusedError(400, f"{word} is no number that JSON has")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise RefusedError(400, f"{digits[:20]} is too large a number")
    return value


def _exact(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > _LARGEST:
        raise RefusedError(400, f"{digits[:20]} is too large a whole number")
    return int(digits)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError(400, "a name stands twice in one object")
    return found


def _check(value: Any, depth: int) -> None:
    """Every string encodes and nothing is nested too deep."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, list):
        for part in value:
            _check(part, depth + 1)
    elif isinstance(value, dict):
        for key, part in value.items():
            key.encode("utf-8")
            _check(part, depth + 1)


_PARTS: dict[str, tuple[type, str]] = {
    "question": (dict, "an object"),
    "name": (str, "a text"),
    "params": (dict, "an object"),
}


def as_asked(value: Any) -> Asked:
    """The three parts of a question, each of its type; `params` may be left out."""
    if not isinstance(value, dict):
        raise RefusedError(400, "a question is a JSON object with question, name and params")
    value = {"params": {}, **value}
    if unknown := sorted(value.keys() - _PARTS.keys()):
        raise RefusedError(400, f"a question has no part {unknown[0][:40]!r}")
    for part, (kind, words) in _PARTS.items():
        if not isinstance(value.get(part), kind):
            raise RefusedError(400, f"{part!r} must be {words}")
    return Asked(**value)
