"""An encoder-decoder that does not see its source: what would the target alone say?"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.layers.taps import Replacement, Taps


def _zeros(value: Tensor) -> Tensor:
    return value.new_zeros(()).expand(value.shape)


# names of the taps through which a source reaches the decoder
WAYS_IN = (
    "decoder.*.cross_attention.output",
    "decoder.*.hidden.start",  # a recurrent decoder's first hidden vector and cell
    "decoder.*.cell.start",
    "decoder.*.context",  # the encoder's last state, where it enters every step
)


class WithoutSource:
    """A view of a network in which everything that comes from the source is zero.

    `taps` given by the caller work as ever: they see the zeros.
    """

    def __init__(self, network: Any) -> None:
        if getattr(network, "encoder", None) is None or getattr(network, "decoder", None) is None:
            raise UserError("this model reads no source, so there is none to blank")
        self.network = network

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "network":  # asked for before there is a network
            raise AttributeError(name)
        return getattr(self.network, name)

    def __call__(self, *args: Any, **named: Any) -> Tensor:
        return self.forward(*args, **named)

    def forward(self, *args: Any, taps: Taps | None = None, **named: Any) -> Tensor:
        """As the network's `forward`, without its source."""
        return self.network.forward(*args, taps=_blanking(taps), **named)

    def start(self, *args: Any, taps: Taps | None = None, **named: Any) -> Any:
        """As the network's `start`, without its source."""
        return self.network.start(*args, taps=_blanking(taps), **named)

    def step(self, *args: Any, taps: Taps | None = None, **named: Any) -> Any:
        """As the network's `step`, without its source."""
        return self.network.step(*args, taps=_blanking(taps), **named)


def _blanking(taps: Taps | None) -> Taps:
    """`taps` with the ways in closed; the caller's own replacements come after."""
    mine: dict[str, Replacement] = dict.fromkeys(WAYS_IN, _zeros)
    if taps is None:
        return Taps(replace=mine)
    blanked = Taps(taps.patterns, {**mine, **taps.replacements})
    blanked.values, blanked.seen, blanked.used = taps.values, taps.seen, taps.used
    return blanked
