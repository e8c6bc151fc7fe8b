"""Word vectors: gradients against autograd, blocks against pairs counted one by one, what is learnt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.models.word_vectors import WordVectors, block_loss, learn_block
from budgerigar.models.word_vectors_config import WordVectorsConfig
from budgerigar.text.word_text import WordText, keep_shares, noise_distribution
from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.run import train
from budgerigar.training.signals import StopRequest
from budgerigar.training.word_blocks import NOISE_WORDS, PLACES, SpanBlocks
from budgerigar.training.word_vectors import VectorText, VectorTrainer

METHODS = ("skip-gram", "cbow")


def config(method: str, **settings) -> WordVectorsConfig:
    return WordVectorsConfig(method=method, min_count=1, **settings).validate()


@pytest.mark.parametrize("method", METHODS)
def test_a_step_is_the_gradient_of_the_loss_in_float64(method: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (5, 7))
    n_predicting = 5 if method == "skip-gram" else 6
    mixing = None
    if method == "cbow":
        mixing = torch.rand(6, 5, generator=generator, dtype=torch.float64)
    positives = torch.randint(0, 3, (n_predicting, 7), generator=generator).double()
    noise = torch.rand(n_predicting, 7, generator=generator, dtype=torch.float64)
    x.requires_grad_()
    y.requires_grad_()
    h = x if mixing is None else mixing @ x
    scores = h @ y.T
    loss = -(positives * scores.sigmoid().log() + noise * (-scores).sigmoid().log()).sum()
    by_x, by_y = torch.autograd.grad(loss, (x, y))
    x, y = x.detach(), y.detach()
    new_x, new_y, found = learn_block(x, y, positives, noise, 0.5, mixing)
    torch.testing.assert_close(new_x, x - 0.5 * by_x, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(new_y, y - 0.5 * by_y, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(block_loss(found, positives, noise), loss.detach())


def span(method: str, n: int = 200, n_words: int = 9, window: int = 3, **settings):
    rng = np.random.default_rng(3)
    words = rng.integers(0, n_words, n).astype(np.int32)
    documents = (np.arange(n) // 23).astype(np.int32)
    text = WordText(words, documents, n)
    counts = np.bincount(words, minlength=n_words)
    chosen = config(method, window=window, **settings)
    edges = np.cumsum(noise_distribution(counts, 0.75))
    blocks = SpanBlocks(text, chosen, np.ones(n_words), edges, np.random.default_rng(1))
    return words, documents, chosen, blocks


@pytest.mark.parametrize("method", METHODS)
def test_blocks_hold_each_pair_within_reach_once_and_none_across_documents(method: str) -> None:
    words, documents, chosen, blocks = span(method)
    rng = np.random.default_rng(1)
    rng.random(len(words))  # the draws of the thinning-out
    reach = rng.integers(1, chosen.window + 1, len(words))
    wanted = np.zeros((9, 9))
    for place, word in enumerate(words):
        near = [
            words[other]
            for other in range(
                max(0, place - reach[place]), min(len(words), place + reach[place] + 1)
            )
            if other != place and documents[other] == documents[place]
        ]
        for other in near:
            wanted[word, other] += 1 if method == "skip-gram" else 1 / len(near)
    found = np.zeros((9, 9))
    for block in blocks:
        inputs, outputs = block.inputs.numpy(), block.outputs.numpy()
        assert len(set(inputs)) == len(inputs)
        assert len(set(outputs)) == len(outputs)
        if block.mixing is None:
            found[np.ix_(inputs, outputs)] += block.positives.numpy()
        else:  # words predicted, by the words that predict them
            found[np.ix_(outputs, inputs)] += (block.positives.T @ block.mixing).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert len(blocks) == -(-len(words) // PLACES)


@pytest.mark.parametrize("method", METHODS)
def test_each_true_pair_has_its_number_of_noise_words(method: str) -> None:
    *_, blocks = span(method, negatives=7)
    for block in blocks:
        torch.testing.assert_close(block.noise.sum(1), 7 * block.positives.sum(1))
        assert block.noise.sum().item() == pytest.approx(7 * block.pairs, rel=1e-5)


def test_noise_is_drawn_by_count_to_the_power() -> None:
    counts = np.array([1000, 100, 10])
    share = noise_distribution(counts, 0.75)
    np.testing.assert_allclose(share, counts**0.75 / (counts**0.75).sum())
    words = np.zeros(40 * PLACES, dtype=np.int32)
    text = WordText(words, np.zeros_like(words), len(words))
    rng = np.random.default_rng(0)
    blocks = SpanBlocks(text, config("skip-gram"), np.ones(3), np.cumsum(share), rng)
    drawn = np.zeros(3)
    for block in blocks:
        drawn[block.outputs.numpy()] += (block.noise.sum(0) / block.noise.sum()).numpy()
    np.testing.assert_allclose(drawn / drawn.sum(), share, atol=0.5 / NOISE_WORDS)


def test_frequent_words_are_thinned_out_by_the_formula() -> None:
    keep = keep_shares(np.array([9_000, 999, 1]), 1e-3)
    assert keep[0] == pytest.approx((1e-3 / 0.9) ** 0.5 + 1e-3 / 0.9)
    assert keep[2] == 1.0
    assert keep_shares(np.array([5, 5]), 0.0).tolist() == [1.0, 1.0]


def planted(n_sentences: int = 1500, seed: int = 0) -> tuple[WordText, np.ndarray]:
    """Sentences of 5 words of one of 4 topics with 6 words each: topic mates stand for each other."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, 4, n_sentences)
    words = (topics[:, None] * 6 + rng.integers(0, 6, (n_sentences, 5))).ravel().astype(np.int32)
    documents = np.repeat(np.arange(n_sentences), 5).astype(np.int32)
    return WordText(words, documents, len(words)), np.bincount(words, minlength=24)


