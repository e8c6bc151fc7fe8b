"""Head roles with evidence: which head looks at the previous token, copies repeats, finds what "it" is.

Each role is measured on texts of which it is known what would be right (`role_probes`), by definitions
that give a perfect head exactly 1 and a uniform head its null (`role_scores`), and stands beside what
an untrained copy of the model and the best fixed distance get. A head may carry several badges; a role
that no head has is said to be not found, with the best head's numbers; one that cannot be measured on
this model says why.

Voita et al. 2019 (positional and syntactic heads), Clark et al. 2019 (what BERT looks at), Olsson et
al. 2022 (induction), Gu et al. 2024 (sinks). Weights are no proof of use: switch a head off
(`switched`) to see what it was for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from budgerigar.inspection.places import places
from budgerigar.inspection.role_measure import Measured, Place, Texts
from budgerigar.inspection.role_names import BY_SITE, ROLES
from budgerigar.inspection.role_probes import Probe, Reader, probes
from budgerigar.inspection.role_results import HeadRoles, RoleRow, SiteRoles
from budgerigar.inspection.role_scores import RoleScores
from budgerigar.progress import track
from budgerigar.said import said

__all__ = ["HeadRoles", "RoleRow", "SiteRoles", "head_roles", "untrained_network"]


def head_roles(
    network: Any,
    tokenizer: Any,
    *,
    source_tokenizer: Any = None,
    start_id: int | None = None,
    untrained: bool = True,
    texts: Sequence[Probe] | None = None,
) -> HeadRoles:
    """The roles of every head of a model, of every kind of attention that it has.

    start_id: what opens a text, as in `traces.trace`; untrained: measure an untrained copy too;
    texts: other probes than `role_probes.probes` makes.

    Raises:
        UserError: the model has no attention.
    """
    reader = Reader(network, tokenizer, source_tokenizer, start_id)
    _need_attention(network)
    asked = Texts(reader, probes(reader) if texts is None else texts)
    fresh = untrained_network(network) if untrained else None
    with track("measuring head roles", len(asked) * (1 + untrained), unit="texts") as job:
        found = asked.measure(job=job)
        before = None if fresh is None else asked.measure(fresh, job)
    return results(found, before, asked.probes)


def untrained_network(network: Any, seed: int = 0) -> Any:
    """A network of the same shape with fresh weights, on the same device."""
    from budgerigar.models import build

    return build(network.config, seed).to(network.device).eval()


def _need_attention(network: Any) -> None:
    from budgerigar.errors import UserError

    if not places(network):
        raise UserError(
            f"this model ({type(network).__name__}) has no attention, so it has no heads whose roles "
            "could be told"
        )


def results(found: Measured, before: Measured | None, asked: Sequence[Probe]) -> HeadRoles:
    """What was measured as roles of heads; before: the untrained copy's."""
    sites = []
    for place, names in found.names.items():
        keys = BY_SITE[f"{place[0]} {place[1]}"]
        rows = tuple(_row(key, place, names, found, before, asked) for key in keys)
        n = len(names)
        habits = found.habits.get(place)
        nothing = np.full(n, np.nan)
        sites.append(
            SiteRoles(
                *place,
                names,
                rows,
                nothing if habits is None else habits.entropy / habits.texts,
                nothing if habits is None else habits.confidence / habits.texts,
                nothing if habits is None or place[1] == "cross" else habits.sinks / habits.texts,
            )
        )
    return HeadRoles(tuple(sites))


def _row(
    key: str,
    place: Place,
    names: tuple[str, ...],
    found: Measured,
    before: Measured | None,
    asked: Sequence[Probe],
) -> RoleRow:
    """One role of one kind of attention, or why it was not measured."""
    fitting = [probe for probe in asked if key in probe.roles and place in probe.sites]
    counts = found.counts.get((place, key))
    on = next((probe.on for probe in fitting if probe.examples), "")
    if counts is None:
        reason = next((probe.reason for probe in fitting if probe.reason), None)
        on = next((probe.on for probe in fitting), "")
        return RoleRow(ROLES[key], on, reason=reason or said("no text for it fits this model"))
    scores = [count.scores() for count in counts]
    if not any(one.rows for one in scores):
        return RoleRow(
            ROLES[key],
            on,
            reason=said("nothing in {texts} that this model can see is eligible", texts=on),
        )
    old = None if before is None else [c.scores() for c in before.counts[place, key]]
    heads = [len(one.score) for one in scores]
    repeated = [n for n, many in enumerate(heads) for _ in range(many)]
    return RoleRow(
        ROLES[key],
        on,
        names,
        _joined(scores, "score"),
        _joined(scores, "recall"),
        _joined(scores, "precision"),
        _joined(scores, "elsewhere"),
        np.array([scores[n].null for n in repeated]),
        np.array([scores[n].rows for n in repeated]),
        np.array([np.nan if scores[n].offset is None else scores[n].offset for n in repeated]),
        tuple(scores[n].offset_at for n in repeated),
        None if old is None else _joined(old, "score"),
    )


def _joined(scores: Sequence[RoleScores], name: str) -> np.ndarray:
    return np.concatenate([getattr(one, name) for one in scores])
