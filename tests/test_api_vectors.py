"""Word vectors through the public surface: neighbours, analogy, map, embeddings, commands, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import budgerigar as bg
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.formats.embeddings import begin_embedding, first_embedding, initial_embedding
from budgerigar.inspection.word_map import draw_word_map, principal_components
from budgerigar.models.ancestor_configs import FeedForwardConfig
from budgerigar.models.feed_forward import FeedForward
from budgerigar.text.tokenizers import train_tokenizer
from budgerigar.text.words import word_keys

NAMES = ("cat", "dog", "bird", "cow")
PLACES = ("Paris", "Rome", "Oslo", "Bern")


def sentences(n: int = 500) -> str:
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(n):
        animal, place = rng.choice(NAMES), rng.choice(PLACES)
        lines.append(f"The {animal} eats and {rng.choice(NAMES)} sleeps.")
        lines.append(f"In {place} or {rng.choice(PLACES)} it RAINS, zebra{rng.integers(1e9)}!")
    return "\n\n".join(lines)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "animals.txt"
    path.write_text(sentences(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, text: Path) -> bg.Run:
    out = tmp_path_factory.mktemp("runs") / "vectors"
    settings = {"subsample": 0.0, "d_embedding": 16, "window": 3, "vocab_size": 600}
    return bg.train(
        text, recipe="word-vectors", out=out, seed=3, documents="blank-lines", **settings
    )


def test_words_are_whole_and_in_lower_case(run: bg.Run) -> None:
    words = run.model.words
    assert {"the", "rains", "paris", *NAMES} <= set(words)
    assert all(word == word.strip().lower() for word in words)
    assert "zebra" not in words or run.model.config.min_count <= 900
    assert "." not in words
    assert "!" not in words


def test_neighbours_are_what_the_text_puts_into_the_same_places(run: bg.Run) -> None:
    model = bg.load(run.folder)
    assert {word for word, _ in model.neighbours("cat", 3)} == set(NAMES) - {"cat"}
    assert {word for word, _ in model.neighbours("ROME", 3)} == {"paris", "oslo", "bern"}
    cosines = [cosine for _, cosine in model.neighbours("cat", 5)]
    assert cosines == sorted(cosines, reverse=True)
    vectors = {word: model.vector(word) for word in ("cat", model.neighbours("cat", 1)[0][0])}
    cosine = torch.cosine_similarity(*vectors.values(), dim=0)
    assert cosine.item() == pytest.approx(cosines[0], abs=1e-5)


def test_an_analogy_is_b_minus_a_plus_c_of_unit_vectors(run: bg.Run) -> None:
    model = run.model
    found = model.analogy("cat", "dog", "paris", 2)
    unit = {w: model.vector(w) / model.vector(w).norm() for w in model.words}
    target = unit["dog"] - unit["cat"] + unit["paris"]
    wanted = {
        word: torch.cosine_similarity(vector, target, dim=0).item()
        for word, vector in unit.items()
        if word not in ("cat", "dog", "paris")
    }
    best = sorted(wanted, key=wanted.__getitem__, reverse=True)[:2]
    assert [word for word, _ in found] == best
    assert found[0][1] == pytest.approx(wanted[best[0]], abs=1e-5)


def test_an_unknown_word_is_an_error_that_names_its_like(run: bg.Run) -> None:
    with pytest.raises(UserError, match=r"'catt' has no vector.*cat"):
        run.model.neighbours("catt")


def test_evaluation_is_below_what_frequencies_tell(run: bg.Run, text: Path) -> None:
    found = run.model.evaluate()
    assert found.loss < found.by_frequency < found.by_nothing
    assert run.model.evaluate(text).n_words > found.n_words


def test_evaluation_agrees_with_every_pair_counted_by_hand(run: bg.Run, tmp_path: Path) -> None:
    model, line = run.model, "The cat eats and dog sleeps."
    path = tmp_path / "line.txt"
    path.write_text(line, encoding="utf-8")
    found = model.evaluate(path)
    words = line.lower().rstrip(".").split()
    inputs, outputs = model.network.inputs.double(), model.network.outputs.double()
    share = torch.as_tensor(model.network.counts, dtype=torch.float64) ** 0.75
    share /= share.sum()
    total = pairs = 0.0
    for here, word in enumerate(words):
        for there, other in enumerate(words):
            weight = max(0, 3 - abs(here - there) + 1) / 3 if here != there else 0.0
            x, y = inputs[model.row(word)], outputs[model.row(other)]
            against = (share * -torch.nn.functional.logsigmoid(-(outputs @ x))).sum()
            total += weight * float(-torch.nn.functional.logsigmoid(x @ y) + 5 * against)
            pairs += weight
    assert found.pairs == pytest.approx(pairs)
    assert found.loss == pytest.approx(total / pairs, abs=0.02)  # noise is 512 of its quantiles


def test_another_model_begins_with_the_vectors(run: bg.Run, text: Path, tmp_path: Path) -> None:
    model = run.model
    same = first_embedding(run.folder, model.tokenizer)
    token = next(i for i, key in enumerate(word_keys(model.tokenizer)) if key == "cat")
    assert torch.equal(same.matrix[token], model.vector("cat"))
    assert not same.known.all()
    other = train_tokenizer([sentences(50)], "word", end=True)
    matrix = initial_embedding(run.folder, other)
    ids = [i for i, key in enumerate(word_keys(other)) if key == "cat"]
    assert matrix.shape == (other.vocab_size, 16)
    assert all(torch.equal(matrix[i], model.vector("cat")) for i in ids)
    assert torch.equal(matrix, initial_embedding(run.folder, other))
    config = FeedForwardConfig(model.tokenizer.vocab_size, d_embedding=16, d_hidden=4)
    network = FeedForward(config)
    assert "% of the tokens" in begin_embedding(network, model.tokenizer, run.folder)
    assert torch.equal(network.embedding.tokens.weight.detach(), same.matrix)
    with pytest.raises(UserError, match="16 wide"):
        begin_embedding(FeedForward(config.replace(d_embedding=9)), model.tokenizer, run.folder)


def test_training_begins_with_the_vectors(run: bg.Run, text: Path, tmp_path: Path) -> None:
    begun = bg.train(
        text, recipe="feed-forward", out=tmp_path / "next", embedding_from=str(run.folder), steps=1,
        d_embedding=16, d_hidden=8, order=3, tokenizer="word", vocab_size=600, learning_rate=1e-9,
        embedding_learning_rate=1e-9, documents="blank-lines", baselines=False, sample_every=0,
        window_length=16, batch_size=2, threads=1,
    )  # fmt: skip
    cat = next(i for i, key in enumerate(word_keys(begun.model.tokenizer)) if key == "cat")
    begins = begun.model.network.embedding.tokens.weight[cat].detach()
    torch.testing.assert_close(begins, run.model.vector("cat"), rtol=1e-4, atol=1e-6)


def test_verbs_of_other_roles_are_refused_and_those_that_fit_are_named(run: bg.Run) -> None:
    model = run.model
    calls = [
        lambda: model.generate("x"), lambda: model.generate_many(["x"]), lambda: model.score("x"),
        lambda: model.translate("x"), lambda: model.trace("x"), lambda: model.logits([1]),
        lambda: model.evaluate_translations(),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(UserError, match="neighbours, analogy and map"):
            call()


def test_principal_components_are_those_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 3)) * [5.0, 2.0, 0.5]
    places, shares = principal_components(vectors)
    values, directions = np.linalg.eigh(np.cov(vectors.T, bias=True))
    np.testing.assert_allclose(shares, values[::-1][:2] / values.sum())
    wanted = (vectors - vectors.mean(0)) @ directions[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(places), np.abs(wanted), atol=1e-9)


def test_a_map_writes_words_as_text_and_refuses_what_is_no_picture(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(5, 4))
    words = ["cat", "$dog", "鹦鹉", "cow", "hen"]
    page = draw_word_map(tmp_path / "map.svg", vectors, words).read_text(encoding="utf-8")
    assert all(word in page for word in words)
    with pytest.raises(UserError, match="three words"):
        draw_word_map(tmp_path / "two.png", vectors[:2], words[:2])
    with pytest.raises(UserError, match=r"\.png"):
        draw_word_map(tmp_path / "map.txt", vectors, words)


def test_the_labels_of_a_map_lie_in_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("budgerigar.inspection.word_map.save", lambda f, path: drawn.append(f))
    vectors = np.random.default_rng(0).normal(size=(5, 4)) * 0.01  # long numbers on the axes
    draw_word_map(tmp_path / "map.png", vectors, ["a", "b", "c", "d", "e"])
    drawn[0].draw_without_rendering()
    for axis in (drawn[0].axes[0].xaxis, drawn[0].axes[0].yaxis):
        box = axis.label.get_window_extent()
        assert min(box.x0, box.y0) >= 0


def test_commands(run: bg.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(run.folder)
    assert main(["look", folder, "cat dog", "--words", "2"]) == 0
    printed = capsys.readouterr().out
    assert "nearest to cat" in printed
    assert "nearest to dog" in printed
    picture = tmp_path / "map.png"
    assert main(["look", folder, "--analogy", "cat dog rome", "--map", str(picture)]) == 0
    assert "cat : dog = rome : ?" in capsys.readouterr().out
    assert picture.stat().st_size > 10_000
    assert main(["evaluate", folder]) == 0
    assert "frequency alone" in capsys.readouterr().out
    assert main(["card", folder]) == 0
    assert "validation nats per pair" in capsys.readouterr().out
    for words in (
        ["generate", folder, "x"],
        ["translate", folder, "x"],
        ["look", folder, "--grid", "x"],
    ):
        assert main(words) == 2
        assert "word vectors" in capsys.readouterr().err
    for asked, wrong in ((["cat zebu"], "'zebu'"), (["--analogy", "cat dog zebu"], "'zebu'")):
        assert main(["look", folder, *asked]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert wrong in printed.err
    assert main(["look", folder]) == 2
    assert main(["look", folder, "--analogy", "cat dog"]) == 2
    assert "takes three words" in capsys.readouterr().err
