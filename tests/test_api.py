"""The public surface, on a model trained for a few steps."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import budgerigar as bg
from budgerigar.errors import UserError

TEXT = "the cat sat on the mat . the dog sat on the log . " * 60
SMALL = {
    "n_layers": 2,
    "n_heads": 2,
    "d_model": 32,
    "context_length": 32,
    "steps": 20,
    "batch_size": 4,
    "baselines": False,
    "threads": 1,
    "sample_every": 0,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> bg.Run:
    folder = tmp_path_factory.mktemp("api")
    file = folder / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    recipe = bg.Recipe()
    return bg.train(file, recipe=recipe, out=folder / "run", **SMALL)


@pytest.fixture(scope="module")
def model(run: bg.Run) -> bg.Model:
    return bg.load(run.folder, device="cpu")


def test_train_returns_a_run(run: bg.Run) -> None:
    assert run.report["finished"]
    assert run.report["step"] == 20
    assert run.model.config.n_layers == 2
    assert (run.folder / "model.safetensors").is_file()
    assert (run.folder / "recipe.toml").is_file()


def test_loaded_is_the_trained(run: bg.Run, model: bg.Model) -> None:
    ids = model.encode("the cat")
    assert torch.equal(model.logits(ids), run.model.logits(ids))
    assert model.folder == run.folder
    assert model.device.type == "cpu"


def test_stream_and_generate_are_one(model: bg.Model) -> None:
    options = {"max_new_tokens": 30, "seed": 3}
    text = model.generate("the ", **options)
    assert "".join(model.stream("the ", **options)) == text
    assert model.generate("the ", **options) == text
    assert model.generate("the ", max_new_tokens=30, seed=4) != text


def test_a_batch_gives_what_one_gives(model: bg.Model) -> None:
    prompts = ["the cat", "", "a much longer prompt that sat on"]
    alone = [model.generate(p, max_new_tokens=12, seed=1) for p in prompts]
    together = model.generate_many(prompts, max_new_tokens=12, seed=1)
    assert [one.text for one in together] == alone


def test_score_is_the_sum_of_the_logits_losses(model: bg.Model) -> None:
    text = "the dog sat"
    score = model.score(text)
    ids = model.encode(text)
    losses = -model.logits(ids).double().log_softmax(-1)
    expected = [float(losses[t, ids[t + 1]]) for t in range(len(ids) - 1)]
    assert score.tokens == len(expected)
    assert score.nats == pytest.approx(sum(expected), rel=1e-5)
    assert [nats for _, nats, _ in score.per_token] == pytest.approx(expected, rel=1e-4)
    assert score.characters == score.bytes
    assert score.bits_per_byte == pytest.approx(score.nats / math.log(2) / score.bytes)
    assert score.perplexity == pytest.approx(math.exp(score.nats / score.tokens))
    for t, (_, _, rank) in enumerate(score.per_token):
        better = (losses[t] < losses[t, ids[t + 1]]).sum()
        assert rank == int(better) + 1


def test_logits_have_one_row_per_id(model: bg.Model) -> None:
    logits = model.logits([1, 2, 3])
    assert logits.shape == (3, model.tokenizer.vocab_size)
    assert logits.dtype == torch.float32


def test_looking_does_not_change_the_answer(model: bg.Model) -> None:
    ids = model.encode("the cat sat")
    before = model.logits(ids)
    trace = model.trace("the cat sat")
    assert torch.allclose(trace.logits, before, rtol=1e-5, atol=1e-6)
    assert torch.equal(model.logits(ids), before)
    assert trace.attention("L1.H1").difference < 1e-5


def test_edited_is_a_view(model: bg.Model) -> None:
    ids = model.encode("the cat sat")
    before = model.logits(ids)
    edited = model.edited(off=["L0.H0", "L0.H1", "L1.H0", "L1.H1"])
    assert not torch.allclose(edited.logits(ids), before)
    assert torch.equal(model.logits(ids), before)
    assert torch.equal(model.edited().logits(ids), before)
    assert len(edited.generate("the ", max_new_tokens=5)) > 0


def test_evaluate_on_the_validation_text(run: bg.Run, model: bg.Model) -> None:
    found = model.evaluate()
    assert found.nats_per_token == pytest.approx(run.report["evaluation"]["nats_per_token"])


def test_evaluate_on_a_file(model: bg.Model, tmp_path: Path) -> None:
    file = tmp_path / "other.txt"
    file.write_text("the cat sat on the log . " * 8, encoding="utf-8")
    found = model.evaluate(file)
    assert found.n_tokens == len("the cat sat on the log . " * 8) - 1
    assert model.evaluate(file, streaming=True).streaming


def test_resume_goes_on(run: bg.Run) -> None:
    longer = bg.train(resume=run.folder, steps=24)
    assert longer.report["step"] == 24


def test_start_from_another_run(run: bg.Run, tmp_path: Path) -> None:
    file = tmp_path / "new.txt"
    file.write_text("the log sat on the cat . " * 40, encoding="utf-8")
    tuned = bg.train(
        file, recipe=bg.Recipe(), start_from=run.folder, out=tmp_path / "tuned", **SMALL
    )
    assert tuned.model.config == run.model.config
    assert tuned.model.tokenizer.fingerprint == run.model.tokenizer.fingerprint


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.generate("a", top_q=3), "no option 'top_q'"),
        (lambda m: m.logits([]), "at least one"),
        (lambda m: m.logits([10**6]), "outside the vocabulary"),
        (lambda m: m.logits([1] * 1000), "more than the 32 positions"),
        (lambda m: m.score(""), "nothing to score"),
        (lambda m: m.edited(off=["L9.H0"]), "no layer 9"),
        (lambda m: bg.load("no/such/run"), "no run folder"),
        (lambda m: bg.load(m.folder, device="cpux"), "cpux"),
        (lambda m: bg.load(None), "None"),
        (lambda m: bg.load(""), "empty name"),
        (lambda m: bg.train(None), "names no file"),
        (lambda m: bg.train(""), "names no file"),
        (lambda m: bg.train(7), "names no file"),
        (lambda m: m.generate(3), "3 is a int, not text"),
        (lambda m: m.generate(None), "not text"),
        (lambda m: m.generate(["a", "b"]), "generate_many"),
        (lambda m: m.generate([]), "generate_many"),
        (lambda m: m.generate_many([3]), "not text"),
        (lambda m: list(m.stream(3)), "not text"),
        (lambda m: m.score(3), "not text"),
        (lambda m: m.encode(b"a"), "not text"),
        (lambda m: m.logits("a"), "no list of token ids"),
        (lambda m: m.logits(3), "no list of token ids"),
        (lambda m: m.logits([1.5]), "no list of token ids"),
        (lambda m: m.trace(3), "no list of token ids"),
        (lambda m: m.trace([[1]]), "no list of token ids"),
        (lambda m: m.trace("a").html("no/such/folder/x.html"), "does not exist"),
        (lambda m: m.trace("a").heatmap("no/such/folder/x.png"), "no folder"),
    ],
)
def test_mistakes(call: object, words: str, model: bg.Model) -> None:
    with pytest.raises(UserError, match=words):
        call(model)  # type: ignore[operator]


def test_ids_may_be_an_array_or_a_tensor(model: bg.Model) -> None:
    ids = model.encode("the cat")
    for given in (np.array(ids), torch.tensor(ids)):
        assert torch.equal(model.logits(given), model.logits(ids))
        assert model.trace(given).about == model.trace(ids).about


def test_what_is_shown_of_a_run_and_a_model_is_one_line(run: bg.Run, model: bg.Model) -> None:
    for thing in (run, model, model.edited(off="L0.H0"), model.tokenizer):
        assert len(repr(thing).splitlines()) == 1
    assert "parameters in 2 layers" in repr(model)
    assert str(run.folder) in repr(run)


def test_an_end_within_the_ids_opens_a_document_for_every_verb() -> None:
    """Logits, trace and score of the same ids agree, and a document sees nothing before it."""
    from budgerigar.models.transformer import Transformer
    from budgerigar.text.corpus import prepare_documents

    tokenizer = prepare_documents(["one bird", "two birds"], ["a bird"]).tokenizer
    config = bg.TransformerConfig(
        vocab_size=tokenizer.vocab_size, context_length=16, d_model=16, n_heads=2, init_std=0.3
    )
    model = bg.Model(Transformer(config).eval(), tokenizer)
    end = tokenizer.end_id
    assert end is not None
    ids = [end, *tokenizer.encode("one"), end, *tokenizer.encode("two")]
    logits = model.logits(ids)
    assert torch.equal(logits, model.trace(ids).logits)
    torch.testing.assert_close(logits[4:], model.logits(ids[4:]), rtol=1e-4, atol=1e-4)
    edited = model.edited("L0.H0", how="mean").network.edit
    first = model.trace([end]).tap("decoder.0.self_attention.head_output")[:, 0]
    reference = edited.reference["decoder.0.self_attention.head_output"][:, 0]
    torch.testing.assert_close(reference, torch.from_numpy(first))
