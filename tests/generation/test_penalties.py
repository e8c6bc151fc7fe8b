"""Penalties by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.generation.penalties import LEAST_ATTENTION, coverage, length_divisor
from budgerigar.generation.translation_options import TranslationOptions


def test_length_divisors() -> None:
    assert float(length_divisor("none", 0.6, 20)) == 1
    assert float(length_divisor("average", 1.0, 20)) == 20
    assert float(length_divisor("average", 0.5, 16)) == 4
    assert float(length_divisor("gnmt", 0.6, 1)) == 1
    assert float(length_divisor("gnmt", 0.6, 13)) == pytest.approx(3**0.6)
    np.testing.assert_allclose(length_divisor("gnmt", 1.0, np.array([1, 7])), [1, 2])


def test_coverage_counts_what_was_missed() -> None:
    assert coverage(np.array([1.0, 1.7, 3.0])) == 0
    assert coverage(np.array([0.5, 2.0])) == pytest.approx(math.log(0.5))
    assert coverage(np.array([0.0, 1.0])) == pytest.approx(math.log(LEAST_ATTENTION))
    assert coverage(np.zeros((2, 3, 0))).shape == (2, 3)


def test_the_default_exponent_fits_its_penalty() -> None:
    assert TranslationOptions(length_penalty="gnmt").exponent == 0.6
    assert TranslationOptions(length_penalty="average").exponent == 1.0
    assert TranslationOptions(length_penalty="average", alpha=0.3).exponent == 0.3


def test_all_wrong_options_are_told_at_once() -> None:
    options = TranslationOptions(beam_size=0, alpha=-1.0, batch_size=0, length_penalty="x")  # type: ignore[arg-type]
    with pytest.raises(UserError) as error:
        options.validate()
    for name in ("beam_size", "alpha", "batch_size", "length_penalty"):
        assert name in str(error.value)
    with pytest.raises(UserError, match="top_k is for sampling"):
        TranslationOptions(top_k=5).validate()
    with pytest.raises(UserError, match="beam_size 1 for greedy"):
        TranslationOptions(temperature=0.0).validate()
