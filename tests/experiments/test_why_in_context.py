"""In-context learning: maps that no weight can know, the head that comes, a model that is there."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from budgerigar.cli.output import plain
from budgerigar.errors import UserError
from budgerigar.experiments import why
from budgerigar.experiments.why import (
    in_context,
    in_context_model,
    parts,
    repeated_tokens,
    word_maps,
)
from budgerigar.experiments.why.frame import WhyResult
from budgerigar.experiments.why.in_context import Learnt, Moment
from budgerigar.experiments.why.real_maps import RULES, WORDS
from budgerigar.experiments.why.repeated_tokens import Repeats
from budgerigar.experiments.why.word_maps import Mean, Shots, mean_of
from budgerigar.inspection.induction import induction_score
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import train_tokenizer

SIZES = in_context.Sizes(
    n_words=20, pairs=3, rounds=3, steps=4, batch=3, every=2, d_model=8, tests=6, repeats=2,
    shown=(0, 2),
)  # fmt: skip
MODEL = in_context_model.Sizes(
    lines=3, passes=1, maps=3, pairs=2, repeats=2, length=8, shown=(0, 1, 2)
)


def drawn(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
def little(layers: int = 2, assembly: Any = "decoder-only", vocab_size: int = 20) -> Transformer:
    config = TransformerConfig(
        assembly=assembly, vocab_size=vocab_size, context_length=64, d_model=16, n_layers=layers,
        n_heads=2, d_ff=8,
    )  # fmt: skip
    return Transformer(config, 1).eval()


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


def checked_result(result: WhyResult, tmp_path: Path) -> None:
    page = result.text(width=80)
    for words in (str(result.without), str(result.with_part), result.verdict[:30]):
        assert words in page
    assert result.picture(tmp_path / "picture.png").stat().st_size > 5_000
    found = json.loads(json.dumps(plain(result.as_dict())))
    assert found["part"] == "in-context"


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


# -- a model that is there -------------------------------------------------------------------------
@pytest.fixture(scope="module")
def tokenizer() -> Any:
    text = " ".join([*WORDS, *(f"{a} -> {b}\n" for rows in RULES.values() for a, b in rows)])
    return train_tokenizer([text], "character")


def test_each_pair_stands_once_at_each_line() -> None:
    sizes = dataclasses.replace(MODEL, lines=4, passes=2)
    texts = list(in_context_model.rule_texts(7, sizes, drawn()))
    assert len(texts) == 14
    for text in texts:
        assert len(set(text)) == 4
    for block in (texts[:7], texts[7:]):
        for line in range(4):
            assert sorted(text[line] for text in block) == list(range(7))


def test_answers_stand_where_they_are_said_to(tokenizer: Any) -> None:
    ids, spans = in_context_model.spelled(tokenizer, [("cat", "tac"), ("dog", "god")])
    assert tokenizer.decode(ids) == "cat -> tac\ndog -> god\n"
    assert [tokenizer.decode(ids[start:end]) for start, end in spans] == [" tac", " god"]


def test_an_answer_is_right_when_all_its_tokens_are(tokenizer: Any) -> None:
    """A stand-in that knows the text but for one token."""
    ids, spans = in_context_model.spelled(tokenizer, [("cat", "tac"), ("dog", "god")])

    def knows(tokens: Tensor) -> Tensor:
        logits = torch.zeros(1, len(ids), tokenizer.vocab_size)
        logits[0, range(len(ids) - 1), ids[1:]] = 5.0
        logits[0, spans[1][1] - 2, (ids[spans[1][1] - 1] + 1) % 30] = 9.0  # the last of " god"
        return logits

    network: Any = type("Stand", (), {"__call__": lambda _, t: knows(t), "device": "cpu"})()
    network.context_length = 100
    (loss, right), (_, wrong) = in_context_model.answers(network, ids, spans)
    assert (right, wrong) == (100.0, 0.0)
    each = math.log(math.exp(5) + tokenizer.vocab_size - 1) - 5
    assert loss == pytest.approx(4 * each, rel=1e-4)


def test_by_pair() -> None:
    """Two pairs, each asked for twice at each line; a pair is one measurement."""
    texts = [[0, 1], [1, 0], [0, 1], [1, 0]]
    read = torch.tensor(
        [[[1.0, 0], [2, 100]], [[3, 0], [4, 0]], [[5, 100], [6, 100]], [[7, 0], [8, 0]]]
    )
    found = in_context_model.by_pair(read.double(), texts)
    assert [m.mean for m in found.loss] == [4.0, 5.0]  # pair 0: 3 and 6; pair 1: 5 and 4
    assert [m.mean for m in found.accuracy] == [25.0, 50.0]
    assert found.loss[0].error == pytest.approx(math.sqrt(2) / math.sqrt(2))
    assert found.loss[0].n == 2


def test_both_copies_cost_what_one_computes_again(tokenizer: Any) -> None:
    network = little(vocab_size=tokenizer.vocab_size)
    found = repeated_tokens.measure(network, tokenizer, 2, 8, drawn(3))
    special = set(tokenizer.special_ids.values())
    usual = [i for i in range(tokenizer.vocab_size) if i not in special]
    first, second = [], []
    for row in word_maps.repeated(2, len(usual), 8, drawn(3)).tolist():
        text = [usual[n] for n in row]
        ids = [*tokenizer.start_ids, *text]
        chances = network(torch.tensor([ids]))[0].softmax(-1).tolist()
        begin = len(tokenizer.start_ids)
        nats = {t: -math.log(chances[begin + t - 1][text[t]]) for t in range(1, 16)}
        first.append(sum(nats[t] for t in range(1, 8)) / 7)
        second.append(sum(nats[t] for t in range(8, 16)) / 8)
    assert found.first.mean == pytest.approx(sum(first) / 2, rel=1e-4)
    assert found.second.mean == pytest.approx(sum(second) / 2, rel=1e-4)
    assert list(found.scores.values()) == sorted(found.scores.values(), reverse=True)
    assert len(found.scores) == 4
    assert found.without is None  # none of these is an induction head


def test_heads_switched_off_are_as_if_their_outputs_were_not_read() -> None:
    network, tokens = little(), torch.randint(0, 20, (2, 9), generator=drawn())
    taps = repeated_tokens.switched_off(network, ["L0.H1", "L1.H0"])
    with torch.no_grad():
        off = network(tokens, taps=taps)
        for block, head in zip(network.decoder.blocks(), (1, 0), strict=True):  # type: ignore[union-attr]
            block.self_attention.output.weight[:, 8 * head : 8 * head + 8] = 0.0
        assert torch.allclose(network(tokens), off, atol=1e-6)


def test_others_are_as_many_of_the_same_layers() -> None:
    config = dataclasses.replace(little().config, n_heads=4)
    network = Transformer(config, 1)
    for seed in range(5):
        found = repeated_tokens._others(network, ["L1.H0", "L1.H3", "L0.H2"], drawn(seed))
        assert len(set(found)) == 3
        assert {name[:2] for name in found} == {"L0", "L1"}
        assert not {"L1.H0", "L1.H3", "L0.H2"} & set(found)
    assert repeated_tokens._others(network, [], drawn()) == []


def test_whether_it_rests_on_the_heads(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base = Repeats(Mean(9, 0, 9), Mean(1, 0, 9), {}, 0.1, Mean(5, 0.1, 9), Mean(2, 0.1, 9))
    assert base.rests_on_heads
    assert not dataclasses.replace(base, without_others=Mean(4, 0.1, 9)).rests_on_heads
    assert not dataclasses.replace(base, without=None).rests_on_heads
    monkeypatch.setattr(repeated_tokens, "THRESHOLD", 0.0)  # all count: no others are left
    found = repeated_tokens.measure(
        little(vocab_size=tokenizer.vocab_size), tokenizer, 2, 8, drawn()
    )
    assert found.without is not None
    assert found.without.mean != found.second.mean
    assert found.without_others is None


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (Mean(0, 0, 40), Mean(90, 3, 40), "strong"),
        (Mean(10, 3, 40), Mean(30, 3, 40), "weak"),
        (Mean(10, 5, 40), Mean(20, 5, 40), "no gain that exceeds the noise"),
        (Mean(80, 1, 40), Mean(70, 1, 40), "no gain that exceeds the noise"),
    ],
)
def test_called_weak_where_it_is_weak(before: Mean, after: Mean, word: str) -> None:
    assert in_context_model.called(Shots((before, after), (before, after))) == word


def test_a_model_from_a_folder(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    network = little(vocab_size=tokenizer.vocab_size)
    loaded = SimpleNamespace(network=network, tokenizer=tokenizer)
    monkeypatch.setattr("budgerigar.formats.load.load_any", lambda _: loaded)
    short = {name: rows[:4] for name, rows in RULES.items()}
    monkeypatch.setattr(in_context_model, "RULES", short)
    with pytest.raises(UserError, match="64 tokens"):
        in_context_model.run("mine", 1, dataclasses.replace(MODEL, lines=4))
    result = in_context_model.run("mine", 1, dataclasses.replace(MODEL, lines=2))
    assert not result.held
    assert (
        "Weak or nothing on opposites, capitals, words turned round, random maps" in result.verdict
    )
    assert result.numbers["maps"]["opposites"].accuracy[0].n == 4
    checked_result(result, tmp_path)
    loaded.network = little(assembly="encoder-only")
    with pytest.raises(UserError, match="no decoder-only Transformer"):
        in_context_model.run("mine", 1, MODEL)


def test_what_a_model_holds() -> None:
    def known(most: float) -> Shots:
        return Shots((Mean(9, 0, 9), Mean(1, 0, 9)), (Mean(0, 0, 9), Mean(most, 0, 9)))

    sizes = dataclasses.replace(MODEL, lines=2)
    found = {name: known(90) for name in ("opposites", in_context_model.RANDOM)}
    found["capitals"] = known(20)
    repeats = Repeats(Mean(12, 0, 9), Mean(2, 0, 9), {"L1.H0": 0.9, "L0.H0": 0.1}, 0.02)
    result = in_context_model.report("mine", 1, sizes, found, repeats)
    assert result.held
    assert "Weak or nothing on capitals." in result.verdict
    assert "1 of 2 heads" in result.shows
    blind = dataclasses.replace(repeats, scores={"L1.H0": 0.3})
    assert not in_context_model.report("mine", 1, sizes, found, blind).held


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the user's own cache, or fetched; skipped where neither is."""
    monkeypatch.delenv("BUDGIE_CACHE")
    from budgerigar.text.model_catalogue import fetch_model

    try:
        fetch_model("smollm2-135m-instruct")
    except UserError as error:
        pytest.skip(str(error))
    result = why.run("in-context", 1, quiet=True, model="smollm2-135m-instruct")
    assert result.held, result.text()
    assert result.numbers["called"]["words turned round"] != "strong"


# -- in full ---------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.timeout(600)
def test_it_holds(seed: int) -> None:
    result = why.run("in-context", seed, quiet=True)
    assert result.held, result.text()
