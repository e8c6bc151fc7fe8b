"""The search at its edges: few hypotheses, small vocabularies, limits, bans, draws, damaged models."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scripted_model import ScriptedModel
from scripted_model import hashed_table as hashed_text
from scripted_translator import END, START, Rules, ScriptedTranslator, hashed, naive_beam

from budgerigar.errors import UserError
from budgerigar.generation.beam import Hypothesis, search
from budgerigar.generation.candidates import repeated
from budgerigar.generation.translation_options import TranslationOptions


def run(network, sources, prefixes=None, forbidden=None, **settings) -> list[list[Hypothesis]]:
    options = TranslationOptions(**settings)
    return search(
        network,
        sources,
        options,
        start_id=START,
        end_id=END,
        prefixes=prefixes,
        forbidden=forbidden,
    )


# -- how many there are ----------------------------------------------------------------------------
def test_twelve_best_where_twelve_exist_and_where_fewer_do() -> None:
    network = ScriptedTranslator(hashed(5), 5)
    (found,) = run(network, [[2, 1]], beam_size=12, n_best=12, max_length=8)
    assert len(found) == len({(h.ids, h.finished) for h in found}) == 12
    (found,) = run(network, [[2, 1]], beam_size=12, n_best=12, max_length=1)
    assert (found[0].ids, found[0].finished) == ((), True)  # then the four of one token
    assert sorted(h.ids for h in found[1:]) == [(0,), (2,), (3,), (4,)]

    def two(source, history):  # END or 2, once
        return [0, 0.5, 0.5] if not history else [0, 1, 0]

    (found,) = run(ScriptedTranslator(two, 3), [[2, 1]], beam_size=12, n_best=12)
    assert [h.ids for h in found] == [(2,), ()]


def test_a_vocabulary_smaller_than_the_beam() -> None:
    table = hashed(3)
    network = ScriptedTranslator(table, 3)
    (found,) = run(network, [[2, 1]], beam_size=7, n_best=7, length_penalty="none", max_length=5)
    wanted = naive_beam(table, (2, 1), 7, Rules(5))
    assert [h.ids for h in found] == [w.ids for w in wanted]


def test_more_than_the_beam_is_refused() -> None:
    with pytest.raises(UserError, match=r"n_best = 5.*beam_size is 4"):
        TranslationOptions(n_best=5).validate()


def test_the_empty_translation_may_win() -> None:
    network = ScriptedTranslator(lambda s, h: [0.1, 0.8, 0.1], 3)
    ((best,),) = run(network, [[1]], beam_size=3)
    assert best.ids == ()
    assert best.finished
    assert best.log_probability == pytest.approx(math.log(0.8), abs=1e-6)
    assert best.score == pytest.approx(math.log(0.8), abs=1e-6)  # one token: its divisor is 1


def test_nothing_to_translate() -> None:
    assert run(ScriptedTranslator(hashed(4), 4), []) == []


# -- limits ----------------------------------------------------------------------------------------
def test_the_length_limit_counts_the_end_and_marks_what_it_cut() -> None:
    network = ScriptedTranslator(lambda s, h: [0.0, 0.0, 1.0] if len(h) < 3 else [0, 1.0, 0], 3)
    ((best,),) = run(network, [[1]], max_length=4)
    assert (best.ids, best.finished) == ((2, 2, 2), True)
    ((best,),) = run(network, [[1]], max_length=3)
    assert (best.ids, best.finished) == ((2, 2, 2), False)
    ((best,),) = run(network, [[1, 1]], max_extra=0)
    assert (best.ids, best.finished) == ((2, 2), False)


def test_the_context_limits_too() -> None:
    network = ScriptedTranslator(lambda s, h: [0.0, 0.0, 1.0], 3, context_length=6)
    ((best,),) = run(network, [[1]], beam_size=1)
    assert best.ids == (2,) * 6
    with pytest.raises(UserError, match="prefix of 6 tokens"):
        run(network, [[1]], prefixes=[[2] * 6])
    ((best,),) = run(network, [[1]], prefixes=[[2] * 5], max_length=2)
    assert len(best.ids) == 6


def test_finished_ones_come_before_unfinished_ones() -> None:
    network = ScriptedTranslator(lambda s, h: [0.0, 0.1, 0.9], 3)
    (found,) = run(network, [[1]], beam_size=2, n_best=2, max_length=3, length_penalty="none")
    assert [(h.ids, h.finished) for h in found] == [((), True), ((2, 2, 2), False)]


def test_the_shortest_length() -> None:
    network = ScriptedTranslator(lambda s, h: [0.0, 0.9, 0.1], 3)
    ((best,),) = run(network, [[1]], min_length=2, length_penalty="none")
    assert best.ids == (2, 2)
    assert best.log_probability == pytest.approx(math.log(0.1 * 0.1 * 0.9), abs=1e-5)
    with pytest.raises(UserError, match="no room for <end>"):
        run(network, [[1]], min_length=3, max_length=3)
    ((best,),) = run(network, [[1]], min_length=9, max_extra=0)  # room for what is asked for
    assert (len(best.ids), best.finished) == (9, True)


# -- bans ------------------------------------------------------------------------------------------
def test_forbidden_ids_are_never_chosen_and_cost_nobody_anything() -> None:
    network = ScriptedTranslator(lambda s, h: [0.1, 0.2, 0.4, 0.3], 4)
    forbidden = np.array([True, False, True, False])
    (found,) = run(network, [[1]], forbidden=forbidden, n_best=3, length_penalty="none")
    assert [h.ids for h in found] == [(), (3,), (3, 3)]
    assert found[1].log_probability == pytest.approx(math.log(0.3 * 0.2), abs=1e-5)
    with pytest.raises(UserError, match="every token is forbidden"):
        run(network, [[1]], forbidden=np.ones(4, dtype=bool))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_comes_twice(n: int) -> None:
    network = ScriptedTranslator(lambda s, h: [0.2, 0.01, 0.49, 0.3], 4)
    found = run(network, [[1], [2, 1]], no_repeat_ngram=n, beam_size=4, n_best=4, max_length=20)
    for hypothesis in [h for line in found for h in line]:
        grams = Counter(
            tuple(hypothesis.ids[i : i + n]) for i in range(len(hypothesis.ids) - n + 1)
        )
        assert max(grams.values(), default=1) == 1
    assert max(len(h.ids) for line in found for h in line) >= n


def test_which_tokens_would_repeat() -> None:
    history = np.array([[5, 6, 5, 7, 5], [1, 2, 3, 4, 4]])
    pairs = [sorted(zip(*map(list, repeated(history, n)), strict=True)) for n in (1, 2, 3)]
    assert pairs[1] == [(0, 6), (0, 7), (1, 4)]
    assert pairs[2] == []
    assert set(pairs[0]) == {(0, 5), (0, 6), (0, 7), (1, 1), (1, 2), (1, 3), (1, 4)}
    assert all(len(part) == 0 for part in repeated(history[:, :1], 2))


def test_a_dead_end_is_shown_unfinished() -> None:
    network = ScriptedTranslator(lambda s, h: [0.0, 0.0, 1.0], 3)
    ((best,),) = run(network, [[1]], no_repeat_ngram=1)
    assert (best.ids, best.finished) == ((2,), False)


def test_a_dead_end_comes_after_what_finished() -> None:
    def table(source, history):  # END or 2, and then 2 again, which may not come twice
        return [0, 0, 1.0] if history else [0, 0.2, 0.8]

    settings = {"beam_size": 2, "no_repeat_ngram": 1, "length_penalty": "none"}
    (found,) = run(ScriptedTranslator(table, 3), [[1]], n_best=2, **settings)
    assert [(h.ids, h.finished) for h in found] == [((), True), ((2,), False)]
    (found,) = run(ScriptedTranslator(table, 3), [[1]], n_best=1, **settings)
    assert [(h.ids, h.finished) for h in found] == [((), True)]


# -- prefixes --------------------------------------------------------------------------------------
def test_a_prefix_counts_as_if_it_had_been_found() -> None:
    table = hashed(5, seed=2)
    network = ScriptedTranslator(table, 5)
    ((best,),) = run(network, [[2, 1]], prefixes=[[3, 4]], max_length=5, beam_size=200)
    steps = [*best.ids, END] if best.finished else list(best.ids)
    total = sum(math.log(table((2, 1), tuple(steps[:i]))[t]) for i, t in enumerate(steps))
    assert best.ids[:2] == (3, 4)
    assert best.log_probability == pytest.approx(total, abs=1e-5)


def test_a_prefix_may_hold_what_is_forbidden_or_impossible() -> None:
    network = ScriptedTranslator(lambda s, h: [0.0, 0.5, 0.5], 3)
    ((best,),) = run(
        network, [[1]], prefixes=[[0, 2, 2]], forbidden=np.array([True, False, False]), beam_size=1
    )
    assert best.ids[:3] == (0, 2, 2)
    assert best.log_probability < -1e8
    with pytest.raises(UserError, match="ends a target"):
        run(network, [[1]], prefixes=[[2, END]])
    with pytest.raises(UserError, match="2 prefixes for 1 sources"):
        run(network, [[1]], prefixes=[[], []])


# -- drawing ---------------------------------------------------------------------------------------
def test_samples_have_their_probability() -> None:
    """8 targets of at most 3 tokens, 6,000 samples: chi-square; beyond 24.3 once in 1,000 runs."""
    table = hashed(3, seed=4, sharpness=0.5)
    network, n = ScriptedTranslator(table, 3), 6000
    (found,) = run(network, [[2, 1]], temperature=1.0, n_best=n, max_length=3, seed=1)
    counts = Counter((h.ids, h.finished) for h in found)
    wanted = naive_beam(table, (2, 1), 1000, Rules(3))
    statistic = 0.0
    for target in wanted:
        expected = n * math.exp(target.log_p)
        statistic += (counts[target.ids, target.finished] - expected) ** 2 / expected
        of_model = [h.log_probability for h in found if h.ids == target.ids]
        np.testing.assert_allclose(of_model, target.log_p, atol=1e-5)
    assert len(wanted) == 15
    assert statistic < 36.1  # 14 degrees of freedom


def test_a_sample_does_not_depend_on_the_batch() -> None:
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(2, 9, rng.integers(0, 9)).tolist(), 1] for _ in range(30)]
    network = ScriptedTranslator(hashed(9, end=-1), 9)
    settings = {"temperature": 0.9, "top_k": 6, "top_p": 0.95, "n_best": 2, "max_extra": 9}
    found = [run(network, sources, batch_size=size, **settings) for size in (1, 7, 64)]
    assert found[0] == found[1] == found[2]
    assert found[0] != run(network, sources, seed=1, **settings)
    one = run(network, sources, **{**settings, "n_best": 1})
    assert all(a[0] in b for a, b in zip(one, found[0], strict=True))  # sample 0 is sample 0


# -- what cannot be run ----------------------------------------------------------------------------
def test_damaged_models_and_wrong_ids_are_refused() -> None:
    for beam_size in (1, 3):
        broken = ScriptedTranslator(lambda s, h: [math.nan] * 4 if h else [0.2, 0.2, 0.3, 0.3], 4)
        with pytest.raises(UserError, match=r"NaN or infinite.* at token 2"):
            run(broken, [[1]], beam_size=beam_size)
    network = ScriptedTranslator(hashed(4), 4)
    with pytest.raises(UserError, match="source 1 has no tokens"):
        run(network, [[1], []])
    with pytest.raises(UserError, match="id 9 in source 0"):
        run(network, [[9]])
    with pytest.raises(UserError, match="id 9 in prefix 0"):
        run(network, [[1]], prefixes=[[9]])
    with pytest.raises(UserError, match="cross-attention"):
        run(network, [[1]], coverage_penalty=0.2)
    with pytest.raises(UserError, match="reads no source"):
        run(network, [[1]], no_source=True)


def test_a_model_without_a_source_goes_on_with_prefixes() -> None:
    table = hashed_text(4, seed=1)
    network = ScriptedModel(table, 4)
    options = TranslationOptions(beam_size=200, max_length=4, length_penalty="none")
    ((best,),) = search(network, None, options, start_id=START, end_id=END, prefixes=[[3]])
    wanted = naive_beam(lambda s, h: table((START, 3, *h)), (), 200, Rules(3))[0]
    assert best.ids == (3, *wanted.ids)
    with pytest.raises(UserError, match="give sources"):
        search(network, None, options, start_id=START, end_id=END)
