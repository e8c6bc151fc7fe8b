"""Looking inside: traces, the steps of attention, links between words, heat maps, switched-off heads.

Names are imported when first used: labels, colours and pictures need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgerigar.inspection.attribution import Attribution, attribute_by_key, attribute_logit
    from budgerigar.inspection.block import BlockAt, block_at, without_residual, word_changes
    from budgerigar.inspection.editing import EditedNetwork, edited_network, edited_taps
    from budgerigar.inspection.heads import Head
    from budgerigar.inspection.lens import Lens, lens_logits, logit_lens
    from budgerigar.inspection.links import Links
    from budgerigar.inspection.matrix import Matrix
    from budgerigar.inspection.paths import Path, path_of
    from budgerigar.inspection.position_views import (
        distance_bias,
        position_table,
        rotary_turns,
        shuffle,
        sinusoid_table,
        slide,
        wavelengths,
    )
    from budgerigar.inspection.surprise import surprise_text
    from budgerigar.inspection.traces import Trace, trace

_HOMES = {
    "Attribution": "attribution",
    "BlockAt": "block",
    "EditedNetwork": "editing",
    "Head": "heads",
    "Lens": "lens",
    "Links": "links",
    "Matrix": "matrix",
    "Path": "paths",
    "Trace": "traces",
    "attribute_by_key": "attribution",
    "attribute_logit": "attribution",
    "block_at": "block",
    "distance_bias": "position_views",
    "edited_network": "editing",
    "edited_taps": "editing",
    "lens_logits": "lens",
    "logit_lens": "lens",
    "path_of": "paths",
    "position_table": "position_views",
    "rotary_turns": "position_views",
    "shuffle": "position_views",
    "sinusoid_table": "position_views",
    "slide": "position_views",
    "surprise_text": "surprise",
    "trace": "traces",
    "wavelengths": "position_views",
    "without_residual": "block",
    "word_changes": "block",
}

__all__ = [
    "Attribution",
    "BlockAt",
    "EditedNetwork",
    "Head",
    "Lens",
    "Links",
    "Matrix",
    "Path",
    "Trace",
    "attribute_by_key",
    "attribute_logit",
    "block_at",
    "distance_bias",
    "edited_network",
    "edited_taps",
    "lens_logits",
    "logit_lens",
    "path_of",
    "position_table",
    "rotary_turns",
    "shuffle",
    "sinusoid_table",
    "slide",
    "surprise_text",
    "trace",
    "wavelengths",
    "without_residual",
    "word_changes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
