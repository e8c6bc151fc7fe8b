"""Budgerigar: train, run and look inside language models.

    import budgerigar as bg
    run = bg.train("my.txt")
    run.model.generate("Once upon a time")

The names below are imported when first used, so `import budgerigar` is quick and loads no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api import Model, Run, Score, ablate, compare, evaluate, load, train, why
    from budgerigar.generation.options import SamplingOptions
    from budgerigar.generation.translation_options import TranslationOptions
    from budgerigar.layers.config import TransformerConfig
    from budgerigar.training.recipe import Recipe, load_recipe

__version__ = "0.1.0"

_HOMES = {
    "Model": "budgerigar.api",
    "Recipe": "budgerigar.training.recipe",
    "Run": "budgerigar.api",
    "SamplingOptions": "budgerigar.generation.options",
    "Score": "budgerigar.api",
    "TransformerConfig": "budgerigar.layers.config",
    "TranslationOptions": "budgerigar.generation.translation_options",
    "ablate": "budgerigar.api",
    "compare": "budgerigar.api",
    "evaluate": "budgerigar.api",
    "load": "budgerigar.api",
    "load_recipe": "budgerigar.training.recipe",
    "train": "budgerigar.api",
    "why": "budgerigar.api",
}

__all__ = [
    "Model",
    "Recipe",
    "Run",
    "SamplingOptions",
    "Score",
    "TransformerConfig",
    "TranslationOptions",
    "UserError",
    "ablate",
    "compare",
    "evaluate",
    "load",
    "load_recipe",
    "train",
    "why",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'budgerigar' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
