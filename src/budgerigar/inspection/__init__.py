"""Looking inside: traces, the steps of attention, links between words, heat maps, switched-off heads.

Names are imported when first used: labels, colours and pictures need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgerigar.inspection.attribution import Attribution, attribute_by_key, attribute_logit
    from budgerigar.inspection.block import BlockAt, block_at, without_residual, word_changes
    from budgerigar.inspection.born import roles_through_training
    from budgerigar.inspection.differences import compare_heads
    from budgerigar.inspection.editing import EditedNetwork, edited_network, edited_taps
    from budgerigar.inspection.heads import Head
    from budgerigar.inspection.lens import Lens, lens_logits, logit_lens
    from budgerigar.inspection.links import Links
    from budgerigar.inspection.masked_out import mask_each
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
    from budgerigar.inspection.role_results import HeadRoles
    from budgerigar.inspection.roles import head_roles
    from budgerigar.inspection.surprise import surprise_text
    from budgerigar.inspection.switched import switch_off
    from budgerigar.inspection.traces import Trace, trace

_HOMES = {
    "Attribution": "attribution",
    "BlockAt": "block",
    "EditedNetwork": "editing",
    "Head": "heads",
    "HeadRoles": "role_results",
    "Lens": "lens",
    "Links": "links",
    "Matrix": "matrix",
    "Path": "paths",
    "Trace": "traces",
    "attribute_by_key": "attribution",
    "attribute_logit": "attribution",
    "block_at": "block",
    "compare_heads": "differences",
    "distance_bias": "position_views",
    "edited_network": "editing",
    "edited_taps": "editing",
    "head_roles": "roles",
    "lens_logits": "lens",
    "logit_lens": "lens",
    "mask_each": "masked_out",
    "path_of": "paths",
    "position_table": "position_views",
    "roles_through_training": "born",
    "rotary_turns": "position_views",
    "shuffle": "position_views",
    "sinusoid_table": "position_views",
    "slide": "position_views",
    "surprise_text": "surprise",
    "switch_off": "switched",
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
    "HeadRoles",
    "Lens",
    "Links",
    "Matrix",
    "Path",
    "Trace",
    "attribute_by_key",
    "attribute_logit",
    "block_at",
    "compare_heads",
    "distance_bias",
    "edited_network",
    "edited_taps",
    "head_roles",
    "lens_logits",
    "logit_lens",
    "mask_each",
    "path_of",
    "position_table",
    "roles_through_training",
    "rotary_turns",
    "shuffle",
    "sinusoid_table",
    "slide",
    "surprise_text",
    "switch_off",
    "trace",
    "wavelengths",
    "without_residual",
    "word_changes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
