"""What a site holds of a look beyond a file: roles, training, heads switched off, texts compared, texts
written on.

A live page computes them when a reader asks. Of a site they are recorded, as many as these bounds
allow; where one is missing, the page says that it needs the live page. What belongs to a question of
its own (a head switched off, a checkpoint, a masked token) is `Recorded` by itself, so that a site can
keep it in a file of its own.

    roles      all of them; they do not depend on the text
    born       at up to `MOST_CHECKPOINTS` moments of the training, as the page asks
    head       at the same moments, fewer where their weights would be more than `MOST_CELLS`
    generate   `WRITINGS`
    compare    with up to `MOST_COMPARED` other questions of the site, the same model's first
    off        each head by itself, where the model has at most `MOST_OFF`; of at most `MOST_TRIED`
               heads also what becomes of the model's abilities and, for its first text, every way
               of switching off
    mask       each token by itself, of a text of at most `MOST_MASKED`
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from budgerigar.errors import UserError
from budgerigar.inspection.born import spread
from budgerigar.inspection.editing import ways_of
from budgerigar.inspection.heads import Head
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.records import (
    Params,
    Recorded,
    key_of,
    model_id,
    record,
    stored,
)
from budgerigar.inspection.views import Look, can, look_at, pack, value_of
from budgerigar.progress import track

MOST_CHECKPOINTS = 12
MOST_CELLS = 2_000_000
MOST_COMPARED = 6
MOST_OFF = 150
MOST_TRIED = 16
MOST_MASKED = 64
WRITINGS: tuple[Params, ...] = ({"temperature": 0}, *({"seed": seed} for seed in range(5)))
"""greedy, and five draws at the page's usual temperature"""
_BORN = {"most": MOST_CHECKPOINTS}  # as the page asks
_TOP = {"top": 8}


