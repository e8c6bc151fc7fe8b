"""Shapes of published models, by name; see papers.toml. Imports no torch."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from budgerigar.errors import UserError
from budgerigar.models.configs import ModelConfig, config_from_dict


@dataclass(frozen=True)
class Paper:
    """A published shape."""

    name: str
    config: ModelConfig
    source: str
    """where it is published"""
    published: str = ""
    """what is said there of its size"""
    note: str = ""
    """what is different here"""


@cache
def _read() -> dict[str, dict[str, Any]]:
    text = resources.files("budgerigar.models").joinpath("papers.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def papers() -> dict[str, str]:
    """Name -> where the shape is published."""
    return {name: str(entry["source"]) for name, entry in _read().items()}


def paper(name: str) -> Paper:
    """The published shape `name`; a `UserError` lists the names when there is none such."""
    if name not in _read():
        raise UserError(f"no paper's shape is called {name!r}; there are {', '.join(_read())}")
    entry = dict(_read()[name])
    config = config_from_dict({"kind": "transformer", **entry.pop("model")}).validate()
    return Paper(name, config, **entry)


def paper_config(name: str) -> ModelConfig:
    """The configuration of one of `papers()`."""
    return paper(name).config
