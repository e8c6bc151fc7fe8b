"""The translation of the demo: what it computes, in its own words, right or wrong."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from budgerigar import models
from budgerigar.experiments import demo_translation as part
from budgerigar.experiments.demo import Summary
from budgerigar.experiments.demo_screen import Screen, alignment_grid, cell_len
from budgerigar.experiments.translating import Step, translate_greedily, word_probabilities
from budgerigar.layers.config import TransformerConfig
from budgerigar.text.pair_corpus import PairCorpus, prepare_pair_lists
from budgerigar.text.pairs import lesson_pair, sentence_pairs


@pytest.fixture(scope="module")
def corpus() -> PairCorpus:
    """A few generated pairs: characters of the source, words of the target."""
    train, held_out = (
        [(pair.source, pair.target) for pair in sentence_pairs(n, seed=0, split=split)]
        for n, split in ((800, "train"), (20, "validation"))
    )
    kinds = {"vocabulary": "separate", "tokenizer": "word", "source_tokenizer": "character"}
    return prepare_pair_lists(train, held_out, **kinds)


def network(corpus: PairCorpus, seed: int = 0) -> Any:
    config = TransformerConfig(
        assembly="encoder-decoder",
        vocab_size=corpus.tokenizer.vocab_size,
        source_vocab_size=corpus.source_tokenizer.vocab_size,
        shared_embeddings=False,
        d_model=16,
        n_layers=2,
        n_heads=2,
        context_length=64,
        init_std=0.3,
        decoder_start=corpus.tokenizer.end_id,
        dropout_residual=0.5,
    )
    return models.build(config, seed=seed)


def act(corpus: PairCorpus, trained: Any) -> tuple[part.Act, io.StringIO]:
    out = io.StringIO()
    found = part.Act(Screen(file=out, width=100), lesson_pair(), corpus, Summary())
    found.tests, found.network = found.tests[:12], trained
    return found, out


def test_greedy_steps_are_those_of_a_whole_pass(corpus: PairCorpus) -> None:
    """Each token is the likeliest after those before it; dropout is off and comes back."""
    model = network(corpus)
    source = [*corpus.source_tokenizer.encode("小梅有一只猫"), corpus.source_tokenizer.end_id]
    steps = translate_greedily(model, source, corpus.tokenizer.end_id, most=7)
    assert model.training
    assert len(steps) == 7 or steps[-1].token == corpus.tokenizer.end_id
    read = [model.config.decoder_start, *(step.token for step in steps[:-1])]
    with torch.inference_mode():
        chances = model.eval()(torch.tensor([read]), source=torch.tensor([source]))[0].softmax(-1)
    for step, row in zip(steps, chances, strict=True):
        best = row.topk(2)
        assert (step.token, step.second) == tuple(best.indices.tolist())
        found = torch.tensor([step.probability, step.second_probability])
        torch.testing.assert_close(found, best.values, rtol=1e-4, atol=1e-6)


def test_probabilities_of_words_are_products_over_their_tokens(corpus: PairCorpus) -> None:
    model, tokenizer = network(corpus).eval(), corpus.tokenizer
    source = [*corpus.source_tokenizer.encode("小梅"), corpus.source_tokenizer.end_id]
    found = word_probabilities(model, tokenizer, source, "Mei has a", ["cat", "zebra"])
    for word, probability in found.items():
        ids = tokenizer.encode(f"Mei has a {word}")
        tokens = torch.tensor([[model.config.decoder_start, *ids[:-1]]])
        with torch.inference_mode():
            chances = model(tokens, source=torch.tensor([source]))[0].double().softmax(-1)
        want = 1.0
        for at in range(3, len(ids)):
            want *= float(chances[at, ids[at]])
        assert probability == pytest.approx(want, rel=1e-4)
    assert len(tokenizer.encode(" zebra")) > 1  # letter by letter: it was never read


def test_an_untrained_network_is_told_about_as_plainly(corpus: PairCorpus, tmp_path: Path) -> None:
    """Nothing in the text or the pictures takes success for granted."""
    found, out = act(corpus, network(corpus, seed=3))
    found.measure_heads()
    found.translate()
    found.align(tmp_path)
    found.blank_the_source()
    text = " ".join(out.getvalue().split())
    assert "Right would be “Xuanyuan has a budgerigar”" in text or "not come to an end" in text
    assert "does not keep its alignment in one head" in text
    assert "is not sure either" in text or "it has a favourite" in text
    assert "\x1b" not in text
    assert max(map(cell_len, out.getvalue().split("\n"))) <= 104
    assert all(path.stat().st_size > 5_000 for path in found.summary.pictures)
    assert len(found.summary.pictures) == 3
    assert [row[0].split(":")[0] for row in found.summary.rows] == ["translation"] * 2


def test_a_frame_is_drawn_at_any_moment(corpus: PairCorpus) -> None:
    """On a log a line; on a terminal words over words, also while nothing is written yet."""
    model = network(corpus, seed=1)
    found, out = act(corpus, model)
    shown: list[Any] = []
    live = SimpleNamespace(update=lambda frame, refresh: shown.append(frame))
    event = SimpleNamespace(step=2, total_steps=2, loss=3.0, network=model)
    part.Watch(found, None).on_step(event)
    assert f"of {part.N_QUICK_TESTS} unseen right" in out.getvalue()
    part.Watch(found, live).on_step(event)
    found.screen.show(shown[0])
    assert "虎皮鹦鹉" in out.getvalue()
    nothing = SimpleNamespace(**{**vars(event), "network": ends_at_once(model, found.end_id)})
    part.Watch(found, live).on_step(nothing)
    assert len(shown) == 2


def ends_at_once(model: Any, end_id: int) -> Any:
    """The model with an output layer that says `<end>` whatever it reads."""
    with torch.no_grad():
        model.embedding.tokens.weight.zero_()
        model.embedding.tokens.weight[end_id] = 1.0
        model.decoder.final_norm.bias.fill_(1.0)
        model.decoder.final_norm.weight.zero_()
    return model


def test_the_grid_lines_up_under_wide_words() -> None:
    text = alignment_grid([[0.98, 0.001], [0.02, 0.98]], ["Mei", "cat"], ["小梅", "虎皮鹦鹉"]).plain
    head, *rows = text.split("\n")
    assert len({cell_len(row) for row in (head, *rows)}) == 1
    assert "0.98" in rows[0]
    assert "·" in rows[0]
    ends = [cell_len(row[: row.index("0.98") + 4]) for row in rows]
    assert ends[0] <= cell_len(head[: head.index("虎")]) < ends[1]


def test_what_is_left_belongs_to_all_other_words() -> None:
    chances = {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.05, "e": 0.01}
    found = part.likeliest(chances)
    assert [name for name, _ in found] == ["b", "c", "a", "d", "(other words)"]
    assert found[-1][1] == pytest.approx(0.35)


def test_how_a_translation_ended() -> None:
    steps = [Step(5, 0.9, 6, 0.1), Step(0, 0.9, 6, 0.1)]
    assert part.ending(steps, "a cat", "a cat", end_id=0).endswith("That is right.")
    assert "Right would be “a dog”" in part.ending(steps, "a cat", "a dog", end_id=0)
    assert "not come to an end" in part.ending(steps[:1], "a", "a cat", end_id=0)


def test_whether_it_wavers_is_said_as_measured() -> None:
    wavering = {"cat": 0.2, "dog": 0.2, "budgerigar": 0.15, "duck": 0.05}
    sure = {"cat": 0.0, "dog": 0.0, "budgerigar": 0.99, "duck": 0.0}
    said = part.verdict_on_blindness(wavering, sure, "budgerigar")
    assert "cat (20%), dog (20%) and budgerigar (15%)" in said
    assert "99.0%" in said
    assert "knows from the source" in said
    assert "has a favourite" in part.verdict_on_blindness(sure, sure, "budgerigar")
    assert "not sure either" in part.verdict_on_blindness(wavering, wavering, "budgerigar")


def test_whether_a_head_aligns_is_said_as_measured() -> None:
    def rate(value: float) -> Any:
        return SimpleNamespace(error_rate=value, sentences=200)

    good = part.verdict_on_alignment("L1.H2", rate(0.05), rate(0.8), rate(0.6))
    assert "5.0%" in good
    assert "80.0%" in good
    assert "60.0%" in good
    assert "Nobody told it" in good
    fair = part.verdict_on_alignment("L1.H2", rate(0.4), rate(0.8), rate(0.6))
    assert "it errs" in fair
    poor = part.verdict_on_alignment("L1.H2", rate(0.55), rate(0.8), rate(0.6))
    assert "Nobody told it" not in poor
