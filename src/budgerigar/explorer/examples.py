"""Sentences to begin with, chosen so that a model's tokenizer has most of their words whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api import Model

_NEARLY = 1.3
"""times as many tokens per letter as the best example: still as good, so the earlier one is taken"""
_TEXTS = (
    "Xuanyuan had a budgerigar when he was young . It had green feathers .",
    "The animal didn't cross the street because it was too tired.",
    "A dog runs across the grass .",
    "轩辕有一只虎皮鹦鹉。它有绿色的羽毛。",
    "轩辕有一只虎皮鹦鹉",
)
_SOURCES = {  # text -> its language
    "轩辕有一只虎皮鹦鹉": "zh",
    "Xuanyuan has a budgerigar .": "en",
    "A dog runs across the grass .": "en",
    "Ein Mann fährt Fahrrad .": "de",
}
_PAIRS = (
    (
        "The animal didn't cross the street because it was too tired.",
        "The animal didn't cross the street because it was too wide.",
    ),
    (
        "Xuanyuan has a budgerigar ; it has green feathers .",
        "Xuanyuan has a dog ; it has brown fur .",
    ),
    ("轩辕有一只虎皮鹦鹉。它是绿色的。", "轩辕有一只小狗。它是棕色的。"),
)

T = TypeVar("T", bound=Sequence[str] | str)


def example(model: Model) -> str:
    """A text that the model reads in few tokens; of a translator a source, in its language if known."""
    reader = model.source_tokenizer or model.tokenizer
    if not model.translates:
        return _fitting(reader, _TEXTS)
    language = (model.settings.get("text") or {}).get("source_language")
    known = [text for text, spoken in _SOURCES.items() if spoken == language]
    return _fitting(reader, known or list(_SOURCES))


def example_pair(model: Model) -> tuple[str, str]:
    """Two texts of which the model reads both in few tokens, and which differ in a word or a few."""
    return _fitting(model.source_tokenizer or model.tokenizer, _PAIRS)


def _fitting(reader: Any, candidates: Sequence[T]) -> T:
    """The first of those that take about as few tokens as any."""
    costs = [_cost(reader, each) for each in candidates]
    return next(
        each for each, cost in zip(candidates, costs, strict=True) if cost <= _NEARLY * min(costs)
    )


def _cost(reader: Any, texts: Sequence[str] | str) -> float:
    """Tokens per letter: large for what is spelled, or read byte by byte."""
    joined = texts if isinstance(texts, str) else " ".join(texts)
    try:
        return len(reader.encode(joined)) / len(joined.replace(" ", ""))
    except UserError:  # it has no token for a character
        return float("inf")
