"""Where two parallel files of unequal line counts part.

Translations are about as long as their sources, up to a factor that a corpus keeps (Gale & Church
1993). A line that one file has too much shifts all that follow, and their lengths fit no longer.
So: find the path of least misfit through the two files that may skip lines of the longer one, and
report where it first skips.
"""

from __future__ import annotations

import math
from array import array

import numpy as np

OUTLIER = 4.0  # times the usual ratio of lengths
SHORTEST = 10  # characters: the lengths of shorter lines say little

_MOST_LINES = 1_000_000  # whose lengths are kept: 8 bytes each of two files
_MOST_CELLS = 8_000_000  # lines times shifts that are weighed
_WORST = 3.0  # misfit of a line: e³ times too long, or blank on one side only
_SKIP_COST = 4.0  # what a skip must save


class LineLengths:
    """Lengths in characters of two files' lines; counts both files to their ends."""

    def __init__(self) -> None:
        self.n_source = self.n_target = 0
        self._source, self._target = array("i"), array("i")

    def add(self, source: str | None, target: str | None) -> None:
        """The next line of each; None where a file has ended."""
        if source is not None:
            self.n_source += 1
            if self.n_source <= _MOST_LINES:
                self._source.append(_length(source))
        if target is not None:
            self.n_target += 1
            if self.n_target <= _MOST_LINES:
                self._target.append(_length(target))

    def describe(self, source: str, target: str) -> str:
        """What to say about two files of unequal counts."""
        longer, shorter = (target, source) if self.n_target > self.n_source else (source, target)
        least = min(self.n_source, self.n_target)
        line = self.suspicious_line()
        if not least:
            where = f"{shorter} is empty."
        elif line is None and least >= _MOST_LINES:
            where = f"The first {_MOST_LINES:,} lines look like pairs."
        elif line is None:
            where = (
                f"All before look like pairs: line {least + 1:,} of {longer} is the first without "
                "a partner."
            )
        else:
            where = f"The first place that does not look like pairs is at about line {line:,}."
        return (
            f"{source} has {self.n_source:,} lines and {target} has {self.n_target:,}, but pairs "
            f"are lines of the same number. {where} Nothing is shifted or cut in silence: mend the "
            "files (budgie check shows more)."
        )

    def suspicious_line(self) -> int | None:
        """The line, from 1, from which on the files do not fit, else the first that alone does not
        look like a pair; None if all that is there does."""
        source = np.frombuffer(self._source, dtype=np.int32)
        target = np.frombuffer(self._target, dtype=np.int32)
        if self.n_source > self.n_target:
            source, target = target, source
        skip = first_skip(source, target, abs(self.n_target - self.n_source))
        return skip or _first_odd(source, target)


def _first_odd(shorter: np.ndarray, longer: np.ndarray) -> int | None:
    """The first line, from 1, that is blank on one side only or of an unlikely length."""
    n = min(len(shorter), len(longer))
    if not n:
        return None
    a, b = shorter[:n], longer[:n]
    a_log, b_log = np.log(a + 1.0), np.log(b + 1.0)
    odd = _misfits(a_log, b_log, 0, _usual(a_log, b_log)) > math.log(OUTLIER)
    odd &= (np.maximum(a, b) >= SHORTEST) | ((a == 0) ^ (b == 0))
    return int(np.argmax(odd)) + 1 if odd.any() else None


def _length(line: str) -> int:
    return 0 if line.isspace() else len(line)


def first_skip(shorter: np.ndarray, longer: np.ndarray, n_extra: int) -> int | None:
    """The number, from 1, of the first line of `longer` that has no partner; None where only the
    last lines have none. shorter, longer: lengths of lines; n_extra: how many more `longer` has."""
    n = len(shorter)
    if not n or not n_extra:
        return None
    # Where too many would have to be tried, as if all were missing in one place.
    shifts = range(n_extra + 1) if n_extra * n <= _MOST_CELLS else (0, n_extra)
    a, b = np.log(shorter + 1.0), np.log(longer + 1.0)
    usual = _usual(a, b)
    # least[i]: misfit of the best path through the first i lines that ends in this shift.
    least = np.concatenate([[0.0], np.cumsum(_misfits(a, b, 0, usual))])
    ends, origins = [least[n]], []
    for shift in shifts[1:]:
        sums = np.concatenate([[0.0], np.cumsum(_misfits(a, b, shift, usual))])
        entering = least - sums + _SKIP_COST
        best = np.minimum.accumulate(entering)
        new = np.concatenate([[True], entering[1:] < best[:-1]])
        # Where the best path to each place came from the shift before.
        origins.append(np.maximum.accumulate(np.where(new, np.arange(n + 1), 0)).astype(np.int32))
        least = best + sums
        ends.append(least[n])
    place = n
    for origin in reversed(origins[: int(np.argmin(ends))]):
        place = int(origin[place])
    return place + 1 if place < n else None


def _usual(a: np.ndarray, b: np.ndarray) -> float:
    """The median of how much longer lines of `b` are: a, b are logarithms of lengths + 1."""
    n = min(len(a), len(b))
    filled = (a[:n] > 0) & (b[:n] > 0)
    return float(np.median((b[:n] - a[:n])[filled])) if filled.any() else 0.0


def _misfits(a: np.ndarray, b: np.ndarray, shift: int, usual: float) -> np.ndarray:
    """How badly line i of `a` fits line i + shift of `b`, for every i; beyond the end the worst."""
    other = b[shift : shift + len(a)]
    mine = a[: len(other)]
    misfit = np.minimum(np.abs(other - mine - usual), _WORST)
    misfit = np.where((mine == 0) & (other == 0), 0.0, misfit)
    misfit = np.where((mine == 0) ^ (other == 0), _WORST, misfit)
    return np.concatenate([misfit, np.full(len(a) - len(other), _WORST)])
