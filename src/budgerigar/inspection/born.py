"""Head roles through training: at which checkpoint a head comes to have its role.

Olsson et al. 2022 saw induction heads appear within a short stretch of training, together with a bump
of the loss. Here each kept checkpoint is measured as `roles` does, on the same texts.

Shapes: C checkpoints, N heads of one kind of attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.behaviours import Ability, Behaviours
from budgerigar.inspection.role_measure import Measured, Texts
from budgerigar.inspection.role_probes import Reader, probes
from budgerigar.inspection.role_results import HeadRoles, RoleRow
from budgerigar.inspection.roles import results, untrained_network
from budgerigar.progress import track
from budgerigar.said import said

_BARS = "▁▂▃▄▅▆▇█"
_HEADS = 0.6  # of the time that a checkpoint takes; its abilities take the rest


@dataclass(frozen=True)
class Birth:
    """A head that has a role at the last checkpoint: the first from which it always has it, and the
    one before (None: it has had it from the first checkpoint on), with its score at both.
    """

    role: str
    of: str
    kind: str
    head: str
    before: str | None
    at: str
    score_before: float | None
    score_at: float

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.head} has it at {self.at} already ({self.score_at:.3f})"
        return (
            f"{self.head} comes to have it between {self.before} ({self.score_before:.3f}) and "
            f"{self.at} ({self.score_at:.3f})"
        )


@dataclass(frozen=True)
class Born(Sequence[HeadRoles]):
    """The roles at every checkpoint, the earliest first. `str()` tells when each role appeared.

    names (C): of the checkpoints; abilities (C): what the model can do there (`behaviours`); skipped:
    names of those that could not be read -> why.
    """

    names: tuple[str, ...]
    roles: tuple[HeadRoles, ...]
    abilities: tuple[list[Ability], ...]
    skipped: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, index: Any) -> Any:
        return self.roles[index]

    def __len__(self) -> int:
        return len(self.roles)

    def scores(self, role: str, of: str | None = None, kind: str | None = None) -> np.ndarray:
        """(C,N) score of every head at every checkpoint. `UserError` where it was not measured."""
        rows = [roles.role(role, of, kind) for roles in self.roles]
        if rows[0].reason is not None:
            raise UserError(f"{rows[0].role.name} was not measured: {rows[0].reason}")
        return np.stack([row.score for row in rows])

    def births(self) -> list[Birth]:
        """Every head that has a role at the end, in the order of roles."""
        found = []
        for site in self.roles[-1]:
            for row in site.rows:
                over = [roles.site(site.of, site.kind).role(row.role.key) for roles in self.roles]
                found += [self._birth(site.of, site.kind, over, n) for n in row.found]
        return found

    def _birth(self, of: str, kind: str, rows: Sequence[RoleRow], head: int) -> Birth:
        at = len(rows) - 1
        while at and head in rows[at - 1].found:
            at -= 1
        before = at - 1 if at else None
        last = rows[-1]
        return Birth(
            last.role.key,
            of,
            kind,
            last.names[head],
            None if before is None else self.names[before],
            self.names[at],
            None if before is None else float(rows[before].score[head]),
            float(rows[at].score[head]),
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "checkpoints": list(self.names),
            "skipped": dict(self.skipped),
            "births": [vars(birth) for birth in self.births()],
            "abilities": [
                [{"ability": one.key, "unit": one.unit, "value": one.value} for one in there]
                for there in self.abilities
            ],
            "roles": [roles.as_dict() for roles in self.roles],
        }

    def __str__(self) -> str:
        lines = [f"head roles over {len(self)} checkpoints, {self.names[0]} to {self.names[-1]}"]
        births = self.births()
        for site in self.roles[-1]:
            if len(self.roles[-1]) > 1:
                lines.append(f"{site.of}, {site.kind}-attention:")
            for row in site.rows:
                lines += self._lines(row, site.of, site.kind, births)
        lines += [_curve(name, unit, values) for name, unit, values in self.curves()]
        lines += [f"left out: {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)

    __repr__ = __str__

    def _lines(self, row: RoleRow, of: str, kind: str, births: Sequence[Birth]) -> list[str]:
        mine = [b for b in births if (b.role, b.of, b.kind) == (row.role.key, of, kind)]
        if row.reason is not None or not mine:
            return []
        scores = self.scores(row.role.key, of, kind)
        return [
            f"{row.role.name}: {birth}  {bars(scores[:, row.names.index(birth.head)])}"
            for birth in mine
        ]

    def curves(self) -> list[tuple[str, str, list[float]]]:
        """(ability, unit, (C) values) of what the model can do."""
        rows = zip(*self.abilities, strict=True)
        return [(row[0].name, row[0].unit, [one.value for one in row]) for row in rows]


def _curve(name: str, unit: str, values: Sequence[float]) -> str:
    if unit == "share":
        return f"{name}: {values[0]:.0%} to {values[-1]:.0%} right  {bars(values)}"
    top = max(values) or 1.0
    return f"{name}: {values[0]:.2f} to {values[-1]:.2f} nats  {bars([v / top for v in values])}"


def spread(names: list[str], most: int) -> list[str]:
    """At most `most` of `names`, evenly, the first and the last among them."""
    if len(names) <= most:
        return names
    places = np.unique(np.linspace(0, len(names) - 1, most).round().astype(int))
    return [names[place] for place in places]


def bars(shares: Iterable[float]) -> str:
    """Numbers from 0 to 1 as a row of bars."""
    top = len(_BARS) - 1
    return "".join(_BARS[round(min(1.0, max(0.0, float(share))) * top)] for share in shares)


class Training:
    """What is known of a model's checkpoints. Each is measured once, on the same texts; so is an
    untrained copy.
    """

    def __init__(
        self, tokenizer: Any, *, source_tokenizer: Any = None, start_id: int | None = None
    ) -> None:
        self._reading = tokenizer, source_tokenizer, start_id
        self._asked: tuple[Texts, Behaviours, Measured] | None = None
        self._known: dict[str, tuple[HeadRoles, list[Ability]]] = {}
        self.skipped: dict[str, str] = {}
        """checkpoints that could not be read when they were last asked for -> why"""

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def work(self, names: Sequence[str]) -> int:
        """How many networks are still to be measured for these checkpoints."""
        left = sum(name not in self for name in names)
        return left + (left > 0 and self._asked is None)

    def measure(self, name: str, network: Any, job: Any = None) -> None:
        """Measure a checkpoint. job: progress, advanced by 1 for each network."""
        if self._asked is None:
            reader = Reader(network, *self._reading)
            texts = Texts(reader, probes(reader))
            behaviours = Behaviours(reader)
            untrained = texts.measure(untrained_network(network), job, 1 / max(1, len(texts)))
            self._asked = texts, behaviours, untrained
        texts, behaviours, before = self._asked
        found = texts.measure(network, job, _HEADS / max(1, len(texts)))
        able = behaviours.measure(network, job, (1 - _HEADS) / max(1, behaviours.batches))
        self._known[name] = results(found, before, texts.probes), able

    def born(self, names: Sequence[str]) -> Born:
        """Those of `names` that are measured, the earliest first."""
        known = [name for name in names if name in self._known]
        if not known and self.skipped:
            why = next(iter(self.skipped.values()))
            raise UserError(said("no checkpoint can be read; {why}", why=why))
        if not known:
            raise UserError(
                said(
                    "no checkpoint of this run is kept, so nothing is known of its training; train "
                    "with --keep-checkpoints N"
                )
            )
        pairs = [self._known[name] for name in known]
        skipped = {name: self.skipped[name] for name in names if name in self.skipped}
        roles, able = tuple(r for r, _ in pairs), tuple(able for _, able in pairs)
        return Born(tuple(known), roles, able, skipped)

    def through(self, names: Sequence[str], network: Callable[[str], Any]) -> Iterator[Born]:
        """What is known after each checkpoint, at least once. network: name -> the model there.

        One that cannot be read (damaged, or deleted by a training that goes on) is `skipped`.

        Raises:
            UserError: there is no checkpoint that can be read, or the model has no attention.
        """
        left = [name for name in names if name not in self]
        with track("measuring checkpoints", self.work(names), unit="checkpoints") as job:
            for name in left:
                read = self._read(name, network)
                if read is None:
                    job.advance()
                else:
                    self.measure(name, read, job)
                if any(each in self for each in names):
                    yield self.born(names)
        if not left or not any(each in self for each in names):
            yield self.born(names)

    def _read(self, name: str, network: Callable[[str], Any]) -> Any:
        """The model at a checkpoint; None: it is skipped."""
        self.skipped.pop(name, None)
        try:
            return network(name)
        except UserError as error:
            self.skipped[name] = error.args[0] if error.args else str(error)  # as it is `said`
            return None


def roles_through_training(
    checkpoints: Iterable[tuple[str, Any]],
    tokenizer: Any,
    *,
    source_tokenizer: Any = None,
    start_id: int | None = None,
    total: int | None = None,
) -> Born:
    """Measure the roles of every head at each checkpoint: (name, network), the earliest first.

    total: how many there are, for the progress bar. The networks may be the same object, its weights
    replaced from one to the next.

    Raises:
        UserError: there is no checkpoint, or the model has no attention.
    """
    found = Training(tokenizer, source_tokenizer=source_tokenizer, start_id=start_id)
    names = []
    networks = None if total is None else total + 1  # and the untrained copy
    with track("measuring checkpoints", networks, unit="checkpoints") as job:
        for name, network in checkpoints:
            names.append(name)
            found.measure(name, network, job)
    return found.born(names)