def learnt(method: str, rate: float, seed: int = 1) -> tuple[WordVectors, VectorTrainer]:
    text, counts = planted()
    held_out, _ = planted(300, seed=9)
    chosen = config(method, vocab_size=24, d_embedding=12, subsample=0.0)
    rows = np.arange(24, dtype=np.int32)
    model = WordVectors.begin(chosen, rows, counts, seed)
    given = VectorText(text, held_out, rows, counts, [str(row) for row in rows], chosen)
    settings = TrainingRecipe(learning_rate=rate, seed=seed)
    trainer = VectorTrainer(model, given, settings, epochs=4)
    assert trainer.run(StopRequest())
    return model, trainer


@pytest.mark.parametrize(("method", "rate"), [("skip-gram", 0.025), ("cbow", 0.1)])
def test_words_that_stand_for_each_other_become_neighbours(method: str, rate: float) -> None:
    model, trainer = learnt(method, rate)
    for row in range(24):
        near = {other // 6 for other, _ in model.neighbours(row, 5)}
        assert near == {row // 6}
    assert trainer.evaluation is not None
    assert trainer.evaluation.loss < trainer.evaluation.by_frequency - 0.3


def test_one_seed_gives_one_result_and_another_another() -> None:
    first, again, other = (learnt("skip-gram", 0.025, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)


class StopAfter:
    """Asks for a stop once it was looked at `n` times."""

    def __init__(self, n: int) -> None:
        self.left = n

    @property
    def asked(self) -> str | None:
        self.left -= 1
        return "SIGINT" if self.left < 0 else None


SETTINGS = {"epochs": 2, "d_embedding": 8, "min_count": 2, "subsample": 0.0}


def write_text(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    nouns, verbs = ("cat", "dog", "bird"), ("sees", "hears", "likes")
    lines = [
        f"The {rng.choice(nouns)} {rng.choice(verbs)} a {rng.choice(nouns)}." for _ in range(900)
    ]
    path = folder / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_text(tmp_path)
    whole = train("word-vectors", [text], out=tmp_path / "whole", settings=SETTINGS)
    run = VectorTrainer.run
    monkeypatch.setattr(VectorTrainer, "run", lambda self, stop: run(self, StopAfter(29)))
    stopped = train("word-vectors", [text], out=tmp_path / "stopped", settings=SETTINGS)
    assert not stopped.report["finished"]
    assert stopped.report["step"] == 29
    monkeypatch.setattr(VectorTrainer, "run", run)
    resumed = train(resume=tmp_path / "stopped")
    assert resumed.report["finished"]
    assert torch.equal(resumed.network.inputs, whole.network.inputs)
    assert torch.equal(resumed.network.outputs, whole.network.outputs)
    lines = [(tmp_path / run / "metrics.jsonl").read_text() for run in ("whole", "stopped")]
    assert lines[0] == lines[1]


def test_a_run_folder_holds_words_in_lower_case_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = train("word-vectors", [write_text(tmp_path)], out=tmp_path / "run", settings=SETTINGS)
    said = capsys.readouterr().err
    assert "upper and lower case as one" in said
    assert "signs" in said
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert kept["kind"] == "word-vectors"
    assert done.network.n_words == 8  # the, a, three nouns, three verbs
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Nearest words" in page
    assert "nats per pair" in page


def test_settings_of_other_models_are_said_to_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {**SETTINGS, "batch_size": 3}
    train("word-vectors", [write_text(tmp_path)], out=tmp_path / "run", settings=chosen)
    assert "--batch-size has no effect here" in capsys.readouterr().err


def test_a_text_without_spaces_is_learnt_by_characters(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("轩辕有一只虎皮鹦鹉，它有绿色的羽毛。" * 40, encoding="utf-8")
    done = train("word-vectors", [path], out=tmp_path / "run", settings=SETTINGS)
    assert done.tokenizer.kind == "character"


def test_a_text_of_one_word_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("same same same " * 30, encoding="utf-8")
    with pytest.raises(UserError, match="fewer than two different words"):
        train("word-vectors", [path], out=tmp_path / "run")


def test_a_small_vocabulary_is_learnt_without_overshooting(tmp_path: Path) -> None:
    chosen = {**SETTINGS, "learning_rate": 0.5, "epochs": 4}
    done = train("word-vectors", [write_text(tmp_path)], out=tmp_path / "run", settings=chosen)
    assert done.report["evaluation"]["loss"] < done.report["evaluation"]["by_frequency"]


def test_settings_without_meaning_are_listed_at_once() -> None:
    with pytest.raises(UserError) as caught:
        WordVectorsConfig(window=0, negatives=0, subsample=2.0).validate()
    assert all(name in str(caught.value) for name in ("window", "negatives", "subsample"))
