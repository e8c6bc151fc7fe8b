"""What a file holds of a look: the answers to the page's questions, small enough to be sent by mail.

A record is a payload (`views/payload.py`), deflated and written in base64, under the canonical JSON of
[view, parameters]; parameters that are null or as by default are left out. Some records are no view of
their own; the page derives views from them (`explorer/page/derived.js`):

    of_head, of_layer   the parts of `steps` for all queries: one head's own, and what its layer shares
    matrices            W_Q, W_K, W_V and W_O of one head
    untrained           (N,T,S) weights of an untrained copy's heads
    turns               how positions are told in a later layer, where that differs by layer

Weights are stored as 16-bit fractions (8-bit ones of long texts), vectors as float16; every array
says how far that is from what was computed, and the page shows it. full: float32 throughout.

What every file has comes first; what only makes it better is kept while all together stay under
`SMALL` bytes, and always with full.

Shapes: T queries, S keys, E d_head, D d_model, N heads of one kind of attention.
"""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.heads import Head
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.sites import Site
from budgerigar.inspection.views import VIEWS, Look, Stored, can, pack, value_of
from budgerigar.inspection.views.linking import why_no_copy
from budgerigar.inspection.views.payload import Kind
from budgerigar.progress import track

SMALL = 3_900_000
"""bytes of a file beyond which nothing is added that it can do without"""
MOST_STEPS = 32_000_000
"""numbers of all heads' steps; beyond it a small file holds their weights alone"""
_SAME = 1e-3  # relative difference above which a head was switched off or replaced

Params = Mapping[str, Any]


@dataclass
class Recorded:
    """The records of one look. views: names of those that it answers; n_bytes: of all records."""

    question: dict[str, Any]
    records: dict[str, str] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)

    @property
    def n_bytes(self) -> int:
        """Of keys and records."""
        return sum(len(key) + len(text) for key, text in self.records.items())

    def keep(self, name: str, params: Params, value: Any) -> None:
        """Add one record and, where it is one, its view."""
        self.records[key_of(name, params)] = stored(pack(value))
        if name in VIEWS and name not in self.views:
            self.views.append(name)


def key_of(name: str, params: Params) -> str:
    """The name of a record."""
    defaults = DEFAULTS.get(name, {})
    said = {
        key: value
        for key, value in params.items()
        if value is not None and value != defaults.get(key)
    }
    return json.dumps([name, said], sort_keys=True, separators=(",", ":"), ensure_ascii=False)


DEFAULTS: dict[str, dict[str, Any]] = {
    name: {key: one.default for key, one in view.params.items() if one.optional}
    for name, view in VIEWS.items()
}
"""view -> parameter -> its value where it is not given; the page leaves the same ones out"""


def model_id(look: Look) -> str:
    """How the question names its model; where it does not, the model's own name."""
    return str(look.question.get("model") or look.name)


def stored(payload: bytes) -> str:
    """A payload as text: deflated (zlib), then base64."""
    return base64.b64encode(zlib.compress(payload, 6)).decode("ascii")


def payload_of(text: str) -> bytes:
    """The payload that such a text holds."""
    return zlib.decompress(base64.b64decode(text))


# -- recording -------------------------------------------------------------------------------------


def record(
    look: Look,
    full: bool = False,
    heads: Sequence[Head] | None = None,
    steps: bool = True,
    extra: Sequence[tuple[str, Params]] = (),
    limit: float = SMALL,
) -> Recorded:
    """Everything that a file can show of `look`.

    full: float32 and every extra, whatever the size. heads: only these heads, and nothing that needs
    the others. steps: without them, only text and attention are recorded, for a small frame.
    extra: further (view, parameters) to record, such as ("roles", {}); a `UserError` of theirs is
    raised. limit: bytes beyond which extras are left out.
    """
    found = Recorded({**look.question, "model": model_id(look)})
    recorder = _Recorder(look, found, full)
    for name, params in [("about", {}), ("read", {}), *extra]:
        recorder.ask(name, params, strict=True)
    if heads is not None:
        recorder.heads(heads, steps, matrices=True)
        return found
    recorder.attention(steps)
    if not steps:
        return found
    for name, params in _others(look):
        recorder.ask(name, params)
    if look.kind == "encoder" and "mask_out" not in found.views:
        found.views.append("mask_out")  # the page says why nothing can be filled in
    for cost, group in recorder.extras():
        if full or found.n_bytes + cost <= limit:
            group()
    return found


