"""Where a model has attention: which modules, what they may see, how their axes are labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from budgerigar.inspection.labels import Spelling
from budgerigar.inspection.matrix import KEY_AXIS, QUERY_AXIS
from budgerigar.inspection.places import places
from budgerigar.layers.visibility import View


@dataclass(frozen=True)
class Site:
    """One kind of attention of a model: where it stands, what it sees, how its axes are labelled.

    predicts: rows are named by the token that is being predicted there, not by the one just read.
    blank: the source is switched off, so nothing is seen.
    """

    of: str
    kind: str
    modules: tuple[Any, ...]
    view: View
    bias: Tensor | None
    query_spelling: Spelling
    key_spelling: Spelling
    query_axis: str = QUERY_AXIS
    key_axis: str = KEY_AXIS
    predicts: bool = False
    blank: bool = False


def sites_of(
    network: Any, inputs: dict[str, Tensor], values: dict[str, Tensor], spelling: Spelling
) -> list[Site]:
    """The self-attention of a model of one stack, with the view that the forward pass had."""
    tokens = inputs["tokens"]
    positions = inputs.get("positions")
    if positions is None:
        positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
    documents = inputs.get("document_ids")
    sites = []
    for place in places(network):
        view = View(
            positions,
            positions,
            causal=place.of == "decoder",
            query_documents=documents,
            key_documents=documents,
        )
        bias = shared_bias(network, place.of, view)
        sites.append(Site(place.of, "self", place.modules, view, bias, spelling, spelling))
    return [site for site in sites if f"{site.modules[0].name}.query" in values]


def shared_bias(network: Any, of: str, view: View) -> Tensor | None:
    """The position bias that all layers of a stack share, if it has one."""
    bias: Tensor | None = getattr(network, of).bias(view)
    return bias
