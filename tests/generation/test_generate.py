"""The loop on scripted models: exact distributions, batches, overflow, endings; then real models."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from scripted_model import ScriptedModel, fixed_continuation, hashed_table

from budgerigar.errors import UserError
from budgerigar.generation.generate import Event, generate_ids
from budgerigar.generation.options import SamplingOptions

V = 6


def tokens_of(events: list[Event], n_requests: int) -> list[list[int]]:
    lines: list[list[int]] = [[] for _ in range(n_requests)]
    for event in events:
        lines[event.request].append(event.token)
    return lines


def run(network, prompts, options=None, **settings) -> list[list[int]]:
    return tokens_of(list(generate_ids(network, prompts, options, **settings)), len(prompts))


def greedy_by_hand(table, prompt: list[int], n: int) -> list[int]:
    history = list(prompt)
    for _ in range(n):
        history.append(int(np.argmax(table(tuple(history)))))
    return history[len(prompt) :]


def test_greedy_is_argmax_after_argmax() -> None:
    table = hashed_table(V)
    options = SamplingOptions(max_new_tokens=12, temperature=0)
    expected = [greedy_by_hand(table, p, 12) for p in ([0], [1, 2, 3])]
    assert run(ScriptedModel(table, V), [[0], [1, 2, 3]], options) == expected


def test_sequences_have_their_exact_probability() -> None:
    """All 27 sequences of 3 tokens, 8,000 samples: chi-square with 26 degrees of freedom; beyond
    54.1 once in 1,000 runs."""
    table = hashed_table(3, sharpness=0.7)
    n = 8000
    options = SamplingOptions(max_new_tokens=3, temperature=1.0, seed=5)
    lines = run(ScriptedModel(table, 3), [[0]] * n, options, samples=range(n))
    counts = Counter(map(tuple, lines))
    statistic = 0.0
    for sequence in np.ndindex(3, 3, 3):
        p, history = 1.0, (0,)
        for token in sequence:
            p *= table(history)[token]
            history += (token,)
        statistic += (counts[sequence] - n * p) ** 2 / (n * p)
    assert statistic < 54.1


@pytest.mark.parametrize("cached", [True, False])
def test_the_batch_is_invisible(cached: bool) -> None:
    network = ScriptedModel(hashed_table(V), V, context_length=9)
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, V, rng.integers(1, 25)).tolist() for _ in range(64)]
    options = SamplingOptions(max_new_tokens=20, temperature=0.9, top_p=0.95, seed=3)
    settings = {"end_ids": [5], "cached": cached}
    together = run(network, prompts, options, **settings)
    alone = [run(network, [prompt], options, **settings)[0] for prompt in prompts]
    assert together == alone
    assert len({len(line) for line in together}) > 3  # rows ended at different times
    assert together == run(network, prompts, options, end_ids=[5], cached=not cached)


def test_a_seed_gives_the_same_samples_and_samples_differ() -> None:
    network = ScriptedModel(hashed_table(V), V)
    options = SamplingOptions(max_new_tokens=10, temperature=1, seed=4)
    first = run(network, [[0], [0], [0]], options, samples=[0, 1, 2])
    assert first == run(network, [[0], [0], [0]], options, samples=[0, 1, 2])
    assert len(set(map(tuple, first))) == 3
    assert run(network, [[0]], options, samples=[2])[0] == first[2]
    assert run(network, [[0], [0]], options)[0] == run(network, [[0], [0]], options)[1]


def test_finished_rows_leave_the_batch() -> None:
    def table(history: tuple[int, ...]) -> list[float]:  # row r ends after r tokens
        return [0, 0, 1] if len(history) > history[0] * 2 + 2 else [0, 1, 0]

    network = ScriptedModel(table, 3)
    events = list(
        generate_ids(
            network, [[0], [1]], SamplingOptions(max_new_tokens=50, temperature=0), end_ids=[2]
        )
    )
    assert tokens_of(events, 2) == [[1, 1, 2], [1, 1, 1, 1, 2]]
    assert [e.finish for e in events if e.finish] == ["end", "end"]
    assert network.widths == [2, 2, 2, 1, 1]


def test_nothing_is_computed_beyond_the_last_token() -> None:
    network = ScriptedModel(hashed_table(V), V)
    options = SamplingOptions(max_new_tokens=4, temperature=0)
    events = list(generate_ids(network, [[0, 1, 2]], options))
    assert [e.finish for e in events] == [None, None, None, "length"]
    assert network.read == 3 + 3  # the prompt once, then each token but the last
    assert list(generate_ids(network, [[0]], SamplingOptions(max_new_tokens=0))) == []
    assert list(generate_ids(network, [])) == []


@pytest.mark.parametrize("context", [1, 2, 5, 8])
def test_rewindow_depends_on_the_number_of_tokens_alone(context: int) -> None:
    """A text continued in one go, in two, cached or not, is the same text."""
    network = ScriptedModel(hashed_table(V), V, context)
    options = SamplingOptions(max_new_tokens=30, temperature=0)
    whole = run(network, [[0, 1]], options)[0]
    assert whole == run(network, [[0, 1]], options, cached=False)[0]
    for cut in (1, 7, 16):
        rest = run(network, [[0, 1, *whole[:cut]]], options)[0]
        assert rest[: 30 - cut] == whole[cut:]
    assert whole == run(network, [[0, 1], [2, 3, 4], [5] * 20], options)[0]


def test_events_tell_where_the_context_was_rewound() -> None:
    network = ScriptedModel(hashed_table(V), V, context_length=8)
    options = SamplingOptions(max_new_tokens=14, temperature=0)
    for cached in (True, False):
        events = list(generate_ids(network, [[0] * 6], options, cached=cached))
        # 6 + 2 fill the window; the third token has it rewound to 4 + 1; four more fill it again
        assert [i for i, e in enumerate(events) if e.rewound] == [3, 7, 11]


def test_overflow_error_says_what_to_do() -> None:
    network = ScriptedModel(hashed_table(V), V, context_length=8)
    options = SamplingOptions(max_new_tokens=14, temperature=0, on_overflow="error")
    with pytest.raises(UserError, match=r"prompt of 9 tokens.*rewindow"):
        generate_ids(network, [[0] * 9], options)
    for cached in (True, False):
        events = generate_ids(network, [[0] * 4], options, cached=cached)
        assert len(list(itertools.islice(events, 5))) == 5
        with pytest.raises(UserError, match="after 5 new tokens"):
            next(events)
    fits = SamplingOptions(max_new_tokens=5, temperature=0, on_overflow="error")
    assert len(run(network, [[0] * 4], fits)[0]) == 5


def test_forbidden_ids_are_never_chosen_nor_ids_beyond_the_mask() -> None:
    network = ScriptedModel(lambda _: [0.5, 0.3, 0.1, 0.04, 0.03, 0.03], V)
    forbidden = np.array([True, False, True, False])  # ids 4, 5 are padding of the vocabulary
    greedy = SamplingOptions(max_new_tokens=5, temperature=0)
    assert run(network, [[0]], greedy, forbidden=forbidden) == [[1] * 5]
    options = SamplingOptions(max_new_tokens=50, temperature=2.0)
    assert set(run(network, [[0]], options, forbidden=forbidden)[0]) == {1, 3}
    with pytest.raises(UserError, match="forbidden"):
        generate_ids(network, [[0]], forbidden=np.ones(V, dtype=bool))


def test_repetition_penalty_counts_generated_tokens_once_in_their_own_row() -> None:
    table = [0.5, 0.3, 0.2]
    network = ScriptedModel(lambda _: table, 3)
    options = SamplingOptions(max_new_tokens=4, temperature=0, repetition_penalty=2.0)
    # log 0.5 * 2 = log 0.25 < log 0.3; then log 0.09 < log 0.25 = log 0.5 * 2 -> 0 again
    assert run(network, [[0], [1]], options) == [[0, 1, 0, 0]] * 2


def test_probability_of_the_end_on_request() -> None:
    table = hashed_table(V)
    network = ScriptedModel(table, V)
    options = SamplingOptions(max_new_tokens=6, temperature=0.3, top_k=2)
    history: tuple[int, ...] = (0,)
    for event in generate_ids(network, [[0]], options, end_ids=[4, 5], show_end=True):
        assert event.p_end == pytest.approx(sum(table(history)[4:]), abs=1e-6)
        history += (event.token,)


def test_candidates_say_who_removed_what() -> None:
    p = [0.4, 0.25, 0.2, 0.1, 0.05]
    network = ScriptedModel(lambda _: p, 5)
    options = SamplingOptions(max_new_tokens=1, temperature=1.0, top_k=3, top_p=0.8)
    forbidden = np.array([False, True, False, False, False])
    (event,) = generate_ids(network, [[0]], options, forbidden=forbidden, explain=5)
    assert [c.token for c in event.candidates] == [0, 1, 2, 3, 4]
    assert [c.probability for c in event.candidates] == pytest.approx(p, abs=1e-6)
    assert [c.removed_by for c in event.candidates] == [None, "forbidden", None, "top_p", "top_k"]
    chances = [0.4 / 0.6, 0, 0.2 / 0.6, 0, 0]
    assert [c.chance for c in event.candidates] == pytest.approx(chances, abs=1e-6)


def test_greedy_candidates_are_certain_and_see_penalties_before_the_choice() -> None:
    network = ScriptedModel(lambda _: [0.6, 0.4], 2)
    options = SamplingOptions(max_new_tokens=2, temperature=0, repetition_penalty=3.0)
    first, second = generate_ids(network, [[1]], options, explain=2)
    assert [c.chance for c in first.candidates] == [1, 0]
    assert [c.chance for c in second.candidates] == [0, 1]
    assert second.token == 1


def test_watch_ends_a_request() -> None:
    network = ScriptedModel(fixed_continuation([1, 2, 3, 4], V), V)
    options = SamplingOptions(max_new_tokens=9, temperature=0)
    events = list(generate_ids(network, [[0]], options, watch=lambda _, token: token == 3))
    assert [(e.token, e.finish) for e in events] == [(1, None), (2, None), (3, "stop")]


def test_bad_requests_are_refused_before_anything_runs() -> None:
    network = ScriptedModel(hashed_table(V), V)
    with pytest.raises(UserError, match="prompt 1 has no tokens"):
        generate_ids(network, [[0], []])
    with pytest.raises(UserError, match="token id 6"):
        generate_ids(network, [[6]])
    with pytest.raises(UserError, match="stream_text"):
        generate_ids(network, [[0]], SamplingOptions(stop="x"))
    with pytest.raises(UserError, match="temperature"):
        generate_ids(network, [[0]], SamplingOptions(temperature=-1))
    with pytest.raises(UserError, match="sinks"):
        generate_ids(network, [[0]], SamplingOptions(on_overflow="sinks"))
    with pytest.raises(UserError, match="NaN"):
        list(generate_ids(ScriptedModel(lambda _: [math.nan] * V, V), [[0]]))


def test_a_training_network_is_left_training_and_gradients_stay_on_for_the_caller() -> None:
    network = ScriptedModel(hashed_table(V), V)
    network.training = True  # type: ignore[attr-defined]
    network.modules = lambda: [network]  # type: ignore[attr-defined]
    seen = []
    for _ in generate_ids(network, [[0]], SamplingOptions(max_new_tokens=2)):
        seen.append((network.training, torch.is_inference_mode_enabled()))  # type: ignore[attr-defined]
    assert seen == [(False, False)] * 2
    assert network.training  # type: ignore[attr-defined]
    stopped_early = generate_ids(network, [[0]])
    next(stopped_early)
    stopped_early.close()  # type: ignore[attr-defined]
    assert network.training  # type: ignore[attr-defined]


def test_one_sample_number_and_one_source_for_each_prompt() -> None:
    network = ScriptedModel(hashed_table(V), V)
    for wrong in ({"samples": [0]}, {"sources": [[1]]}):
        with pytest.raises(UserError, match=r"1 (samples|sources) for 2 prompts"):
            generate_ids(network, [[0], [1]], **wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="token id 9 in source 0"):
        generate_ids(network, [[0]], sources=[[9]])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("damage", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_found_wherever_they_begin(
    temperature: float, damage: float
) -> None:
    """Else a greedy choice is token 0 for ever, and a random one a token that does not exist."""

    def table(history: tuple[int, ...]) -> list[float]:
        return [0.1, damage, *[0.1] * (V - 2)] if len(history) == 4 else [1 / V] * V

    options = SamplingOptions(temperature=temperature, max_new_tokens=9)
    events = generate_ids(ScriptedModel(table, V), [[0]], options)
    for _ in range(3):
        next(events)
    with pytest.raises(UserError, match="after 3 new tokens"):
        next(events)


@pytest.mark.parametrize("temperature", [1e-38, 1e-46, 5e-324])
def test_the_smallest_temperatures_are_greedy(temperature: float) -> None:
    network = ScriptedModel(hashed_table(V), V)

    def tokens(value: float) -> list[int]:
        options = SamplingOptions(temperature=value, max_new_tokens=20)
        return [event.token for event in generate_ids(network, [[0]], options)]

    assert tokens(temperature) == tokens(0)
