"""Run folders and checkpoints: what is kept on disk, and how it gets there whole.

The names below are loaded when first used, so that importing the room costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "RunFolder": "run",
    "Loaded": "run",
    "load_model": "run",
    "save_model": "run",
    "make_config": "run",
    "resolve_run": "run",
    "write_checkpoint": "checkpoints",
    "read_latest_checkpoint": "checkpoints",
    "append_metrics": "metrics",
    "read_metrics": "metrics",
    "cut_metrics": "metrics",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
