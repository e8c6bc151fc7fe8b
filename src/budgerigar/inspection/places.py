"""Where a network attends: its stacks' self- and cross-attention, whatever kind of network it is.

Traces, edits and alignments ask here, so that a Transformer and a recurrent translator with
Bahdanau's attention are looked at in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from budgerigar.errors import UserError


@dataclass(frozen=True)
class Place:
    """One kind of attention: of "encoder" or "decoder", kind "self" or "cross", a module a layer."""

    of: str
    kind: str
    modules: tuple[Any, ...]

    @property
    def stem(self) -> tuple[str, str]:
        """The parts of a tap's name before and after the layer: ("decoder", "cross_attention")."""
        return self.of, f"{self.kind}_attention"


def places(network: Any) -> list[Place]:
    """Encoder self, decoder self, decoder cross, as far as `network` has them."""
    found = []
    for of in ("encoder", "decoder"):
        stack: Any = getattr(network, of, None)
        if not hasattr(stack, "blocks"):
            continue
        blocks = list(stack.blocks())
        for kind in ("self", "cross"):  # a recurrent layer has no self-attention
            modules = [getattr(block, f"{kind}_attention", None) for block in blocks]
            there = tuple(module for module in modules if module is not None)
            if there:
                found.append(Place(of, kind, there))
    return found


def predicts_words(config: Any) -> bool:
    """Whether the logits are over the vocabulary: not vectors, nor classes."""
    return getattr(config, "token_head", True) and not getattr(config, "n_classes", 0)


def choose(
    found: Sequence[Any], network: Any, of: str | None, kind: str | None, purpose: str
) -> Any:
    """The one of `found` (each with `.of` and `.kind`) that `of` and `kind` name; else `UserError`.

    purpose: what a network without any attention does not have, e.g. "attention to look at".
    """
    if not found:
        raise UserError(f"this model ({type(network).__name__}) has no {purpose}")
    fitting = [place for place in found if of in (None, place.of) and kind in (None, place.kind)]
    if len(fitting) == 1:
        return fitting[0]
    choices = ", ".join(f"of={p.of!r} kind={p.kind!r}" for p in found)
    if not fitting:
        raise UserError(f"no attention of={of!r} kind={kind!r} in this model; it has {choices}")
    raise UserError(f"this model has several kinds of attention; say which: {choices}")
