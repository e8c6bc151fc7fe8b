"""Taps: named looks into a forward pass, and named changes to it.

Every intermediate value has a name made of the module's own, so that weights and values share one
grammar: `decoder.3.self_attention.query` (value), `decoder.3.self_attention.query.weight` (weight).
Recording only looks; replacing changes answers, which is what ablation is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from torch import Tensor

Replacement = Callable[[Tensor], Tensor]


class Taps:
    """Record values whose names match any of `record`; replace those whose names are in `replace`.

    `record` holds shell patterns (`decoder.*.residual_after`); `replace` maps a pattern to a
    function of the value that returns one of the same shape. `values` fills up during the pass:
    name -> detached tensor. Several `step`s with the same taps keep the last value of each name.
    """

    def __init__(
        self,
        record: Iterable[str] = (),
        replace: Mapping[str, Replacement] | None = None,
    ) -> None:
        self.patterns = (record,) if isinstance(record, str) else tuple(record)
        self.replacements = dict(replace or {})
        self.values: dict[str, Tensor] = {}
        self.seen: set[str] = set()
        self.used: set[str] = set()

    def wants(self, name: str) -> bool:
        """Whether a value of this name would be recorded."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def replaces(self, name: str) -> bool:
        """Whether a value of this name would be changed."""
        return any(fnmatchcase(name, pattern) for pattern in self.replacements)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Pass a value through: changed if a replacement matches, recorded if a pattern does."""
        self.seen.add(name)
        for pattern, function in self.replacements.items():
            if fnmatchcase(name, pattern):
                changed = function(value)
                if changed.shape != value.shape:
                    raise ValueError(
                        f"the replacement of {name} returned shape {tuple(changed.shape)}; "
                        f"it must keep {tuple(value.shape)}"
                    )
                self.used.add(pattern)
                value = changed
        self.look(name, value)
        return value

    def look(self, name: str, value: Tensor) -> None:
        """Record a value if a pattern matches, without a chance to change it."""
        if self.wants(name):
            self.values[name] = value.detach()


def tap(taps: Taps | None, name: str, value: Tensor) -> Tensor:
    """`taps(name, value)`, or the value itself where nobody looks."""
    return value if taps is None else taps(name, value)