@dataclass
class Besides:
    """Adds to the records of a site's looks, and knows what was measured already.

    looks: all of the site; questions are compared among them. measured: also what is measured on texts
    of its own (roles, their training, abilities), which takes seconds to minutes.
    """

    looks: Sequence[Look]
    measured: bool = True
    _payloads: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _abilities: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for look in self.looks:
            look.resolve = self._resolve

    # -- in the look's own records -----------------------------------------------------------------
    def add_to(self, found: Recorded, look: Look, limit: float) -> None:
        """Roles, training, writing, comparisons; these as long as the look has under `limit` bytes."""
        views = can(look.model)
        once: dict[str, Params] = {"roles": {}, "born": _BORN} if self.measured else {}
        for name, params in once.items():
            if name in views and (name != "born" or len(self.checkpoints(look)) > 1):
                self._same_for_all(found, look, name, params)
        if "generate" in views and not {"off", "mask"} & look.question.keys():
            for params in WRITINGS:
                _keep(found, look, "generate", params)
        if self._tried(look):
            found.views.append("off")  # of the questions that switch one off
        for other in self._others(look) if "compare" in views else ():
            for site in look.trace.sites:
                if found.n_bytes < limit:
                    asked = {"other": other.question, "of": site.of, "kind": site.kind}
                    _keep(found, look, "compare", asked)

    def _same_for_all(self, found: Recorded, look: Look, name: str, params: Params) -> None:
        """A view in which the text plays no part: measured once a model."""
        key = (model_id(look), name)
        if key not in self._payloads:
            try:
                self._payloads[key] = stored(pack(value_of(look, name, params)))
            except UserError:
                self._payloads[key] = None
        if text := self._payloads[key]:
            found.records[key_of(name, params)] = text
            found.views.append(name)

    def _others(self, look: Look) -> list[Look]:
        """Questions to compare this one with: of the same model, then this text in other models."""
        rest = [one for one in self.looks if one is not look and one.pair == look.pair]
        fitting = [one for one in rest if "compare" in can(one.model)]
        mine = model_id(look)
        text = _text(look)
        own = [one for one in fitting if model_id(one) == mine]
        theirs = [one for one in fitting if model_id(one) != mine and _text(one) == text]
        return [*own, *theirs][:MOST_COMPARED]

    def _resolve(self, question: Params) -> Look:
        return next(look for look in self.looks if look.question == question)

    # -- of questions of their own -------------------------------------------------------------------
    def beside(self, look: Look) -> Iterator[Recorded]:
        """Heads switched off, moments of the training, tokens masked."""
        yield from without_its_source(look)
        yield from self._moments(look)
        yield from self._switched(look)
        yield from self._masked(look)

    def checkpoints(self, look: Look) -> list[str]:
        """Those of a model at which its heads are recorded, the same for all its texts."""
        names = list(getattr(look.original, "checkpoints", []))
        mine = [one for one in self.looks if model_id(one) == model_id(look)]
        cells = max((sum(h.weights.size for h in _heads(one)) for one in mine), default=0)
        most = min(MOST_CHECKPOINTS, MOST_CELLS // cells if cells else 0)
        return spread(names, most) if min(len(names), most) > 1 else []

    def _moments(self, look: Look) -> Iterator[Recorded]:
        names = self.checkpoints(look) if _plain(look) and "born" in can(look.model) else []
        with track("reading checkpoints", len(names), unit="checkpoints") as job:
            for name in names:
                at = _asked(look, checkpoint=name)
                yield record(at, heads=_heads(at), steps=False)
                job.advance()

    def _tried(self, look: Look) -> list[Head]:
        """The heads that are switched off one by one."""
        heads = _heads(look) if "off" in can(look.model) and _plain(look) else []
        return heads if len(heads) <= MOST_OFF else []

    def _switched(self, look: Look) -> Iterator[Recorded]:
        heads = self._tried(look)
        ways = ways_of(look.kind)
        first = next(one for one in self.looks if model_id(one) == model_id(look))
        if look is not first or len(heads) > MOST_TRIED:
            ways = ways[:1]
        asked = [(head, how) for how in ways for head in heads]
        with track("switching heads off", len(asked), unit="heads") as job:
            for head, how in asked:
                measured = self.measured and how == ways[0] and len(heads) <= MOST_TRIED
                yield self._without(look, head, how, measured)
                job.advance()

    def _without(self, look: Look, head: Head, how: str, measured: bool) -> Recorded:
        """The view `off` of a question that switches this head off."""
        site = head.site
        edited = _asked(look, off=[head.name], how=how, of=site.of, kind=site.kind)
        found = Recorded({**edited.question, "model": model_id(look)})
        for name in ("about", "read"):
            _keep(found, edited, name, {})
        value = value_of(edited, "off", _TOP)
        found.keep("off", _TOP, value)
        if measured:
            key = json.dumps([model_id(look), head.name, how, site.of, site.kind])
            if key not in self._abilities:
                told = value_of(edited, "off", {**_TOP, "measure": True})
                self._abilities[key] = told["abilities"]
            value = {**value, "abilities": self._abilities[key]}
            found.keep("off", {**_TOP, "measure": True}, value)
        return found

    def _masked(self, look: Look) -> Iterator[Recorded]:
        tokens = len(look.trace.ids)
        if look.kind != "encoder" or not _plain(look) or tokens > MOST_MASKED:
            return
        for at in range(tokens):
            hidden = _asked(look, mask=[at])
            found = Recorded({**hidden.question, "model": model_id(look)})
            try:
                found.keep("mask_out", {}, value_of(hidden, "mask_out", {}))
            except UserError:  # it fills nothing in
                return
            for name in ("about", "read"):
                _keep(found, hidden, name, {})
            yield found


def without_its_source(look: Look) -> Iterator[Recorded]:
    """What an encoder-decoder's page asks besides, to tell what the source is worth: its own
    translation with and without it, and this one with and without it.
    """
    trace = look.trace
    plain = _plain(look) and not {"blank", "prefix"} & look.question.keys()
    if not (isinstance(trace, PairTrace) and plain and hasattr(look.model, "without_source")):
        return
    end = look.end_ids[:1] == trace.targets[-1:]
    written = trace.targets[:-1] if end else trace.targets
    asked: list[dict[str, Any]] = [
        {"target": target, **blank} for target in (None, written) for blank in ({}, {"blank": True})
    ]
    own = {**look.question, "model": model_id(look)}
    for question in ({**own, **more} for more in asked):
        if _said(question) != _said(own):
            beside, kept = look_at(look.model, question), Recorded(question)
            for name in ("about", "read"):
                kept.keep(name, {}, value_of(beside, name))
            yield kept


def _said(question: Params) -> dict[str, Any]:
    return {name: part for name, part in question.items() if part is not None}


def _plain(look: Look) -> bool:
    """Whether nothing of the model or the text is changed by the question."""
    return not {"off", "checkpoint", "mask"} & _said(look.question).keys()


def _asked(look: Look, **more: Any) -> Look:
    """The same question with something changed."""
    load = getattr(look.original, "at_checkpoint", None)
    question = {**look.question, "model": model_id(look), **more}
    return look_at(look.original, question, load)


def _heads(look: Look) -> list[Head]:
    trace = look.trace
    return [head for site in trace.sites for head in trace.heads(of=site.of, kind=site.kind)]


def _text(look: Look) -> Any:
    return look.question.get("source", look.question.get("text"))


def _keep(found: Recorded, look: Look, name: str, params: Params) -> None:
    """One more view; one that cannot be (two texts of which nothing corresponds) is left out."""
    try:
        value = value_of(look, name, params)
    except UserError:
        return
    found.keep(name, params, value)
