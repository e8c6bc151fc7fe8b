"""Beam search on given probability tables: against all sequences, and against lists."""

from __future__ import annotations

import numpy as np
import pytest
from scripted_translator import (
    END,
    START,
    Found,
    Rules,
    ScriptedTranslator,
    brute_force,
    hashed,
    hashed_attention,
    naive_beam,
)

from budgerigar.generation.beam import Hypothesis, search
from budgerigar.generation.translation_options import TranslationOptions

PENALTIES = {
    "none": lambda n: 1.0,
    "gnmt": lambda n: ((5 + n) / 6) ** 0.6,
    "average": lambda n: float(n),
}
SOURCES = [[3, 1], [2, 2, 0, 1], [1], [0, 3, 1], [2, 1]]


def run(network, sources=SOURCES, **settings) -> list[list[Hypothesis]]:
    options = TranslationOptions(**settings)
    return search(network, sources, options, start_id=START, end_id=END)


def same(found: list[Hypothesis], wanted: list[Found]) -> None:
    assert [h.ids for h in found] == [w.ids for w in wanted]
    assert [h.finished for h in found] == [w.finished for w in wanted]
    np.testing.assert_allclose([h.score for h in found], [w.score for w in wanted], atol=2e-5)
    np.testing.assert_allclose(
        [h.log_probability for h in found], [w.log_p for w in wanted], atol=2e-5
    )


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("kind", PENALTIES)
def test_a_beam_as_wide_as_the_space_finds_what_trying_all_finds(kind: str, beta: float) -> None:
    table = hashed(4, seed=3)
    network = ScriptedTranslator(table, 4, attention=hashed_attention)
    settings = {"length_penalty": kind, "coverage_penalty": beta, "max_length": 4}
    rules = Rules(4, PENALTIES[kind], beta)
    wanted = [brute_force(table, tuple(source), 4, rules) for source in SOURCES]
    assert {len(every) for every in wanted} == {121}  # 1 + 3 + 9 + 27 that end, 81 that do not
    for n_best in (1, 3, 121):
        found = run(network, beam_size=121, n_best=n_best, **settings)
        for hypotheses, every in zip(found, wanted, strict=True):
            same(hypotheses, every[:n_best])


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_narrow_beams_equal_a_beam_of_lists(kind: str, width: int, beta: float) -> None:
    """n_best = 1 may stop early and n_best = width may not: both must give the same."""
    for seed in range(3):
        table = hashed(6, seed, end=-0.5)
        network = ScriptedTranslator(table, 6, attention=hashed_attention)
        rules = Rules(9, PENALTIES[kind], beta)
        for n_best in {1, width}:
            found = run(
                network,
                beam_size=width,
                n_best=n_best,
                length_penalty=kind,
                coverage_penalty=beta,
                max_length=9,
            )
            for source, hypotheses in zip(SOURCES, found, strict=True):
                same(hypotheses, naive_beam(table, tuple(source), width, rules)[:n_best])


def test_a_beam_of_one_is_greedy() -> None:
    table = hashed(6, seed=5, end=-1)
    for source, (best,) in zip(
        SOURCES, run(ScriptedTranslator(table, 6), beam_size=1), strict=True
    ):
        ids: tuple[int, ...] = ()
        while len(ids) < len(source) + 50:
            token = int(np.argmax(table(tuple(source), ids)))
            if token == END:
                break
            ids += (token,)
        assert best.ids == ids


def test_ties_go_to_the_better_rank_and_then_to_the_lower_id() -> None:
    even = ScriptedTranslator(lambda s, h: [0.25] * 4, 4)
    found = run(even, [[1]], beam_size=4, n_best=4, length_penalty="none", max_length=3)[0]
    wanted = naive_beam(lambda s, h: [0.25] * 4, (1,), 4, Rules(3))
    same(found, wanted)
    assert [h.ids for h in found] == [(), (0,), (0, 0), (0, 0, 0)]


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"beam_size": 4, "n_best": 3}])
def test_the_batch_is_invisible(settings: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(2, 9, rng.integers(0, 12)).tolist(), 1] for _ in range(40)]
    network = ScriptedTranslator(hashed(9, end=-1.0), 9, 64, hashed_attention)
    settings = {**settings, "max_extra": 5, "coverage_penalty": 0.1}
    found = [run(network, sources, batch_size=size, **settings) for size in (1, 7, 64)]
    assert found[0] == found[1] == found[2]
    assert len({len(h[0].ids) for h in found[0]}) > 4
    limits = [len(source) + 5 for source in sources]  # each its own, never the batch's
    assert any(not h.finished for hypotheses in found[0] for h in hypotheses)
    for hypotheses, limit in zip(found[0], limits, strict=True):
        assert all(len(h.ids) == limit for h in hypotheses if not h.finished)
        assert all(len(h.ids) < limit for h in hypotheses if h.finished)


# -- when it stops ---------------------------------------------------------------------------------
def steps(table, **settings) -> int:
    network = ScriptedTranslator(table, 4)
    run(network, [[1]], max_length=30, **settings)
    return len(network.widths)


def test_the_search_ends_when_the_best_cannot_be_passed() -> None:
    def sure(source, history):
        return [0.005, 0.985, 0.005, 0.005]

    assert steps(sure, beam_size=3, length_penalty="none") == 1
    # by its average an open hypothesis of 30 tokens could still win: -5.3 / 30 > -0.015 does not hold
    assert steps(sure, beam_size=3, length_penalty="average") == 1

    def unsure(source, history):  # log 0.3 = -1.2; an open one could come to -1.05 / 30
        return [0.35, 0.3, 0.2, 0.15] if not history else [0.97, 0.01, 0.01, 0.01]

    assert steps(unsure, beam_size=2, length_penalty="none") > 1
    assert steps(unsure, beam_size=2, length_penalty="average") == 30
    assert run(ScriptedTranslator(unsure, 4), [[1]], beam_size=2, length_penalty="average")[0][
        0
    ].finished


def test_a_longer_one_that_ends_later_may_win() -> None:
    """The first to finish is not the best: average log-probabilities -0.69 and -0.36."""

    def table(source, history):
        return [0.0, 0.5, 0.5, 0.0] if not history else [0.0, 0.98, 0.02, 0.0]

    (found,) = run(ScriptedTranslator(table, 4), [[1]], beam_size=2, length_penalty="average")
    assert found[0].ids == (2,)
    (found,) = run(ScriptedTranslator(table, 4), [[1]], beam_size=2, length_penalty="none")
    assert found[0].ids == ()


def test_all_hypotheses_may_finish_at_once() -> None:
    def table(source, history):
        return [0.5, 0.0, 0.3, 0.2] if not history else [0.0, 1.0, 0.0, 0.0]

    network = ScriptedTranslator(table, 4)
    found = run(network, [[1], [2, 1]], beam_size=3, n_best=3)
    assert [[h.ids for h in line] for line in found] == [[(0,), (2,), (3,)]] * 2
    assert len(network.widths) == 2


def test_finished_sentences_leave_the_batch() -> None:
    def table(source, history):
        return [0.0, 1.0, 0.0] if len(history) >= source[0] else [0.0, 0.0, 1.0]

    network = ScriptedTranslator(table, 4)
    run(network, [[0, 1], [1, 1], [2, 1]], beam_size=1)
    assert network.widths == [3, 2, 1]
