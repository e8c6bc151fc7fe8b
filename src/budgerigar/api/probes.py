"""The probes of `compare`, by name."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

PROBES = ("recall", "parallel", "context")


def run_probe(name: str, out: Path | None, common: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Run a probe with those settings that it has; another one is refused."""
    from budgerigar.experiments.seeds import refuse_seed

    known = settings_of(name)
    strangers = [key for key in settings if key not in known]
    if strangers:
        raise UserError(f"the probe {name} has no setting {strangers[0]!r}")
    refuse_seed(common["seed"])
    shared = {key: value for key, value in common.items() if key in known}
    return _probe(name)(out=out, **shared, **settings)


def settings_of(name: str) -> set[str]:
    """What can be asked of a probe, by name. `UserError` where there is no such probe."""
    return set(inspect.signature(_probe(name)).parameters)


def _probe(name: str) -> Any:
    if name not in PROBES:
        raise UserError(f"there is no probe {name!r}; choose from {', '.join(PROBES)}")
    return getattr(import_module(f"budgerigar.experiments.probes_{name}"), name)
