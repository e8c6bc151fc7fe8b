"""What was found of the heads' roles: numbers per head, and who has which role.

Shapes: N heads of one kind of attention, all layers, in the order L0.H0, L0.H1 …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.role_names import BROAD, CONFIDENT, FEWEST_ROWS, Role

Array = np.ndarray


def _nothing() -> Array:
    return np.zeros(0)


@dataclass(frozen=True)
class RoleRow:
    """One role of one kind of attention: (N,) each, see `role_scores`.

    on: the texts; reason: why there are no numbers (then the arrays are empty). rows: eligible;
    offset_at: the best fixed distance; untrained: score of the same head of an untrained copy (None:
    not asked for).
    """

    role: Role
    on: str
    names: tuple[str, ...] = ()
    score: Array = field(default_factory=_nothing)
    recall: Array = field(default_factory=_nothing)
    precision: Array = field(default_factory=_nothing)
    elsewhere: Array = field(default_factory=_nothing)
    null: Array = field(default_factory=_nothing)
    rows: Array = field(default_factory=_nothing)
    offset: Array = field(default_factory=_nothing)
    offset_at: tuple[int | None, ...] = ()
    untrained: Array | None = None
    reason: str | None = None

    @property
    def best(self) -> int | None:
        """The place of the head with the highest score; None where nothing was measured."""
        if not len(self.score) or np.isnan(self.score).all():
            return None
        return int(np.nanargmax(self.score))

    @property
    def best_untrained(self) -> float | None:
        """The highest score of any head of the untrained copy."""
        if self.untrained is None or not len(self.untrained) or np.isnan(self.untrained).all():
            return None
        return float(np.nanmax(self.untrained))

    @property
    def found(self) -> list[int]:
        """The places of the heads that have the role, the highest score first."""
        if self.reason is not None:
            return []
        fitting = [
            n
            for n in range(len(self.names))
            if self.rows[n] >= FEWEST_ROWS
            and self.role.fits(
                float(self.score[n]),
                float(self.recall[n]),
                float(self.offset[n]),
                self.best_untrained,
            )
        ]
        return sorted(fitting, key=lambda n: -self.score[n])

    def head(self, n: int) -> dict[str, Any]:
        """The numbers of one head, for JSON: None where there is none."""
        return {
            "head": self.names[n],
            "score": _number(self.score[n]),
            "recall": _number(self.recall[n]),
            "precision": _number(self.precision[n]),
            "elsewhere": _number(self.elsewhere[n]),
            "uniform": _number(self.null[n]),
            "untrained": None if self.untrained is None else _number(self.untrained[n]),
            "best_fixed_distance": _number(self.offset[n]),
            "distance": self.offset_at[n],
            "eligible_rows": int(self.rows[n]),
        }

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "role": self.role.key,
            "name": self.role.name,
            "what": self.role.what,
            "rule": self.role.rule,
            "on": self.on,
            "not_measured": self.reason,
            "found": [self.names[n] for n in self.found],
            "best": None if self.best is None else self.names[self.best],
            "best_untrained": self.best_untrained,
            "heads": [self.head(n) for n in range(len(self.names))],
        }


@dataclass(frozen=True)
class SiteRoles:
    """All roles of one kind of attention.

    entropy: normalised, 0 to 1; confidence: mean of the largest weight; sink_rate: share of the texts
    of which more than `SINK_EPSILON` rests on the first token. (N,) each; nan where not measured.
    """

    of: str
    kind: str
    names: tuple[str, ...]
    rows: tuple[RoleRow, ...]
    entropy: Array
    confidence: Array
    sink_rate: Array

    def role(self, key: str) -> RoleRow:
        """The numbers of one role. `UserError` for one that this attention has no numbers for."""
        for row in self.rows:
            if row.role.key == key:
                return row
        known = ", ".join(row.role.key for row in self.rows)
        raise UserError(f"there is no role {key!r} of this attention; it has {known}")

    def badges(self, keys: bool = False) -> dict[str, list[str]]:
        """Head -> the names (or keys) of its roles and habits, the strongest role first."""
        carried: list[list[tuple[float, str]]] = [[] for _ in self.names]
        for row in self.rows:
            for n in row.found:
                told = row.role.key if keys else row.role.name
                carried[n].append((-float(row.score[n]), told))
        found = {}
        for n, name in enumerate(self.names):
            found[name] = [badge for _, badge in sorted(carried[n])]
            if self.entropy[n] >= BROAD:
                found[name].append("broad")
            if self.confidence[n] >= CONFIDENT:
                found[name].append("confident")
        return found

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        badges = self.badges()
        return {
            "of": self.of,
            "kind": self.kind,
            "roles": [row.as_dict() for row in self.rows],
            "heads": [
                {
                    "head": name,
                    "badges": badges[name],
                    "entropy": _number(self.entropy[n]),
                    "confidence": _number(self.confidence[n]),
                    "sink_rate": _number(self.sink_rate[n]),
                }
                for n, name in enumerate(self.names)
            ],
        }


@dataclass(frozen=True)
class HeadRoles(Sequence[SiteRoles]):
    """Every kind of attention of a model. `str()` is a table."""

    sites: tuple[SiteRoles, ...]

    def __getitem__(self, index: Any) -> Any:
        return self.sites[index]

    def __len__(self) -> int:
        return len(self.sites)

    def __iter__(self) -> Iterator[SiteRoles]:
        return iter(self.sites)

    def site(self, of: str | None = None, kind: str | None = None) -> SiteRoles:
        """One kind of attention; each left out where there is one choice."""
        fitting = [s for s in self.sites if of in (None, s.of) and kind in (None, s.kind)]
        if len(fitting) != 1:
            there = ", ".join(f"of={s.of!r} kind={s.kind!r}" for s in self.sites)
            raise UserError(f"say which kind of attention is meant; the model has {there}")
        return fitting[0]

    def role(self, key: str, of: str | None = None, kind: str | None = None) -> RoleRow:
        """The numbers of one role: `roles.role("induction")`."""
        having = [s for s in self.sites if any(row.role.key == key for row in s.rows)]
        return HeadRoles(tuple(having) or self.sites).site(of, kind).role(key)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"attention": [site.as_dict() for site in self.sites]}

    def table(self) -> str:
        """See `role_text.roles_text`."""
        from budgerigar.inspection.role_text import roles_text

        return roles_text(self)

    __str__ = table
    __repr__ = table


def _number(value: Any) -> float | None:
    found = float(value)
    return found if np.isfinite(found) else None