def _others(look: Look) -> Iterator[tuple[str, Params]]:
    """What is asked beside attention: of the last position, and of each layer."""
    trace, views = look.trace, can(look.model)
    last = len(trace.ids) - 1
    for name, params in {"lens": {}, "reach": {}, "back_off": {"top": 8}, "mask_out": {}}.items():
        if name in views:
            yield name, params
    if "alignment" in views:
        names = trace.names("decoder", "cross")
        yield from (("alignment", {"head": name}) for name in (None, "all", *names))
    if "glance" in views:
        ways = itertools.product(look.masked, ("from", "to"))
        yield from (("glance", {"position": place, "direction": way}) for place, way in ways)
    if "gates" in views:
        for layer in range(look.config.n_layers):
            yield "gates", {"layer": layer}
    if "attribution" in views:
        yield "attribution", {"position": last}
    for of, depth, end in _stacks(look) if "block" in views else ():
        for layer in range(depth):
            yield "block", {**_BLOCK, "layer": layer, "position": end, "of": of}


_BLOCK = {"units": 12, "words": 5}
"""As the page asks for a block."""


def _stacks(look: Look) -> list[tuple[str, int, int]]:
    """(encoder or decoder, layers, last position) of a Transformer."""
    trace, network = look.trace, look.network
    found = []
    for of in ("encoder", "decoder"):
        stack = getattr(network, of, None)
        if stack is not None:
            source = isinstance(trace, PairTrace) and of == "encoder"
            rows = len(trace.source_ids) if source else len(trace.ids)  # type: ignore[attr-defined]
            found.append((of, len(list(stack.blocks())), rows - 1))
    return found


