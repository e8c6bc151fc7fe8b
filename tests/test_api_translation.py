"""The public surface of a translator, on one trained for a few steps."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import budgerigar as bg
from budgerigar.errors import UserError
from budgerigar.text.pairs import sentence_pairs

LESSON = "轩辕有一只虎皮鹦鹉"


@pytest.fixture(scope="module")
def model(translator_folder: Path) -> bg.Model:
    return bg.load(translator_folder, device="cpu")


def test_lines_in_lines_out(model: bg.Model) -> None:
    lines = [LESSON, "", "梅有一只猫", " "]
    found = model.translate(lines)
    assert [bool(line) for line in found] == [True, False, True, False]
    assert model.translate(LESSON) == found[0]
    assert model.translate(iter(lines)) == found
    assert [model.translate(line, batch_size=1) for line in lines] == found
    assert model.translate([]) == []


def test_translations_hold_scores_and_tokens(model: bg.Model) -> None:
    one, blank = model.translations([LESSON, ""], n_best=3)
    assert one.source == LESSON
    assert len(one.hypotheses) == 3
    best = one.hypotheses[0]
    assert model.tokenizer.decode(best.ids) == best.text
    assert best.log_probability == pytest.approx(-model.score(LESSON, best.text).nats, rel=1e-4)
    assert blank.text == ""


def test_score_is_the_sum_of_the_logits_losses(model: bg.Model) -> None:
    target = "Xuanyuan has a cat"
    score = model.score(LESSON, target)
    end = model.tokenizer.end_id
    written = [*model.tokenizer.encode(target), end]
    losses = -model.logits([end, *written[:-1]], model.encode(LESSON)).double().log_softmax(-1)
    expected = [float(losses[t, token]) for t, token in enumerate(written)]
    assert score.tokens == len(written)
    assert score.nats == pytest.approx(sum(expected), rel=1e-9)
    assert [nats for _, nats, _ in score.per_token] == pytest.approx(expected)
    assert score.bytes == score.characters == len(target) + 1
    assert score.perplexity == pytest.approx(math.exp(sum(expected) / len(written)))
    for t, (_, _, rank) in enumerate(score.per_token):
        assert rank == int((losses[t] < losses[t, written[t]]).sum()) + 1


def test_looking_does_not_change_the_answer(model: bg.Model) -> None:
    target = "Xuanyuan has a budgerigar"
    ids = [model.tokenizer.end_id, *model.tokenizer.encode(target)]
    before = model.logits(ids, model.encode(LESSON))
    trace = model.trace(LESSON, target)
    torch.testing.assert_close(trace.logits, before, rtol=1e-5, atol=1e-5)
    assert torch.equal(model.logits(ids, model.encode(LESSON)), before)
    for of, kind in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross")):
        assert trace.attention("L1.H1", of=of, kind=kind).difference < 1e-4
    own = model.trace(LESSON)
    assert own.text.strip() == model.translate(LESSON)


def test_views_leave_the_model_alone(model: bg.Model) -> None:
    before = model.translate(LESSON)
    blind = model.without_source()
    lines = [LESSON, "诺拉昨天看见了一只猫"]
    assert len(set(blind.translate(lines, max_length=8))) == 1
    assert blind.translate(lines, max_length=8) == model.translate(
        lines, max_length=8, no_source=True
    )
    twice = model.without_source().edited("L0", of="decoder", kind="cross")
    assert twice.trace(LESSON, "x").no_source
    edited = model.edited("L0", of="decoder", kind="cross")
    assert edited.source_tokenizer is model.source_tokenizer
    assert edited.score(LESSON, before).nats != model.score(LESSON, before).nats
    assert model.translate(LESSON) == before


def test_evaluate_counts_what_training_counted(model: bg.Model, translator_folder: Path) -> None:
    import json

    rows = (translator_folder / "metrics.jsonl").read_text().splitlines()
    final = next(row for row in map(json.loads, rows) if row["kind"] == "final")
    found = model.evaluate()
    assert found.nats_per_token == pytest.approx(final["loss"], rel=1e-6)
    assert found.n_tokens == final["n_tokens"]


def test_evaluate_files(model: bg.Model, tmp_path: Path) -> None:
    pairs = sentence_pairs(6, seed=2, split="test")
    (tmp_path / "t.zh").write_text("".join(f"{pair.source}\n" for pair in pairs), "utf-8")
    (tmp_path / "t.en").write_text("".join(f"{pair.target}\n" for pair in pairs), "utf-8")
    files = {"source": tmp_path / "t.zh", "target": str(tmp_path / "t.en")}
    loss = model.evaluate(**files)
    expected = sum(model.score(pair.source, pair.target).nats for pair in pairs)
    assert loss.nats == pytest.approx(expected, rel=1e-5)
    found = bg.evaluate(model, **files, beam_size=1, bootstrap=0)
    assert found.loss == loss
    assert found.translations == model.translate([pair.source for pair in pairs], beam_size=1)
    assert found.scores.bleu.score > 0
    assert found.sentences_per_second > 0


def test_a_lowercased_model_reads_and_is_scored_in_lower_case(
    model: bg.Model, tmp_path: Path
) -> None:
    lower = bg.Model(
        model.network,
        model.tokenizer,
        model.settings,
        {"text": {"lowercase": True}},
        model.folder,
        model.source_tokenizer,
    )
    seen = model.translate("a梅有一只猫")
    assert lower.translate("A梅有一只猫") == seen
    assert lower.translations("A梅有一只猫")[0].source == "A梅有一只猫"
    assert lower.score("A", "A CAT").nats == pytest.approx(model.score("a", "a cat").nats)
    (tmp_path / "t.tsv").write_text("梅有一只猫\tA CAT\n", "utf-8")
    found = lower.evaluate_translations(pairs=tmp_path / "t.tsv", bootstrap=0)
    assert "case:lc" in found.scores.bleu.signature


def test_shown_on_one_line(model: bg.Model) -> None:
    for thing in (model, model.without_source()):
        assert "in 2 + 2 layers" in repr(thing)
        assert len(repr(thing).splitlines()) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.generate("x"), "model.translate"),
        (lambda m: m.generate_many(["x"]), "budgie translate"),
        (lambda m: m.stream("x"), "decoder-only models generate"),
        (lambda m: m.score("x"), r"score\(source, target\)"),
        (lambda m: m.logits([1]), "source"),
        (lambda m: m.translate("x", beams=3), "no option 'beams'"),
        (lambda m: m.translate("x", beam_size=0), "beam_size = 0"),
        (lambda m: m.translate("a\nb"), "several lines"),
        (lambda m: m.translate([3]), "not text"),
        (lambda m: m.translate(3), "not text"),
        (lambda m: m.score("x" * 500, "x"), "reads at most"),
        (lambda m: m.trace("x" * 500, "x"), "at most"),
        (lambda m: m.evaluate("file.txt"), "--source FILE --target FILE"),
        (lambda m: m.evaluate(source="a"), "needs --target"),
        (lambda m: m.evaluate_translations(beams=2), "no option 'beams'"),
        (lambda m: m.alignment_errors("gold.txt"), "--source FILE"),
    ],
)
def test_mistakes(call: object, words: str, model: bg.Model) -> None:
    with pytest.raises(UserError, match=words):
        call(model)  # type: ignore[operator]


def test_other_roles_are_told_apart() -> None:
    from budgerigar.models.ngram import NgramModel
    from budgerigar.text.corpus import prepare_documents

    corpus = prepare_documents(["one bird", "two birds"], ["a bird"])
    tokenizer = corpus.tokenizer
    config = bg.Recipe(model={"kind": "ngram"}).model_config(tokenizer.vocab_size)
    network = NgramModel.fit(corpus.train.tokens, config, end_id=corpus.train.end_id)
    model = bg.Model(network, tokenizer)
    for call in (
        lambda: model.translate("x"),
        lambda: model.score("x", "y"),
        lambda: model.trace("x", "y"),
        lambda: model.without_source(),
        lambda: model.alignment_errors(),
        lambda: model.evaluate_translations(),
        lambda: model.evaluate(pairs="a.tsv"),
    ):
        with pytest.raises(UserError, match=r"an n-gram.*Encoder-decoders"):
            call()
