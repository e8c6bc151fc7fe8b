"""Looking inside: traces, the steps of attention, links between words, heat maps, switched-off heads.

Names are imported when first used: labels, colours and pictures need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgerigar.inspection.editing import EditedNetwork, edited_network, edited_taps
    from budgerigar.inspection.heads import Head
    from budgerigar.inspection.links import Links
    from budgerigar.inspection.matrix import Matrix
    from budgerigar.inspection.surprise import surprise_text
    from budgerigar.inspection.traces import Trace, trace

_HOMES = {
    "EditedNetwork": "editing",
    "Head": "heads",
    "Links": "links",
    "Matrix": "matrix",
    "Trace": "traces",
    "edited_network": "editing",
    "edited_taps": "editing",
    "surprise_text": "surprise",
    "trace": "traces",
}

__all__ = [
    "EditedNetwork",
    "Head",
    "Links",
    "Matrix",
    "Trace",
    "edited_network",
    "edited_taps",
    "surprise_text",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
