"""The seed of an experiment, as it was typed."""

from __future__ import annotations

from budgerigar.errors import UserError

MOST_SEED = 2**32 - 1
"""Experiments count on from it, and numpy's and torch's generators must take what comes out."""


def seed_problem(seed: object) -> str | None:
    """What is wrong with a seed, in words; None: nothing."""
    if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= MOST_SEED:
        return None
    return f"seed = {seed!r} must be a whole number from 0 to {MOST_SEED:,}"


def refuse_seed(seed: object) -> None:
    """Raise one `UserError` where `seed` cannot be one."""
    problem = seed_problem(seed)
    if problem:
        raise UserError(problem)
