"""How much of a difference is noise: small samples, paired by seed, many comparisons at once.

The same seed gives two cells the same order of the data, so they are compared seed by seed: the
differences' mean, Student's t interval with n - 1 degrees of freedom, and p values that Holm's
procedure corrects for the number of comparisons (Holm 1979). Nothing is assumed of the noise being
equal in all cells.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.05  # chance to call at least one difference real that is noise


@dataclass(frozen=True)
class Difference:
    """A paired difference to the base, over n seeds. None: one seed alone shows no noise."""

    n: int
    mean: float
    deviation: float | None
    """standard deviation of the differences (n - 1)"""
    low: float | None
    """95 % t interval of this difference for itself"""
    high: float | None
    p: float | None
    """two-sided, uncorrected"""
    adjusted: float | None = None
    """p after Holm's correction"""

    @property
    def shown(self) -> bool:
        """Whether it is larger than the noise, all comparisons considered."""
        return self.adjusted is not None and self.adjusted < LEVEL


def paired(differences: Sequence[float]) -> Difference:
    """The mean of paired differences (at least one) with its interval."""
    n, mean = len(differences), statistics.fmean(differences)
    if n < 2:
        return Difference(n, mean, None, None, None, None)
    deviation = statistics.stdev(differences)
    error = deviation / math.sqrt(n)
    half = quantile(1 - LEVEL, n - 1) * error
    size = abs(mean) / error if error else math.inf if mean else 0.0
    p = 1 - inside(size, n - 1)
    return Difference(n, mean, deviation, mean - half, mean + half, p)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p values so corrected that one below `LEVEL` by chance is as unlikely as `LEVEL` (Holm 1979)."""
    known = sorted((p, at) for at, p in enumerate(values) if p is not None)
    found: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (p, at) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        found[at] = least
    return found


def inside(t: float, freedom: int) -> float:
    """P(|T| < t), Student's t, whole degrees of freedom (Abramowitz & Stegun 1964, 26.7.3 and 4)."""
    angle = math.atan2(t, math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cosine**2
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def quantile(share: float, freedom: int) -> float:
    """The t within which `share` of Student's distribution lies, on both sides of 0."""
    low, high = 0.0, 1.0
    while inside(high, freedom) < share:
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle, freedom) < share else (low, middle)
    return high


def least_shown(differences: Sequence[Difference]) -> float | None:
    """About how large a difference must be to be shown, where all noise is as in these; None: unknown.

    The first hurdle of Holm's procedure: 5 % over the number of comparisons.
    """
    known = [d for d in differences if d.deviation]
    if not known:
        return None
    deviation = statistics.median(d.deviation or 0.0 for d in known)
    n = min(d.n for d in known)
    return quantile(1 - LEVEL / len(known), n - 1) * deviation / math.sqrt(n)
