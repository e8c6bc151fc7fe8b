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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgerigar import progress
from budgerigar.models.configs import Smoothing
from budgerigar.models.ngram_arrays import roomy_empty
from budgerigar.models.ngram_counts import CountedLevel, Ints, context_blocks, whole_numbers

Floats = NDArray[np.float64]

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass
class SmoothedLevel:
    """All n-grams of one length k with their probabilities, and their contexts of length k - 1."""

    keys: Ints
    """(N_k,) as in `CountedLevel`"""
    counts: NDArray[Any]
    """(N_k,) the a(c w) that smoothing used"""
    discounts: Floats
    """(4,) what is taken from a count of 0, 1, 2, 3 or more"""
    backoff: Floats
    """(N_{k-1},) weight of the shorter context; 1 where c was never followed by anything"""
    probabilities: Floats
    """(N_k,) p_k(w | c), interpolated all the way down"""
    vocab_size: int
    """V"""

    @property
    def estimated(self) -> bool:
        """Whether the discounts come from the counts; else they are 0.5, 1, 1.5."""
        return self.discounts[1:].tolist() != list(FALLBACK_DISCOUNTS)

    def ranges(self, contexts: NDArray) -> tuple[Ints, Ints]:
        """(begin, stop) among the entries of the continuations of `contexts` (M,)."""
        first = contexts.astype(np.int64) * self.vocab_size
        begin = np.searchsorted(self.keys, first)
        return begin, np.searchsorted(self.keys, first + self.vocab_size)

    @cached_property
    def leads(self) -> NDArray[Any]:
        """(N_{k-1},) entry of each context's most probable continuation; -1 without any."""
        result = np.full(len(self.backoff), -1, dtype=whole_numbers(len(self.keys)))
        for begin, stop in context_blocks(self.keys, self.vocab_size):
            contexts = self.keys[begin:stop] // self.vocab_size
            heads, which = _groups(contexts)
            chances = self.probabilities[begin:stop]
            entries = np.flatnonzero(chances == np.maximum.reduceat(chances, heads)[which])
            result[contexts[entries[::-1]]] = begin + entries[::-1]  # the first of equals stays
        return result


def discounts_of(counts: NDArray) -> Floats:
    """(D0, D1, D2, D3+) from the counts of counts, where these can be used.

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
            return found
    return np.array([0.0, *FALLBACK_DISCOUNTS])


def smooth_level(
    counted: CountedLevel,
    below: SmoothedLevel | None,
    longest: bool,
    vocab_size: int,
    smoothing: Smoothing,
    folder: Path | None = None,
) -> SmoothedLevel:
    """One length k on top of length k - 1; for k = 1 (`below` None), on top of uniform 1/V.

    `folder`: where large arrays lie, see `roomy_empty`.
    """
    counts = counts_for(counted, smoothing, longest)
    shorter = np.array([1 / vocab_size]) if below is None else below.probabilities
    discounts = discounts_of(counts) if smoothing == "kneser-ney" else np.zeros(4)
    backoff: Floats = roomy_empty(len(shorter), np.float64, folder)
    backoff[:] = 1.0
    probabilities: Floats = roomy_empty(len(counts), np.float64, folder)
    for begin, stop in context_blocks(counted.keys, vocab_size):
        contexts = counted.keys[begin:stop] // vocab_size
        heads, which = _groups(contexts)
        amounts = counts[begin:stop].astype(np.int64)
        totals = np.add.reduceat(amounts.astype(np.float64), heads)
        if smoothing == "kneser-ney":
            taken = discounts[np.minimum(amounts, 3)]
            freed = np.add.reduceat(taken, heads)
        else:
            taken = np.zeros(len(amounts))
            freed = np.add.reduceat((amounts > 0).astype(np.float64), heads)
            totals = totals + freed
        seen = totals > 0
        weights = np.divide(freed, totals, out=np.ones(len(totals)), where=seen)
        backoff[contexts[heads]] = weights
        own = np.divide(amounts - taken, totals[which], out=np.zeros(len(which)), where=seen[which])
        probabilities[begin:stop] = own + weights[which] * shorter[counted.suffixes[begin:stop]]
    return SmoothedLevel(counted.keys, counts, discounts, backoff, probabilities, vocab_size)


def smooth(
    levels: Sequence[CountedLevel],
    vocab_size: int,
    smoothing: Smoothing,
    folder: Path | None = None,
) -> list[SmoothedLevel]:
    """All lengths, from the shortest."""
    result: list[SmoothedLevel] = []
    n_ngrams = sum(len(counted.keys) for counted in levels)
    with progress.track("smoothing", n_ngrams, "n-grams") as job:
        for counted in levels:
            below = result[-1] if result else None
            longest = len(result) + 1 == len(levels)
            result.append(smooth_level(counted, below, longest, vocab_size, smoothing, folder))
            job.advance(len(counted.keys))
    return result


def counts_for(counted: CountedLevel, smoothing: Smoothing, longest: bool) -> NDArray[Any]:
    """The counts a level is smoothed with: left neighbours below Kneser-Ney's longest length."""
    if smoothing == "kneser-ney" and not longest:
        assert counted.adjusted is not None, "the next longer n-grams must be counted first"
        return counted.adjusted
    return counted.counts


def _groups(contexts: Ints) -> tuple[Ints, Ints]:
    """Where the entries of another context begin (G,), and which of these each entry is in (n,)."""
    new = np.ones(len(contexts), dtype=bool)
    new[1:] = contexts[1:] != contexts[:-1]
    return np.flatnonzero(new), np.cumsum(new) - 1
