"""From a log-probability to a score: length penalties and the coverage penalty (Wu et al. 2016).

Small pure functions; the search composes them. Natural logarithms; log-probabilities are 0 or less.
"""

from __future__ import annotations

import numpy as np

from budgerigar.generation.translation_options import LengthPenalty

LEAST_ATTENTION = 1e-9  # a source token that was never looked at costs log of this, not infinity


def length_divisor(kind: LengthPenalty, alpha: float, n: np.ndarray | int) -> np.ndarray:
    """What a log-probability of n tokens is divided by.

    gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14); average: n^alpha; none: 1.
    """
    n = np.asarray(n, dtype=np.float64)
    if kind == "gnmt":
        return ((5.0 + n) / 6.0) ** alpha
    return n**alpha if kind == "average" else np.ones_like(n)


def coverage(received: np.ndarray) -> np.ndarray:
    """sum over the source of log(min(attention received, 1)); (..., S) -> (...), 0 or less.

    `received`: the cross-attention weights that each source token got, summed over the target's
    tokens (Wu et al. 2016, equation 14).
    """
    return np.log(np.clip(received, LEAST_ATTENTION, 1.0)).sum(-1)
