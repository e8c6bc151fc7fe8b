"""Reads the probes' texts with a network and adds up what every head does. See `roles`.

Shapes: L layers, H heads of a layer, T query and S key positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from budgerigar.inspection.alignments import Words, pool
from budgerigar.inspection.role_names import ROLES
from budgerigar.inspection.role_probes import Asked, Example, Probe, Reader, parking
from budgerigar.inspection.role_scores import (
    SINK_EPSILON,
    RoleCount,
    confidence,
    entropy,
    sink_share,
    uniform_weights,
)
from budgerigar.inspection.sites import Site
from budgerigar.inspection.traces import Trace

Array = np.ndarray
Place = tuple[str, str]  # (of, kind)


@dataclass
class Habits:
    """Entropy, confidence and rest on the first token: sums over texts, (heads,) each."""

    texts: int = 0
    entropy: Array = field(default_factory=lambda: np.zeros(0))
    confidence: Array = field(default_factory=lambda: np.zeros(0))
    sinks: Array = field(default_factory=lambda: np.zeros(0))

    def add(self, entropy: Array, confidence: Array, share: Array) -> None:
        """One text's, all heads of a kind of attention; nan counts as nothing."""
        if not self.texts:
            self.entropy, self.confidence, self.sinks = (np.zeros(len(entropy)) for _ in range(3))
        self.texts += 1
        self.entropy += np.nan_to_num(entropy)
        self.confidence += np.nan_to_num(confidence)
        self.sinks += np.nan_to_num(share) > SINK_EPSILON


@dataclass
class Measured:
    """What one network's heads did: counts of each role by layer, and habits."""

    names: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    counts: dict[tuple[Place, str], list[RoleCount]] = field(default_factory=dict)
    habits: dict[Place, Habits] = field(default_factory=dict)


def measure(
    reader: Reader, probes: Sequence[Probe], network: Any = None, job: Any = None
) -> Measured:
    """Let `network` (None: the model) read all examples; job: progress to advance, one a text."""
    found = Measured()
    special = [
        _specials(t) for t in (reader.tokenizer, reader.source_tokenizer or reader.tokenizer)
    ]
    for example in (example for probe in probes for example in probe.examples):
        seen = reader.trace(example, network)
        asked = example.ask(seen)
        for site in seen.sites:
            here = (site.of, site.kind)
            found.names.setdefault(here, tuple(seen.names(*here)))
            wanted = [one for one in asked if one.site == here]
            if wanted or example.natural:
                _read_site(found, seen, site, wanted, example, special)
        if job is not None:
            job.advance()
    return found


def _specials(tokenizer: Any) -> set[int]:
    return {int(token) for token in tokenizer.special_ids.values()}


def _read_site(
    found: Measured,
    seen: Trace,
    site: Site,
    asked: Sequence[Asked],
    example: Example,
    special: Sequence[set[int]],
) -> None:
    """Add what the heads of one kind of attention do on one text."""
    here = (site.of, site.kind)
    of_source = hasattr(seen, "source_ids") and (site.of == "encoder" or site.kind == "cross")
    keys = list(seen.source_ids) if of_source else seen.ids  # type: ignore[attr-defined]
    parked = parking(site, special[1] if of_source else special[0], keys)
    habits: list[tuple[Array, Array, Array]] = []
    for layer, module in enumerate(site.modules):
        weights = seen.steps(site, layer).weights[0].detach().cpu().double().numpy()  # (H,T,S)
        visible = ~seen.mask(site, layer).hidden
        uniform = uniform_weights(visible)
        pooled = _Pooled(weights, uniform, parked)
        for one in asked:
            counts = found.counts.setdefault((here, one.role), [])
            if len(counts) == layer:
                elsewhere = ROLES[one.role].kind == "gold"
                counts.append(RoleCount(module.n_heads, elsewhere))
            looked, alike, away = pooled.units(one)
            counts[layer].add(looked, one.right, alike, away)
        if example.natural:
            habits.append(
                (
                    entropy(weights, visible),
                    confidence(weights, visible, parked),
                    sink_share(weights, visible),
                )
            )
    if habits:
        parts = [np.concatenate(part) for part in zip(*habits, strict=True)]
        found.habits.setdefault(here, Habits()).add(*parts)


class _Pooled:
    """The weights of one layer on one text, between tokens and, once for all roles, between words."""

    def __init__(self, weights: Array, uniform: Array, parked: Array) -> None:
        self.tokens = weights, uniform, parked
        self._words: dict[tuple[int, int], tuple[Array, Array, Array]] = {}

    def units(self, one: Asked) -> tuple[Array, Array, Array]:
        """weights (H,Q,K), uniform (Q,K), parking (K,) in the units that `one` is asked in."""
        if one.rows is None or one.columns is None:
            return self.tokens
        key = id(one.rows), id(one.columns)
        if key not in self._words:
            weights, uniform, parked = self.tokens
            self._words[key] = (
                pool(weights, one.rows, one.columns),
                pool(uniform, one.rows, one.columns),
                _parked_words(one.columns, parked),
            )
        return self._words[key]


def _parked_words(words: Words, parked: Array) -> Array:
    """(words + 1,): no word at all, and words with a token where heads park."""
    found = np.zeros(len(words) + 1, dtype=bool)
    found[-1] = True
    for token in np.flatnonzero(parked):
        found[words.of_token[token]] = True  # -1, of no word, is the last
    return found
