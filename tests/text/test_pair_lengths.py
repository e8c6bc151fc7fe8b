"""Where unequal files part: against lines taken out at known places."""

from __future__ import annotations

import numpy as np
import pytest

from budgerigar.text.pair_lengths import LineLengths, first_skip


def lengths(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Lines and translations 1.3 times as long, give or take a tenth."""
    rng = np.random.default_rng(seed)
    source = rng.integers(10, 120, n)
    return source, np.rint(source * 1.3 * rng.normal(1, 0.1, n)).astype(np.int64)


@pytest.mark.parametrize(
    "lost", [[700], [3], [1990], [100, 900], list(range(50, 70)), [5, 6, 1500], list(range(300))]
)
def test_the_first_lost_line(lost: list[int]) -> None:
    source, target = lengths(2000)
    kept = np.delete(source, lost)
    found = first_skip(kept, target, len(lost))
    assert found is not None
    assert abs(found - 1 - lost[0]) <= 3
    assert first_skip(np.delete(target, lost), source, len(lost)) == pytest.approx(found, abs=4)


def test_lines_too_many_at_the_end() -> None:
    source, target = lengths(500)
    assert first_skip(source[:-20], target, 20) is None
    assert first_skip(source, target, 0) is None
    assert first_skip(source[:0], target, 500) is None


def test_many_lost_lines_of_a_long_file_are_taken_as_one_gap() -> None:
    source, target = lengths(20_000)
    found = first_skip(np.delete(source, np.arange(9000, 10_000)), target, 1000)
    assert found == pytest.approx(9001, abs=3)


def test_short_files_name_the_first_odd_line() -> None:
    both = LineLengths()
    for source, target in [("ein Hund bellt", "a dog barks"), ("ja, und nun auch", ""), ("x", "y")]:
        both.add(source, target)
    both.add(None, "more")
    assert both.suspicious_line() == 2
    assert "3 lines and b has 4" in both.describe("a", "b")
