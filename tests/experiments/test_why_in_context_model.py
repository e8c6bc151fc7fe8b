"""In-context learning of a model that is there: rules, random maps, the heads switched off."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from in_context_parts import checked_result, drawn, little
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.experiments import why
from budgerigar.experiments.why import in_context_model, repeated_tokens, word_maps
from budgerigar.experiments.why.real_maps import RULES, WORDS
from budgerigar.experiments.why.repeated_tokens import Repeats
from budgerigar.experiments.why.word_maps import Mean, Shots
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import train_tokenizer

MODEL = in_context_model.Sizes(
    lines=3, passes=1, maps=3, pairs=2, repeats=2, length=8, shown=(0, 1, 2)
)


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
