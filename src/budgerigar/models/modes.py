"""Running a network that may be in the middle of its training, and leaving it as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_dropout(network: Any) -> Iterator[None]:
    """No dropout inside; afterwards each module is in the mode that it was in, frozen parts too.

    A model without modules (an n-gram) has no dropout. Views of a network count as the network.
    """
    found = getattr(network, "modules", None)
    modes = [(module, module.training) for module in found()] if callable(found) else []
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def without_source(network: Any) -> Any:
    """A view of an encoder-decoder on which the source has no influence; the original is unchanged.

    The Transformer: the output of every cross-attention is zero. An RNN: the state that its decoder
    starts from and the context that its attention gives are zero. The view has the methods of the
    network, so it is searched, scored and looked into like one.
    """
    from budgerigar.models.blank_source import WithoutSource

    return WithoutSource(network)
