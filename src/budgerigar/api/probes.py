"""The probes of `compare`, by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

PROBES = ("recall", "parallel", "context")


def run_probe(name: str, out: Path | None, common: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Run a probe with those settings that it has; another one is refused."""
    import inspect

    if name not in PROBES:
        raise UserError(f"there is no probe {name!r}; choose from {', '.join(PROBES)}")
    probe = getattr(import_module(f"budgerigar.experiments.probes_{name}"), name)
    known = inspect.signature(probe).parameters
    strangers = [key for key in settings if key not in known]
    if strangers:
        raise UserError(f"the probe {name} has no setting {strangers[0]!r}")
    shared = {key: value for key, value in common.items() if key in known}
    return probe(out=out, **shared, **settings)
