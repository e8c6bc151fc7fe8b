"""The hand-set models give the lesson's numbers, through the same layers as every other model."""

from __future__ import annotations

import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.models.worked import (
    APPLE_WORDS,
    IT_KEYS,
    IT_QUERY,
    IT_WORDS,
    apple,
    is_undecided,
    it,
    it_steps,
    without_norms,
    worked_steps,
)


@pytest.mark.parametrize(
    ("sentence", "gathered", "combined"),
    [
        ("the dear black apple", [0.9, 0.9, 0.6, 0.6], [0.9, 0.9, 0.1, 0.95]),
        ("the black dear apple", [0.9, 0.9, 0.6, 0.6], [0.9, 0.9, 0.1, 0.95]),
        ("the dear apple", [0.9, 0.1, 0.6, 0.6], [0.9, 0.1, 0.6, 0.6]),
        ("the black apple", [0.1, 0.9, 0.6, 0.6], [0.1, 0.9, 0.6, 0.6]),
        ("the apple", [0.1, 0.1, 0.6, 0.6], [0.1, 0.1, 0.6, 0.6]),
    ],
)
def test_the_apple(sentence: str, gathered: list[float], combined: list[float]) -> None:
    steps = worked_steps(apple(), sentence)
    torch.testing.assert_close(steps.before, torch.tensor([0.1, 0.1, 0.6, 0.6]))
    torch.testing.assert_close(steps.after_attention, torch.tensor(gathered), atol=1e-6, rtol=0)
    torch.testing.assert_close(steps.after_feed_forward, torch.tensor(combined), atol=1e-6, rtol=0)
    assert is_undecided(steps.after_feed_forward.tolist()) == (combined[2] == combined[3])


def test_each_head_finds_its_word_or_rests() -> None:
    weights = worked_steps(apple(), "the dear black apple").weights
    torch.testing.assert_close(weights.argmax(-1), torch.tensor([1, 2]))
    assert float(weights.max(-1).values.min()) > 0.999
    resting = worked_steps(apple(), "the dear apple").weights
    torch.testing.assert_close(resting.argmax(-1), torch.tensor([1, 0]))


def test_without_its_unit_the_apple_stays_undecided() -> None:
    steps = worked_steps(apple(feed_forward=False), "the dear black apple")
    torch.testing.assert_close(steps.after_feed_forward, steps.after_attention)


def test_its_dials_can_be_turned() -> None:
    steps = worked_steps(apple(threshold=0.8, to_fruit=-0.5, to_tech=0.2), "the dear black apple")
    expected = torch.tensor([0.9, 0.9, 0.6 - 0.5 * 1.0, 0.6 + 0.2 * 1.0])
    torch.testing.assert_close(steps.after_feed_forward, expected, atol=1e-6, rtol=0)


def test_its_logits_are_the_meanings() -> None:
    model = apple()
    logits = model.network(model.ids("the dear black apple"))[0, -1]
    named = dict(zip(APPLE_WORDS, logits.tolist(), strict=True))
    assert named["fruit"] == pytest.approx(0.1, abs=1e-6)
    assert named["tech"] == pytest.approx(0.95, abs=1e-6)


def test_a_word_that_it_does_not_know() -> None:
    with pytest.raises(UserError, match="'pear'"):
        apple().ids("the pear")
    with pytest.raises(UserError, match="give it some"):
        apple().ids(" ")


def test_without_norms_takes_all_of_them() -> None:
    config = TransformerConfig(
        assembly="encoder-decoder", vocab_size=8, d_model=8, n_heads=2, n_layers=2, decoder_start=0
    )
    network = without_norms(Transformer(config))
    assert not [name for name, _ in network.named_parameters() if "norm" in name]
    tokens = torch.tensor([[1, 2, 3]])
    assert network(tokens, source=tokens).shape == (1, 3, 8)


# -- it --------------------------------------------------------------------------------------------


def test_it_means_the_budgerigar() -> None:
    steps = it_steps(it())
    named = dict(zip(IT_WORDS, steps.scores.tolist(), strict=True))
    wanted = {"Xuanyuan": 1.2, "has": -0.66, "budgerigar": 6.8, "green": 0.8, "it": 0.25}
    assert named == pytest.approx(wanted, abs=1e-6)
    torch.testing.assert_close(steps.scaled, steps.scores / 8**0.5)
    percents = [round(100 * weight) for weight in steps.weights.tolist()]
    assert percents == [10, 5, 70, 8, 7]
    assert float(steps.weights.sum()) == pytest.approx(1, abs=1e-6)


def test_it_takes_along_the_values_by_their_weights() -> None:
    steps = it_steps(it())
    by_hand = sum(
        w * torch.tensor(IT_KEYS[n]) for n, w in zip(IT_WORDS, steps.weights, strict=True)
    )
    torch.testing.assert_close(steps.output, by_hand)
    assert float(steps.output[0]) == pytest.approx(0.70, abs=0.005)  # an animal


def test_its_scores_are_products_of_eight_numbers() -> None:
    for word, score in zip(IT_WORDS, (1.2, -0.66, 6.8, 0.8, 0.25), strict=True):
        assert sum(a * b for a, b in zip(IT_QUERY, IT_KEYS[word], strict=True)) == pytest.approx(
            score
        )


def test_undivided_it_hardly_looks_elsewhere() -> None:
    assert float(it_steps(it(divided=False)).weights[2]) > 0.99
    with pytest.raises(UserError, match="'pear'"):
        it({"pear": 1.0})
