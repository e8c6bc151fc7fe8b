"""Who does what: roles of heads, when they came to be, what is lost without one; two texts compared.

Shapes: N heads of one kind of attention (L0.H0, L0.H1 …), C checkpoints. -1 in an array of shares:
not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from budgerigar.errors import UserError
from budgerigar.inspection.born import Born, Training, spread
from budgerigar.inspection.differences import Units, compare_heads
from budgerigar.inspection.kept import OfNetwork
from budgerigar.inspection.names import parse_head
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.role_results import HeadRoles, RoleRow, SiteRoles
from budgerigar.inspection.roles import head_roles
from budgerigar.inspection.switched import Switches, moved_guesses
from budgerigar.inspection.traces import Trace
from budgerigar.inspection.views.look import Look, look_at
from budgerigar.inspection.views.params import Param
from budgerigar.inspection.views.payload import Stored
from budgerigar.inspection.views.sides import Names, title_of, which
from budgerigar.progress import so_far

MOST_CELLS = 1 << 20
"""of difference maps that are sent together; beyond it only the head asked for, or the most moved"""
_measured: OfNetwork[HeadRoles] = OfNetwork()
_trainings: OfNetwork[Training] = OfNetwork()


def question() -> Param:
    """A question, as the page asks it; `look_at` checks its parts."""
    return Param(lambda v: v if isinstance(v, Mapping) else None, "a question, as a JSON object")


# -- roles -----------------------------------------------------------------------------------------


def roles(look: Look) -> dict[str, Any]:
    """The roles of every head, on texts of their own (the question's text plays no part).

    {"sites": [{"of", "kind", "title", "heads": [N names],
      "badges": [[keys of roles, "broad", "confident"] per head],
      "entropy": f4 (N) (0 one key … 1 all alike), "confidence": f4 (N), "sink_rate": f4 (N),
      "roles": [ROLE]}]}

    ROLE: {"role": key, "name", "what": words, "rule": words, "on": words (texts),
     "reason": str|null (why it was not measured; then no arrays), "found": [places of heads, the
     strongest first], "best": int|null, "best_untrained": float|null,
     "score", "recall", "precision", "elsewhere", "uniform", "untrained", "offset": f4 (N),
     "offset_at": i4 (N), "rows": i4 (N)}
    """
    found = measured_roles(look)
    return {"sites": [_site(site) for site in found]}


def measured_roles(look: Look) -> HeadRoles:
    """Of the model without the question's edits; measured once for as long as its weights stay."""
    network = look.original.network
    return _measured.get(network, lambda: head_roles(network, look.tokenizer, **_settings(look)))


def _settings(look: Look) -> dict[str, Any]:
    return {
        "source_tokenizer": look.source_tokenizer if look.pair else None,
        "start_id": None if look.pair else getattr(look.model, "start_id", None),
    }


def _site(site: SiteRoles) -> dict[str, Any]:
    badges = site.badges(keys=True)
    return {
        "of": site.of,
        "kind": site.kind,
        "title": title_of(site.of, site.kind),
        "heads": list(site.names),
        "badges": [badges[name] for name in site.names],
        "entropy": _shares(site.entropy),
        "confidence": _shares(site.confidence),
        "sink_rate": _shares(site.sink_rate),
        "roles": [_role(row) for row in site.rows],
    }


def _role(row: RoleRow) -> dict[str, Any]:
    told: dict[str, Any] = {
        "role": row.role.key,
        "name": row.role.name,
        "what": row.role.what,
        "rule": row.role.rule,
        "on": row.on,
        "reason": row.reason,
        "found": row.found,
        "best": row.best,
        "best_untrained": row.best_untrained,
    }
    if row.reason is not None:
        return told
    nothing = np.full(len(row.names), np.nan)
    return {
        **told,
        "score": _shares(row.score),
        "recall": _shares(row.recall),
        "precision": _shares(row.precision),
        "elsewhere": _shares(row.elsewhere),
        "uniform": _shares(row.null),
        "untrained": _shares(nothing if row.untrained is None else row.untrained),
        "offset": _shares(row.offset),
        "offset_at": np.array([at or 0 for at in row.offset_at], dtype=np.int32),
        "rows": row.rows.astype(np.int32),
    }


def _shares(values: np.ndarray) -> Stored:
    return Stored(np.nan_to_num(values, nan=-1.0), "f4")


# -- through training ------------------------------------------------------------------------------


def born(look: Look, most: int = 16) -> dict[str, Any]:
    """The same at up to `most` of the run's checkpoints, evenly spread, the first and last among them.

    Each checkpoint is measured once. What is known after each is handed out (`progress.so_far`) in the
    same form, births being those at the last of its checkpoints.

    {"checkpoints": [C names], "asked": [names of those that are chosen and can be read; more than C
       where not all are measured yet], "all": [names of all that are kept],
     "skipped": [[name, why]] (chosen, but it cannot be read),
     "sites": [{"of", "kind", "title", "heads": [N names],
       "roles": [{"role", "name", "on", "share": float (from which score on it is found),
         "scores": f4 (C,N), "found": u1 (C,N)}] (only those that were measured)}],
     "births": [{"role", "of", "kind", "head", "before": name|null (null: it has it from the first on),
       "at": name, "score_before": float|null, "score_at": float}],
     "curves": [{"ability", "name", "unit": "share"|"nats", "values": f4 (C), "on"}]}
    """
    names = list(getattr(look.original, "checkpoints", []))
    chosen = spread(names, most)
    training = _trainings.get(
        look.original.network, lambda: Training(look.tokenizer, **_settings(look))
    )
    told: dict[str, Any] = {}
    for found in training.through(chosen, lambda name: look.original.at_checkpoint(name).network):
        told = _through(found, chosen, names)
        so_far(told)
    return told


def _through(found: Born, chosen: list[str], names: list[str]) -> dict[str, Any]:
    return {
        "checkpoints": list(found.names),
        "asked": [name for name in chosen if name not in found.skipped],
        "all": names,
        "skipped": [[name, why] for name, why in found.skipped.items()],
        "sites": [_grown(found, site) for site in found[-1]],
        "births": [vars(birth) for birth in found.births()],
        "curves": [
            {
                "ability": first.key,
                "name": first.name,
                "unit": first.unit,
                "on": first.on,
                "values": np.array([there[n].value for there in found.abilities]),
            }
            for n, first in enumerate(found.abilities[0])
        ],
    }


def _grown(found: Born, site: SiteRoles) -> dict[str, Any]:
    told = []
    for row in site.rows:
        if row.reason is not None:
            continue
        over = [there.site(site.of, site.kind).role(row.role.key) for there in found]
        has = np.zeros((len(over), len(site.names)), dtype=np.uint8)
        for at, one in enumerate(over):
            has[at, one.found] = 1
        told.append(
            {
                "role": row.role.key,
                "name": row.role.name,
                "on": row.on,
                "share": row.role.share,
                "scores": _shares(np.stack([one.score for one in over])),
                "found": has,
            }
        )
    return {
        "of": site.of,
        "kind": site.kind,
        "title": title_of(site.of, site.kind),
        "heads": list(site.names),
        "roles": told,
    }


# -- switched off ----------------------------------------------------------------------------------


def off(look: Look, top: int = 8, measure: bool = False) -> dict[str, Any]:
    """What the question's switched-off heads change. `UserError` where it switches none off.

    measure: the abilities too (seconds), on texts of their own.

    {"off": [names], "how", "of", "kind",
     "guesses": [{"id", "label", "before": p, "after": p}]|null (next token; of an encoder null),
     "moved": float|null (share of the next token's probability that is elsewhere: total variation),
     "loss": {"before": nats per token, "after", "tokens"}|null (of the question's own text or target;
       null for one token, for an encoder, and where the model translates itself),
     "translation": {"before": str, "after": str}|null (the model's own),
     "reference": {"texts": words, "positions": int, "of": "text"|"source"|"translation"}|null (what
       mean and resample are taken from, and whose positions these are; null for zero),
     "abilities": [{"ability", "name", "unit": "share"|"nats", "before", "after", "tokens", "on"}]|null}
    """
    edits = look.edits
    if edits is None:
        raise UserError(
            'no head is switched off: the question needs "off", a list such as ["L0.H1"]'
        )
    asked = {key: part for key, part in look.question.items() if key not in ("off", "how")}
    whole = Look(look.original, asked)
    own = isinstance(look.trace, PairTrace) and look.trace.own
    tells = look.kind != "encoder" and not own
    return {
        **edits,
        "how": edits["how"] or "zero",
        "guesses": _guesses(look, whole, top) if tells else None,
        "moved": _moved(whole.trace, look.trace) if tells else None,
        "loss": _losses(whole.trace, look.trace) if tells else None,
        "translation": {"before": whole.trace.text, "after": look.trace.text} if own else None,
        "reference": _taken_from(look, edits),
        "abilities": _abilities(look) if measure else None,
    }


def _taken_from(look: Look, edits: dict[str, Any]) -> dict[str, Any] | None:
    edit = look.network.edit
    if edit.taken is None:
        return None
    side = "source" if edits["of"] == "encoder" else "translation"
    return {
        "texts": edit.taken.words,
        "positions": edit.positions,
        "of": side if look.pair else "text",
    }


def _guesses(look: Look, whole: Look, top: int) -> list[dict[str, Any]]:
    names = Names(look.tokenizer)
    found = moved_guesses(whole.trace, look.trace, -1, top)
    names.add([token for token, _, _ in found])
    return [
        {"id": token, "label": names.words[str(token)], "before": before, "after": after}
        for token, before, after in found
    ]


def _moved(before: Trace, after: Trace) -> float:
    chances = [torch.softmax(trace.logits[-1].double(), -1) for trace in (before, after)]
    return float(0.5 * (chances[1] - chances[0]).abs().sum())


def _losses(before: Trace, after: Trace) -> dict[str, Any] | None:
    both = [[t.nats for t in trace.surprise(1) if t.nats is not None] for trace in (before, after)]
    if not both[0]:
        return None
    means = [float(np.mean(nats)) for nats in both]
    return {"before": means[0], "after": means[1], "tokens": len(both[0])}


def _abilities(look: Look) -> list[dict[str, Any]]:
    asked, model = look.question, look.original
    given = asked.get("reference")
    reference = None if given is None else look.network.edit.taken
    switches = Switches(
        model.network,
        look.tokenizer,
        how=asked.get("how", "zero"),
        of=asked.get("of"),
        kind=asked.get("kind"),
        reference=reference,
        **_settings(look),
    )
    effect = switches.switch(asked["off"])
    return [change.as_dict() for change in effect.changes]


# -- two questions ---------------------------------------------------------------------------------


def compare(
    look: Look,
    other: Mapping[str, Any],
    of: str | None = None,
    kind: str | None = None,
    head: str | None = None,
    units: Units | None = None,
) -> dict[str, Any]:
    """This question (the first) beside `other` (the second): the same model, or one the page has.

    R rows and C columns correspond; see `compare_heads`. head: its map ("L2.H3"); null: all maps where
    they are small, else that of the most moved head.

    {"of", "kind", "title", "query_axis", "key_axis", "queries", "keys",
     "units": "tokens"|"words", "rows": [[name in the first, in the second]] (R), "columns": (C),
     "row_places": i4 (R,2), "column_places": i4 (C,2), "hidden": u1 (R,C) (1: masked in
     both, 2: in one of them), "lone_rows", "lone_columns": [[names in the first that have no
     counterpart in the second], [the other way round]],
     "heads": [{"name", "layer", "head", "moved": 0..1 (share of a row's weight that is elsewhere),
       "largest": [r, c], "difference": float there}], "alone": [heads of one of them only],
     "maps": {name: f4 (R,C), second - first}, "range": largest size of a difference in these maps}
    """
    second = _other(look, other)
    first, beside = look.trace, second.trace
    if of is None and kind is None and any(site.kind == "cross" for site in first.sites):
        kind = "cross"
    found = compare_heads(first, beside, of, kind, units)
    site = first.site(found.of, found.kind)
    ranked = sorted(found.heads, key=lambda one: -one.moved)
    shown = list(found.heads) if head is None else [found.head(head)]
    if found.hidden.size * len(shown) > MOST_CELLS:
        shown = ranked[:1]
    return {
        **which(first, site),
        "units": found.units,
        "rows": [list(names) for names in found.rows],
        "columns": [list(names) for names in found.columns],
        "row_places": np.array(found.row_places, dtype=np.int32),
        "column_places": np.array(found.column_places, dtype=np.int32),
        "hidden": found.hidden.astype(np.uint8) + found.once.astype(np.uint8),
        "lone_rows": [list(names) for names in found.lone_rows],
        "lone_columns": [list(names) for names in found.lone_columns],
        "heads": [_compared(one, site) for one in found.heads],
        "alone": list(found.alone),
        "maps": {one.name: Stored(one.map, "f4") for one in shown},
        "range": max(float(np.abs(one.map).max()) for one in shown),
    }


def _other(look: Look, question: Mapping[str, Any]) -> Look:
    """The second question resolved: by whoever knows all models, else about this model."""
    if look.resolve is not None:
        return look.resolve(question)
    asked = dict(question)
    if asked.get("model") not in (None, look.question.get("model")):
        raise UserError("comparing with another model needs `budgie explore` with both")
    return look_at(look.original, asked)


def _compared(one: Any, site: Any) -> dict[str, Any]:
    layer, head = parse_head(one.name, len(site.modules), site.modules[0].n_heads)
    row, column = one.largest
    return {
        "name": one.name,
        "layer": layer,
        "head": head,
        "moved": one.moved,
        "largest": [row, column],
        "difference": float(one.map[row, column]),
    }
