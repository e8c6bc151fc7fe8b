"""What was measured of a network, kept for as long as its weights stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class OfNetwork(Generic[T]):
    """A value for each network, made anew when its weights have changed; it goes with the network."""

    def __init__(self) -> None:
        self._values: WeakKeyDictionary[Any, tuple[int, T]] = WeakKeyDictionary()

    def get(self, network: Any, make: Callable[[], T]) -> T:
        """The value of `network`; `make` makes it."""
        version = weights_version(network)
        known = self._values.get(network)
        if known is None or known[0] != version:
            known = self._values[network] = version, make()
        return known[1]


def weights_version(network: Any) -> int:
    """Grows with every change of a weight in place: training, loading."""
    parameters = getattr(network, "parameters", None)  # an n-gram has none; views have the model's
    found = parameters() if callable(parameters) else ()
    return sum(p._version for p in found if not p.is_inference())
