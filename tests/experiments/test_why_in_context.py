"""In-context learning: maps that no weight can know, the head that comes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from in_context_parts import checked_result, drawn, little

from budgerigar.errors import UserError
from budgerigar.experiments import why
from budgerigar.experiments.why import in_context, parts, word_maps
from budgerigar.experiments.why.in_context import Learnt, Moment
from budgerigar.experiments.why.word_maps import Mean, Shots, mean_of
from budgerigar.inspection.induction import induction_score

SIZES = in_context.Sizes(
    n_words=20, pairs=3, rounds=3, steps=4, batch=3, every=2, d_model=8, tests=6, repeats=2,
    shown=(0, 2),
)  # fmt: skip


# -- word maps -------------------------------------------------------------------------------------
def test_a_mean_and_its_error() -> None:
    found = mean_of([1.0, 2.0, 4.0, 5.0])
    assert found.mean == 3.0
    assert found.error == pytest.approx(math.sqrt(10 / 3) / 2)
    assert math.isnan(mean_of([1.0]).error)


def test_a_map_has_no_word_twice() -> None:
    maps = word_maps.draw_map(50, 12, 5, drawn())
    for words in maps.flatten(1).tolist():
        assert len(set(words)) == 10
        assert set(words) <= set(range(12))
    assert len({tuple(row) for row in maps.flatten(1).tolist()}) == 50


def test_every_pair_once_per_round_in_a_new_order() -> None:
    turns = word_maps.in_rounds(20, 4, 5, drawn()).view(20, 5, 4)
    assert (turns.sort(-1).values == torch.arange(4)).all()
    assert (turns[:, 0] != turns[:, 1]).any()


def test_a_text_is_keys_and_values_in_turn() -> None:
    maps = torch.tensor([[[7, 8], [5, 6]]])
    tokens = word_maps.spell(maps, torch.tensor([[1, 0, 1]]))
    assert tokens.tolist() == [[5, 6, 7, 8, 5, 6]]


def test_a_cut_text_begins_with_a_key_or_with_a_value() -> None:
    tokens = torch.arange(6).expand(200, -1)
    rows = word_maps.cut(tokens, drawn()).tolist()
    assert all(row in ([0, 1, 2, 3, 4], [1, 2, 3, 4, 5]) for row in rows)
    assert 60 < sum(row[0] for row in rows) < 140


def test_shots_against_loops() -> None:
    """A sequence's answers in a round are one measurement."""
    maps = word_maps.draw_map(5, 12, 3, drawn())
    tokens = word_maps.spell(maps, word_maps.in_rounds(5, 3, 4, drawn()))
    logits = torch.randn(5, 24, 12, generator=drawn())
    found = word_maps.shots(logits, tokens, 4)
    for k in range(4):
        losses, right = [], []
        for row in range(5):
            asked = [2 * (3 * k + pair) for pair in range(3)]
            chances = logits[row].softmax(-1)
            losses.append(sum(-math.log(chances[t, tokens[row, t + 1]]) for t in asked) / 3)
            right.append(sum(int(logits[row, t].argmax() == tokens[row, t + 1]) for t in asked) / 3)
        assert found.loss[k].mean == pytest.approx(sum(losses) / 5, rel=1e-5)
        assert found.accuracy[k].mean == pytest.approx(100 * sum(right) / 5)
        assert found.loss[k].n == 5
    assert found.in_context == pytest.approx(sum(m.mean for m in found.loss[1:]) / 3)


def test_repeated_words_are_different_ones_twice() -> None:
    for row in word_maps.repeated(10, 20, 8, drawn()).tolist():
        assert row[:8] == row[8:]
        assert len(set(row)) == 8


# -- heads -----------------------------------------------------------------------------------------
def test_weights_of_all_layers() -> None:
    network, tokens = little(), torch.randint(0, 20, (3, 7), generator=drawn())
    found = parts.attention_weights(network, tokens)
    assert [tuple(weights.shape) for weights in found] == [(3, 2, 7, 7)] * 2
    for weights in found:
        assert torch.allclose(weights.sum(-1), torch.ones(3, 2, 7))
        assert (weights.triu(1) == 0).all()
    assert not torch.equal(found[0], found[1])


def test_without_feed_forward_a_block_is_its_attention() -> None:
    network = parts.without_feed_forward(little(1))
    block = next(iter(network.decoder.blocks()))  # type: ignore[union-attr]
    assert not any(p.requires_grad or p.any() for p in block.feed_forward.parameters())


