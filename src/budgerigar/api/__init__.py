"""What a Python program, the command line and the servers all use: Model, load, train and kin.

Nothing is decided here; each call goes to the room that does it. The names are imported when
first used, because the corpora and the cards need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgerigar.api.ablate import ablate
    from budgerigar.api.cards import card, eject
    from budgerigar.api.chat import conversation
    from budgerigar.api.compare import compare
    from budgerigar.api.data import check, get, listing
    from budgerigar.api.encoders import need_classifier
    from budgerigar.api.evaluation import evaluate, test_split
    from budgerigar.api.filling import fills_spans
    from budgerigar.api.forms import convert, doctor
    from budgerigar.api.heads import head_roles
    from budgerigar.api.lessons import why, why_screen, why_table
    from budgerigar.api.loading import load
    from budgerigar.api.looking import back_off, busiest_head, guesses, heads_in_words
    from budgerigar.api.model import Model
    from budgerigar.api.score import Score
    from budgerigar.api.training import Run, train
    from budgerigar.api.translation import (
        aligned_translations,
        need_translator,
        translation_options,
        translations,
    )

_HOMES = {
    "Model": "model",
    "Run": "training",
    "Score": "score",
    "ablate": "ablate",
    "aligned_translations": "translation",
    "back_off": "looking",
    "busiest_head": "looking",
    "card": "cards",
    "check": "data",
    "compare": "compare",
    "conversation": "chat",
    "convert": "forms",
    "doctor": "forms",
    "eject": "cards",
    "evaluate": "evaluation",
    "fills_spans": "filling",
    "get": "data",
    "guesses": "looking",
    "head_roles": "heads",
    "heads_in_words": "looking",
    "listing": "data",
    "need_classifier": "encoders",
    "load": "loading",
    "need_translator": "translation",
    "test_split": "evaluation",
    "train": "training",
    "translation_options": "translation",
    "translations": "translation",
    "why": "lessons",
    "why_screen": "lessons",
    "why_table": "lessons",
}

__all__ = [
    "Model",
    "Run",
    "Score",
    "ablate",
    "aligned_translations",
    "back_off",
    "busiest_head",
    "card",
    "check",
    "compare",
    "conversation",
    "convert",
    "doctor",
    "eject",
    "evaluate",
    "fills_spans",
    "get",
    "guesses",
    "head_roles",
    "heads_in_words",
    "listing",
    "load",
    "need_classifier",
    "need_translator",
    "test_split",
    "train",
    "translation_options",
    "translations",
    "why",
    "why_screen",
    "why_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'budgerigar.api' has no attribute {name!r}")
    value = getattr(import_module(f"budgerigar.api.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
