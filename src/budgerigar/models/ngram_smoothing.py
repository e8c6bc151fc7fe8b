"""From counts to probabilities: interpolated modified Kneser-Ney and interpolated Witten-Bell.

Both mix each length with the next shorter one, down to a uniform distribution over V tokens:

    p_k(w | c) = max(a(c w) - D(a(c w)), 0) / A(c)  +  backoff(c) p_{k-1}(w | c')

where c' is the context c without its first token.

Kneser-Ney (Chen & Goodman 1999, eq. 26; "modified", section 4): a is the count at the longest
length and the number of different left neighbours below it; three discounts D for counts of 1, 2
and 3 or more; A(c) = sum of a; backoff(c) = what the discounts took away.
Witten-Bell (Witten & Bell 1991; Chen & Goodman, section 2.6): a is the count at every length, no
discount, A(c) = count of c plus its number of different continuations.

A context that was never followed by anything leaves the shorter one alone: backoff 1.

Shapes: N_k distinct n-grams of length k. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from budgerigar.models.configs import Smoothing
from budgerigar.models.ngram_counts import CountedLevel, Ints

Floats = NDArray[np.float64]

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass
class SmoothedLevel:
    """All n-grams of one length k with their probabilities, and their contexts of length k - 1."""

    keys: Ints
    """(N_k,) as in `CountedLevel`"""
    counts: Ints
    """(N_k,) the a(c w) that smoothing used"""
    suffixes: Ints
    """(N_k,) as in `CountedLevel`"""
    discounts: Floats
    """(4,) what is taken from a count of 0, 1, 2, 3 or more"""
    estimated: bool
    """whether the discounts come from the counts; else they are 0.5, 1, 1.5"""
    starts: Ints
    """(N_{k-1} + 1,) continuations of context j are entries starts[j] to starts[j + 1]"""
    totals: Floats
    """(N_{k-1},) A(c)"""
    backoff: Floats
    """(N_{k-1},) weight of the shorter context; 1 where c was never followed by anything"""
    probabilities: Floats
    """(N_k,) p_k(w | c), interpolated all the way down"""

    @cached_property
    def leads(self) -> Ints:
        """(N_{k-1},) entry of each context's most probable continuation; -1 without any."""
        has = np.flatnonzero(np.diff(self.starts))
        result = np.full(len(self.starts) - 1, -1, dtype=np.int64)
        if len(has):
            top = np.repeat(
                np.maximum.reduceat(self.probabilities, self.starts[has]), np.diff(self.starts)[has]
            )
            entries = np.flatnonzero(self.probabilities == top)
            owners = np.searchsorted(self.starts, entries, side="right") - 1
            result[owners[::-1]] = entries[::-1]
        return result


def discounts_of(counts: Ints) -> tuple[Floats, bool]:
    """(D0, D1, D2, D3+) from the counts of counts, and whether they could be used.

    Chen & Goodman 1999, eq. 26. They need n-grams that occur once, twice and three times, and can
    come out as nothing or less (on characters: 3, 1, 2, 1); then 0, 0.5, 1, 1.5.
    """
    once, twice, thrice, four = (int(np.count_nonzero(counts == c)) for c in (1, 2, 3, 4))
    if once and twice and thrice:
        share = once / (once + 2 * twice)
        found = np.array(
            [
                0.0,
                1 - 2 * share * twice / once,
                2 - 3 * share * thrice / twice,
                3 - 4 * share * four / thrice,
            ]
        )
        if found[1:].min() > 0:
            return found, True
    return np.array([0.0, *FALLBACK_DISCOUNTS]), False


def smooth_level(
    counted: CountedLevel,
    below: SmoothedLevel | None,
    longest: bool,
    vocab_size: int,
    smoothing: Smoothing,
) -> SmoothedLevel:
    """One length k on top of length k - 1; for k = 1 (`below` None), on top of uniform 1/V."""
    counts = counts_for(counted, smoothing, longest)
    shorter = np.array([1 / vocab_size]) if below is None else below.probabilities
    starts = np.searchsorted(counted.keys, np.arange(len(shorter) + 1) * vocab_size)
    totals = _sums(counts.astype(np.float64), starts)
    discounts, estimated = np.zeros(4), True
    if smoothing == "kneser-ney":
        discounts, estimated = discounts_of(counts)
        taken = discounts[np.minimum(counts, 3)]
        freed = _sums(taken, starts)
    else:
        taken = np.zeros(len(counts))
        freed = _sums((counts > 0).astype(np.float64), starts)
        totals = totals + freed
    seen = totals > 0
    backoff = np.divide(freed, totals, out=np.ones(len(totals)), where=seen)
    parents = counted.keys // vocab_size
    own = np.divide(counts - taken, totals[parents], out=np.zeros(len(counts)), where=seen[parents])
    return SmoothedLevel(
        keys=counted.keys,
        counts=counts,
        suffixes=counted.suffixes,
        discounts=discounts,
        estimated=estimated,
        starts=starts,
        totals=totals,
        backoff=backoff,
        probabilities=own + backoff[parents] * shorter[counted.suffixes],
    )


def smooth(
    levels: Sequence[CountedLevel], vocab_size: int, smoothing: Smoothing
) -> list[SmoothedLevel]:
    """All lengths, from the shortest."""
    result: list[SmoothedLevel] = []
    for counted in levels:
        below = result[-1] if result else None
        longest = len(result) + 1 == len(levels)
        result.append(smooth_level(counted, below, longest, vocab_size, smoothing))
    return result


def counts_for(counted: CountedLevel, smoothing: Smoothing, longest: bool) -> Ints:
    """The counts a level is smoothed with: left neighbours below Kneser-Ney's longest length."""
    if smoothing == "kneser-ney" and not longest:
        assert counted.adjusted is not None, "the next longer n-grams must be counted first"
        return counted.adjusted
    return counted.counts


def _sums(values: Floats, starts: Ints) -> Floats:
    """Sums of `values` over the entries of each context. (N_k,) -> (N_{k-1},)"""
    result = np.zeros(len(starts) - 1)
    has = np.flatnonzero(np.diff(starts))
    if len(has):
        result[has] = np.add.reduceat(values, starts[has])
    return result