def test_heads_by_the_pure_score(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = torch.tensor([[1, 2, 3, 1, 2, 3], [4, 5, 6, 4, 5, 6]])
    looks = torch.zeros(2, 2, 6, 6)
    looks[:, 0, range(3, 6), range(1, 4)] = 1.0  # what followed
    looks[1, 0, 5] = torch.tensor([0, 0, 0, 0.4, 0, 0.6])
    looks[:, 1, range(1, 6), range(5)] = 1.0  # the word before
    monkeypatch.setattr(in_context, "attention_weights", lambda *_: [looks])
    induction, before = in_context.head_scores(little(), texts)
    assert induction["L0.H0"] == pytest.approx((1 + (1 + 1 + 0.4) / 3) / 2)
    assert induction["L0.H0"] == pytest.approx(
        sum(induction_score(looks[n, 0], texts[n])[0] for n in range(2)) / 2
    )
    assert induction["L0.H1"] == 0.0
    assert before == {"L0.H0": 0.0, "L0.H1": 1.0}


# -- the experiment --------------------------------------------------------------------------------
def moment(step: int, score: float, loss: float, right: float) -> Moment:
    def means(*values: float) -> tuple[Mean, ...]:
        return tuple(Mean(value, 0.0, 1) for value in values)

    shots = Shots(means(4.0, loss, loss), means(0.0, right, right))
    return Moment(step, shots, {"L0.H0": 0.0, "L1.H0": score}, {"L0.H0": 0.0, "L1.H0": 0.0})


def learnt(*rows: tuple[float, float, float]) -> Learnt:
    return Learnt(tuple(moment(10 * n, *row) for n, row in enumerate(rows)), 1)


BORN = learnt(*[(0.1, 3.0, 10.0)] * 4, (0.39, 2.0, 40.0), (0.4, 1.0, 80.0), *[(0.6, 0.5, 99.0)] * 4)
NEVER = learnt(*[(0.1, 3.0, 10.0)] * 10)


def test_the_step_at_which_the_head_appears() -> None:
    assert BORN.step == 50
    assert BORN.drop == (3.0, 0.5)
    assert NEVER.step is None
    assert NEVER.drop is None


def test_what_holds() -> None:
    assert in_context.holds(NEVER, BORN)
    assert not in_context.holds(BORN, BORN)
    assert not in_context.holds(NEVER, NEVER)
    knew = learnt(*[(0.1, 3.0, 95.0)] * 5, *[(0.6, 0.5, 99.0)] * 5)
    assert not in_context.holds(NEVER, knew)
    slow = learnt(*[(0.1, 9.0, 10.0)] * 2, *[(0.1, 1.0, 10.0)] * 4, *[(0.6, 0.5, 99.0)] * 4)
    assert not in_context.holds(NEVER, slow)  # the loss had fallen before
    guesser = learnt(*[(0.1, 3.0, 60.0)] * 10)
    assert not in_context.holds(guesser, BORN)


def test_the_report_says_when_and_how_far() -> None:
    result = in_context.report(1, dataclasses.replace(SIZES, every=10), NEVER, BORN)
    assert result.held
    assert (
        "from step 50 on (score 0.39 10 steps earlier, 0.40 then, 0.60 in the end" in result.shows
    )
    assert "From step 20 to 80 the loss on what was shown falls from 3.00 to 0.50" in result.shows
    assert "(step 50)" in result.verdict
    assert result.numbers["appears at step"] == 50


def test_a_tiny_training_shows_nothing_and_says_so(tmp_path: Path) -> None:
    result = in_context.run(1, SIZES)
    assert not result.held
    assert "not" in result.verdict
    two, one = result.numbers["2 layers"], result.numbers["1 layer"]
    assert [m.step for m in two.moments] == [0, 2, 4]
    assert set(two.moments[0].scores) == {"L0.H0", "L1.H0"}
    assert set(one.moments[0].scores) == {"L0.H0", "L0.H1"}
    assert abs(two.parameters / one.parameters - 1) < 0.05
    checked_result(result, tmp_path)
    assert in_context.measure(1, SIZES, 2) == two  # the same seed, the same figures


def test_run_by_name_only() -> None:
    assert "in-context" not in why.PARTS
    assert why.checked("In Context") == "in-context"
    with pytest.raises(UserError, match="in-context only"):
        why.run("scale", model="last")


# -- in full ---------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.timeout(600)
def test_it_holds(seed: int) -> None:
    result = why.run("in-context", seed, quiet=True)
    assert result.held, result.text()
