"""Processors against hand numbers and brute force; the choice against the exact distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.generation import sampling
from budgerigar.generation.sampling import Draws, SamplingOptions

P = [0.4, 0.25, 0.2, 0.1, 0.05]


def logits_of(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).log().float()


def kept(logits: torch.Tensor) -> list[list[int]]:
    return [torch.nonzero(row > -math.inf).flatten().tolist() for row in logits]


def naive_distribution(p: list[float], options: SamplingOptions) -> np.ndarray:
    """The same filters in plain Python, in float64, on probabilities."""
    q = np.array(p) ** (1 / options.temperature)
    q /= q.sum()
    if options.top_k:
        q = np.where(q >= sorted(q, reverse=True)[min(options.top_k, len(q)) - 1], q, 0)
        q /= q.sum()
    if options.top_p:
        mass, stay = 0.0, set()
        for i in sorted(range(len(q)), key=lambda i: -q[i]):
            if mass >= options.top_p - 1e-12:
                break
            mass += q[i]
            stay.add(i)
        q = np.array([x if i in stay else 0 for i, x in enumerate(q)])
        q /= q.sum()
    if options.min_p:
        q = np.where(q >= options.min_p * q.max(), q, 0)
        q /= q.sum()
    return q


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1.0},
        {"temperature": 0.5},
        {"temperature": 1.7, "top_k": 3},
        {"temperature": 1.0, "top_p": 0.7},
        {"temperature": 1.0, "top_k": 4, "top_p": 0.9},
        {"temperature": 1.0, "min_p": 0.3},
        {"temperature": 0.8, "top_k": 4, "top_p": 0.95, "min_p": 0.15},
        {"temperature": 1.0, "top_p": 0.05},
        {"temperature": 1.0, "top_k": 99},
    ],
)
def test_filtered_distribution_is_exact(settings: dict[str, float]) -> None:
    options = SamplingOptions(**settings)  # type: ignore[arg-type]
    shuffled = [P[i] for i in (3, 0, 4, 2, 1)]
    chain = sampling.processors(options, None)
    result = sampling.process_logits(logits_of(P, shuffled), chain).softmax(-1).double().numpy()
    for row, p in zip(result, (P, shuffled), strict=True):
        np.testing.assert_allclose(row, naive_distribution(p, options), atol=1e-6)


@pytest.mark.parametrize("flatness", [0.05, 50.0])  # top-p keeps a few tokens, or 2,000
@pytest.mark.parametrize("top_k", [None, 50])
def test_filters_on_a_large_vocabulary_match_the_naive_ones(
    flatness: float, top_k: int | None
) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3000, flatness)).clip(1e-30)
    p /= p.sum()
    options = SamplingOptions(temperature=0.9, top_k=top_k, top_p=0.8)
    chain = sampling.processors(options, None)
    result = sampling.process_logits(logits_of(p.tolist()), chain)[0].softmax(-1).double().numpy()
    np.testing.assert_allclose(result, naive_distribution(p.tolist(), options), atol=1e-6)


def test_top_k_keeps_ties_and_top_p_at_least_one() -> None:
    assert kept(sampling.keep_top_k(2)(logits_of([0.4, 0.2, 0.2, 0.2]), None)) == [[0, 1, 2, 3]]
    assert kept(sampling.keep_top_p(1e-9)(logits_of(P), None)) == [[0]]


def test_top_p_includes_the_token_that_reaches_it() -> None:
    assert kept(sampling.keep_top_p(0.66)(logits_of(P), None)) == [[0, 1, 2]]
    assert kept(sampling.keep_top_p(0.64)(logits_of(P), None)) == [[0, 1]]


def test_processors_leave_their_input_alone() -> None:
    options = SamplingOptions(
        temperature=0.7, top_k=3, top_p=0.8, min_p=0.1, repetition_penalty=1.3
    )
    logits, seen = logits_of(P), torch.tensor([[True, False, True, False, False]])
    before = logits.clone()
    sampling.process_logits(
        logits, sampling.processors(options, torch.tensor([False] * 4 + [True])), seen
    )
    assert torch.equal(logits, before)


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits() -> None:
    logits = torch.tensor([[2.0, -2.0, 3.0]])
    seen = torch.tensor([[True, True, False]])
    result = sampling.penalise_repetition(2.0)(logits, seen)
    assert result.tolist() == [[1.0, -4.0, 3.0]]
    assert sampling.penalise_repetition(2.0)(logits, None) is logits


@pytest.mark.parametrize("temperature", [1e-30, 1e-6, 1e6])
def test_extreme_temperatures_stay_finite(temperature: float) -> None:
    logits = torch.tensor([[5.0, 4.9, -math.inf, -30.0]])
    p = sampling.temper(temperature)(logits, None).softmax(-1)
    assert torch.isfinite(p).all()
    assert p[0, 2] == 0
    expected = [1.0, 0.0, 0.0, 0.0] if temperature < 1 else [1 / 3, 1 / 3, 0, 1 / 3]
    assert p[0].tolist() == pytest.approx(expected, abs=1e-4)


def test_temperature_zero_has_no_filters_and_no_division() -> None:
    options = SamplingOptions(temperature=0, top_k=1, top_p=0.1, min_p=0.9)
    assert sampling.processors(options, None) == []
    assert sampling.choose_greedily(torch.tensor([[1.0, 7.0, 7.0]])).tolist() == [1]


def test_choice_inverts_the_cumulative_distribution() -> None:
    logits = logits_of(P, P, P, P, P, P)
    u = [0.0, 0.39, 0.41, 0.66, 0.94, 1 - 2**-53]
    assert sampling.choose_at_random(logits, u).tolist() == [0, 0, 1, 2, 3, 4]


def test_choice_never_takes_what_has_no_probability() -> None:
    logits = logits_of([0, 0.5, 0, 0.5, 0])
    for u in (0.0, 0.499999, 0.5, 1 - 2**-53):
        assert sampling.choose_at_random(logits, [u]).item() in (1, 3)


def test_choices_follow_the_distribution() -> None:
    """Chi-square of 20,000 draws, 4 degrees of freedom: beyond 18.5 once in 1,000 runs."""
    draws, n = Draws(3, 0), 20_000
    u = [draws.next() for _ in range(n)]
    counts = torch.bincount(sampling.choose_at_random(logits_of(P).expand(n, -1), u), minlength=5)
    expected = np.array(P) * n
    assert ((counts.numpy() - expected) ** 2 / expected).sum() < 18.5


def test_draws_belong_to_seed_and_sample_number() -> None:
    def first(seed: int, sample: int) -> list[float]:
        draws = Draws(seed, sample)
        return [draws.next() for _ in range(200)]

    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(1, 1)
    assert first(1, 0) != first(2, 0)
    assert len(set(first(1, 0))) == 200
    assert all(0 <= u < 1 for u in first(1, 0))


def test_options_report_every_problem_at_once() -> None:
    options = SamplingOptions(
        max_new_tokens=-1,
        temperature=-0.1,
        top_k=0,
        top_p=0,
        min_p=1.5,
        repetition_penalty=0,
        stop=("a", ""),
        seed=-1,
        on_overflow="shift",  # type: ignore[arg-type]
    )
    with pytest.raises(UserError) as caught:
        options.validate()
    for name in vars(options):
        assert name in str(caught.value)
    assert SamplingOptions(stop="x").validate().stops == ("x",)
    with pytest.raises(UserError, match="temperature"):
        SamplingOptions(temperature=math.nan).validate()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"top_k": 2.5}, {"max_new_tokens": 2.5}, {"seed": "one"}, {"temperature": "hot"}),
        *({"stop": None}, {"stop": ("a", 3)}, {"top_p": math.nan}, {"top_k": True}),
    ],
)
def test_values_of_another_type_are_named(wrong: dict) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        SamplingOptions(**wrong).validate()
    numpys = SamplingOptions(seed=np.int64(3), temperature=np.float32(0.5))  # type: ignore[arg-type]
    assert numpys.validate() is numpys
