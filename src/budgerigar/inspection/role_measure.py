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
    Eligible,
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
_TOGETHER = 16  # texts of one pass


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


class Texts:
    """The examples of some probes, to be read by one network after the other: the model, an untrained
    copy, the model at each checkpoint. What does not depend on the weights is worked out once.
    """

    def __init__(self, reader: Reader, probes: Sequence[Probe]) -> None:
        self.reader, self.probes = reader, list(probes)
        examples = [example for probe in probes for example in probe.examples]
        # texts of like lengths are read together
        order = sorted(
            examples, key=lambda one: (one.source is None, len(one.source or ()), len(one.ids))
        )
        self.batches = [order[at : at + _TOGETHER] for at in range(0, len(order), _TOGETHER)]
        self._questions: dict[int, list[Asked]] = {}
        self._known: dict[tuple[int, Place, int | None], _Known] = {}
        tokenizers = (reader.tokenizer, reader.source_tokenizer or reader.tokenizer)
        self._special = [{int(t) for t in one.special_ids.values()} for one in tokenizers]

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def measure(self, network: Any = None, job: Any = None, share: float = 1.0) -> Measured:
        """Let `network` (None: the model) read all; job: progress, advanced by `share` a text."""
        found = Measured()
        for batch in self.batches:
            for example, seen in zip(batch, self.reader.traces(batch, network), strict=True):
                for site in seen.sites:
                    found.names.setdefault(
                        (site.of, site.kind), tuple(seen.names(site.of, site.kind))
                    )
                    self._read(found, seen, site, example)
                if job is not None:
                    job.advance(share)
        return found

    def _read(self, found: Measured, seen: Trace, site: Site, example: Example) -> None:
        """Add what the heads of one kind of attention do on one text."""
        here, habits = (site.of, site.kind), []
        for layer, module in enumerate(site.modules):
            known = self._what(example, seen, site, layer)
            if not (known.asked or example.natural):
                continue
            weights = seen.steps(site, layer).weights[0].detach().cpu().double().numpy()  # (H,T,S)
            pooled: dict[tuple[int, int], Array] = {}
            for one, right in known.asked:
                counts = found.counts.setdefault((here, one.role), [])
                if len(counts) == layer:
                    counts.append(RoleCount(module.n_heads))
                counts[layer].add(_in_units(one, weights, pooled), right)
            if example.natural:
                seeing = known.visible
                habits.append(
                    (
                        entropy(weights, seeing),
                        confidence(weights, seeing, known.parked),
                        sink_share(weights, seeing),
                    )
                )
        if habits:
            parts = [np.concatenate(part) for part in zip(*habits, strict=True)]
            found.habits.setdefault(here, Habits()).add(*parts)

    def _what(self, example: Example, seen: Trace, site: Site, layer: int) -> _Known:
        """What is asked of a layer: the same for all with the same window."""
        here = (site.of, site.kind)
        key = (id(example), here, site.modules[layer].window)
        if key not in self._known:
            asked = [one for one in self._asked(example, seen) if one.site == here]
            of_source = hasattr(seen, "source_ids") and (
                site.of == "encoder" or site.kind == "cross"
            )
            keys = list(seen.source_ids) if of_source else seen.ids  # type: ignore[attr-defined]
            parked = parking(site, self._special[of_source], keys)
            visible = ~seen.mask(site, layer).hidden
            self._known[key] = _Known(visible, parked, _eligible(asked, visible, parked))
        return self._known[key]

    def _asked(self, example: Example, seen: Trace) -> list[Asked]:
        """Of all kinds of attention of a text."""
        if id(example) not in self._questions:
            self._questions[id(example)] = example.ask(seen)
        return self._questions[id(example)]


@dataclass(frozen=True)
class _Known:
    """Of one text and one kind of attention, whatever the weights: what is visible (T,S), where idle
    heads park (S,), what is right for each role.
    """

    visible: Array
    parked: Array
    asked: list[tuple[Asked, Eligible]]


def _eligible(
    asked: Sequence[Asked], visible: Array, parked: Array
) -> list[tuple[Asked, Eligible]]:
    """Each question in its own units, tokens or words."""
    uniform = uniform_weights(visible)
    pooled: dict[tuple[int, int], Array] = {}
    found = []
    for one in asked:
        away = parked if one.columns is None else _parked_words(one.columns, parked)
        gold = ROLES[one.role].kind == "gold"
        found.append((one, Eligible(one.right, _in_units(one, uniform, pooled), away, gold)))
    return found


def _in_units(one: Asked, weights: Array, pooled: dict[tuple[int, int], Array]) -> Array:
    """Weights (…,T,S) in the units of a question; pooled: words of one text, once for all roles."""
    if one.rows is None or one.columns is None:
        return weights
    key = id(one.rows), id(one.columns)
    if key not in pooled:
        pooled[key] = pool(weights, one.rows, one.columns)
    return pooled[key]


def _parked_words(words: Words, parked: Array) -> Array:
    """(words + 1,): no word at all, and words with a token where heads park."""
    found = np.zeros(len(words) + 1, dtype=bool)
    found[-1] = True
    for token in np.flatnonzero(parked):
        found[words.of_token[token]] = True  # -1, of no word, is the last
    return found