class _Recorder:
    """Adds records of one look to `found`."""

    def __init__(self, look: Look, found: Recorded, full: bool) -> None:
        self.look, self.found, self.full = look, found, full
        self.store: Kind = "f4" if full else "f2"

    def ask(self, name: str, params: Params, strict: bool = False) -> None:
        """One view as it is; one that cannot be is left out unless it was asked for by name."""
        try:
            value = value_of(self.look, name, params)
        except UserError:
            if strict:
                raise
            return
        self.found.keep(name, params, _narrowed(name, value, self.store))

    # -- attention -----------------------------------------------------------------------------------
    def attention(self, steps: bool = True) -> None:
        """All heads of every kind of attention, small and large, with or without their steps."""
        trace = self.look.trace
        everything = [h for site in trace.sites for h in trace.heads(of=site.of, kind=site.kind)]
        for site in trace.sites:
            for layer in range(len(site.modules)):
                self.ask("grid", {"layer": layer, **_site(site)})
        self.heads(everything, steps)
        if everything:
            self.found.views.append("links")
        if steps:
            self.positions()

    def heads(self, heads: Sequence[Head], steps: bool = True, matrices: bool = False) -> None:
        """Each as a picture, and its steps where all together are not too many numbers."""
        steps = steps and (self.full or sum(map(_numbers, heads)) <= MOST_STEPS)
        layers = set()
        with track("recording heads", len(heads), unit="heads") as job:
            for head in heads:
                self.found.keep("head", _place(head), self._picture(head))
                if steps and head.difference < _SAME:
                    layer = {"layer": head.layer, **_site(head.site)}
                    if key_of("of_layer", layer) not in layers:
                        layers.add(key_of("of_layer", layer))
                        self._parts("of_layer", layer, head, "layer")
                    self._parts("of_head", _place(head), head, "head")
                    if matrices:
                        self._matrices(head)
                job.advance()
        if layers and "steps" not in self.found.views:
            self.found.views.append("steps")
        if heads:
            self.found.views.append("row")

    def _picture(self, head: Head) -> Any:
        value = value_of(self.look, "head", _place(head))
        if self.full:
            value["weights"] = Stored(head.weights, "f4")
        return value

    def _parts(self, name: str, params: Params, head: Head, parts: str) -> None:
        asked = {**_place(head), "full": self.full, "parts": parts}
        value = value_of(self.look, "steps", asked)
        self.found.keep(
            name, params, {k: v for k, v in value.items() if v is not None or k in _ALL}
        )

    def _matrices(self, head: Head) -> None:
        """What turns vectors into this head's, and its output back."""
        value = value_of(self.look, "steps", {**_place(head), "query": 0, "full": self.full})
        names = [name for name in ("W_Q", "W_K", "W_V", "W_O") if value[name] is not None]
        self.found.keep("matrices", _place(head), {name: value[name] for name in names})

    def positions(self) -> None:
        """How positions are told: the first layer's whole, what differs in the others."""
        if "positions" not in can(self.look.model):
            return
        self.ask("positions", {"show": "shuffle"})
        for site in self.look.trace.sites:
            if site.kind != "self":
                continue
            self.ask("positions", {"of": site.of, "kind": "self"})
            for layer in range(1, len(site.modules)):
                value = value_of(self.look, "positions", {"layer": layer, "of": site.of})
                own = {name: value[name] for name in ("turns", "bias")}
                self.found.keep("turns", {"layer": layer, "of": site.of}, own)

    # -- what a file can do without --------------------------------------------------------------------
    def extras(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """(bytes that it takes, about; what adds it), the most wanted first."""
        trace, views = self.look.trace, self.found.views
        for site in trace.sites:
            yield _TEXT * self._cells(site), partial(self._untrained, site)
        if "positions" in views:
            decoding = [s for s in trace.sites if s.of == "decoder" or not self.look.pair]
            slid = [_slide(h) for s in decoding for h in trace.heads(of=s.of, kind=s.kind)]
            yield 30 * len(slid) * len(trace.ids), partial(self._all, "positions", slid)
        if "attribution" in views:
            rest = range(len(trace.ids) - 1)
            yield (
                self._size("attribution") * len(rest),
                partial(self._all, "attribution", [{"position": p} for p in rest]),
            )
        blocks = [params for name, params in _others(self.look) if name == "block"]
        if "block" in views:
            size = self._size("block") * 1.2
            yield (
                size * len(blocks),
                partial(self._all, "block", [{**b, "without": True} for b in blocks]),
            )
        for site in trace.sites if "steps" in views else ():
            yield self._weights(site), partial(self._all_matrices, site)
        if "block" in views:
            others = [{**b, "position": p} for b in blocks for p in range(b["position"])]
            yield size * len(others), partial(self._all, "block", others)

    def _size(self, name: str) -> float:
        """The mean bytes of the records of a view."""
        sizes = [len(v) for k, v in self.found.records.items() if k.startswith(f'["{name}"')]
        return sum(sizes) / max(1, len(sizes))

    def _cells(self, site: Site) -> int:
        heads = sum(module.n_heads for module in site.modules)
        return heads * len(site.query_spelling) * len(site.key_spelling)

    def _weights(self, site: Site) -> float:
        """Bytes of the four matrices of every head, biases aside."""
        width = getattr(self.look.config, "d_model", 0)
        heads = sum(module.n_heads * module.d_head for module in site.modules)
        return _TEXT * 4 * width * heads * (4 if self.full else 2)

    def _untrained(self, site: Site) -> None:
        if why_no_copy(self.look):
            return
        heads = self.look.untrained.heads(of=site.of, kind=site.kind)
        weights = np.stack([head.weights for head in heads])
        kept = Stored(weights, "f4") if self.full else Stored(weights, "u2", 0.0, _top(weights))
        self.found.keep("untrained", _site(site), {"weights": kept})

    def _all(self, name: str, asked: Sequence[Params]) -> None:
        with track(f"recording {name}", len(asked), unit="answers") as job:
            for params in asked:
                self.ask(name, params)
                job.advance()

    def _all_matrices(self, site: Site) -> None:
        for head in self.look.trace.heads(of=site.of, kind=site.kind):
            self._matrices(head)


_TEXT = 4 / 3  # bytes of base64 to a byte; what deflating saves is small
_ALL = frozenset(
    ("capped", "biased", "sink", "normed", "key_inputs", "after_norm", "feed_forward", "after")
)
"""Parts of steps that are null where a model has no such step."""


def _narrowed(name: str, value: Any, store: Kind) -> Any:
    """`value` with its large tables of vectors stored as asked."""
    if name == "block":
        names = ("vectors", "added_vectors")
        return {**value, **{part: Stored(value[part], store) for part in names}}
    if name == "positions":
        tables = {part: value.get(part) for part in ("table", "sinusoids")}
        found = {
            part: {**t, "values": Stored(t["values"], store)} for part, t in tables.items() if t
        }
        return {**value, **found}
    return value


def _site(site: Site) -> dict[str, Any]:
    return {"of": site.of, "kind": site.kind}


def _place(head: Head) -> dict[str, Any]:
    return {"layer": head.layer, "head": head.head, **_site(head.site)}


def _slide(head: Head) -> dict[str, Any]:
    """As the page asks for a head whose sentence is slid, its last query."""
    return {**_place(head), "show": "slide", "query": len(head.site.query_spelling) - 1}


def _numbers(head: Head) -> int:
    """How many numbers the steps of a head are."""
    return 2 * head.weights.size + head.queries.size + head.keys.size + 2 * head.values.size


def _top(weights: np.ndarray) -> float:
    return max(1.0, float(weights.max(initial=0.0)))
