"""The probes, tiny: what they count and what they keep; not whether a model learns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from budgerigar import api
from budgerigar.errors import UserError
from budgerigar.experiments import probes_context, probes_parallel, probes_recall
from budgerigar.experiments.probes_recall import Sizes, recall, story_batches
from budgerigar.experiments.probes_recall_words import Line, in_words
from budgerigar.layers.attention import attention
from budgerigar.text.stories import cloze_set

SMALL = Sizes(steps=3, batch_tokens=256, longest=12, tests=6, d_hidden=16)


def test_stories_are_whole_and_within_their_length() -> None:
    tokenizer = probes_recall.story_tokenizer(1, 1)
    sizes = Sizes(steps=5, batch_tokens=256, longest=70)
    for batch in story_batches(tokenizer, sizes, 1, 1):
        rows = batch.targets.tolist()
        for row, inputs, prefix, answer in zip(
            rows, batch.tokens.tolist(), batch.prefixes, batch.answers, strict=True
        ):
            ids = [one for one in row if one >= 0]
            assert ids[-1] == inputs[0] == tokenizer.end_id
            assert ids[: len(prefix)] == prefix
            assert ids[len(prefix)] == answer
            assert row[len(ids) :] == [-100] * (len(row) - len(ids))
    again = list(story_batches(tokenizer, sizes, 1, 1))
    assert torch.equal(again[-1].tokens, batch.tokens)


def test_recall_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ngram", "lstm", "encoder-decoder")
    found = recall(models=names, sizes=SMALL, owners=1, out=tmp_path / "probe", threads=1)
    assert [row[0] for row in found.rows] == list(names)
    assert found.numbers["chance"] == pytest.approx(100 / 13)
    assert json.dumps(found.as_dict())
    assert (tmp_path / "probe" / "recall.html").read_text().count("<svg") == 1
    for name in names:
        assert name in str(found).split("% right by words")[0]  # whole, in the table
    monkeypatch.setattr(probes_recall, "_trained", None)
    again = recall(models=names, sizes=SMALL, owners=1, out=tmp_path / "probe")
    assert again.rows == found.rows
    with pytest.raises(UserError, match="other settings"):
        recall(models=names, sizes=SMALL, owners=2, out=tmp_path / "probe")
    with pytest.raises(UserError, match="no model 'bert'"):
        recall(models=("bert",), out=tmp_path / "other")


def test_half_right_of_two_is_said_to_be_a_guess() -> None:
    def says(*accuracy: float, owners: int = 2) -> tuple[str, ...]:
        line = Line("lstm", 9, 1.0, 2.0, accuracy, accuracy)
        return in_words([line], (0, 50, 2000), 100, owners)

    guesses = says(47, 45, 12)
    assert "it does not know whose; from 2,000 words on less than that" in guesses[0]
    assert "None learnt" in guesses[1]
    assert says(47, 45, 41)[0].endswith("it does not know whose.")
    assert "does not keep the pets even" in says(17, 8, 9)[0]
    assert "at times it knows whose" in says(66, 50, 50)[0]
    assert says(98, 97, 51) == (
        "lstm: 98% right with no filler; below halfway to chance from 2,000 words on, 51% at 2,000.",
    )
    assert "below halfway to chance from 50 words on" in says(98, 50, 8, owners=1)[0]


def test_an_encoder_decoder_is_scored_as_by_hand() -> None:
    """Every answer the likeliest: all are right; a network that always says one word: its share."""
    tokenizer = probes_recall.story_tokenizer(1, 1)
    stories = cloze_set(20, 1, 6)
    word = int(tokenizer.encode(f"a {stories[0].cloze.answer}")[-1])

    class Always(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, **_: torch.Tensor) -> torch.Tensor:
            logits = torch.zeros(len(tokens), 1, tokenizer.vocab_size)
            logits[:, :, word] = 50.0
            return logits

    share = sum(s.cloze.answer == stories[0].cloze.answer for s in stories) / len(stories)
    found = probes_recall._answers(Always(), tokenizer, stories, 7)
    assert found == pytest.approx((share, share), abs=1e-6)


@pytest.mark.slow
def test_attention_recalls_where_an_lstm_fades(tmp_path: Path) -> None:
    sizes = Sizes(steps=240, batch_tokens=2048, longest=50, tests=60)
    found = recall(models=("lstm", "transformer"), sizes=sizes, out=tmp_path / "x", threads=1)
    lstm, transformer = found.numbers["models"]
    assert min(transformer["accuracy"]) > 80
    assert transformer["accuracy"][-1] > lstm["accuracy"][-1] + 20


def test_parallel(tmp_path: Path) -> None:
    sizes = probes_parallel.Sizes(
        lengths=(4, 8), tokens=16, positions=(4, 300), width=16, vocab_size=32, repeats=1
    )
    found = probes_parallel.parallel(sizes=sizes, out=tmp_path / "x", threads=1)
    carried = {name: one["carried"] for name, one in found.numbers["models"].items()}
    width = 2 * 16
    assert carried["rnn"] == [4 * width] * 2  # one float32 vector, wherever it stands
    assert carried["lstm"] == [8 * width] * 2
    assert carried["transformer"][1] > carried["transformer"][0]
    assert len(found.charts) == 3
    assert "lstm" in str(found)


def test_the_api_names_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no probe 'speed'"):
        api.compare(probe="speed")
    with pytest.raises(UserError, match="parallel has no setting 'owners'"):
        api.compare(probe="parallel", owners=1, out=tmp_path / "p")


def test_a_window_with_sinks_is_attention_with_that_mask() -> None:
    draws = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 2, 23, 4, generator=draws, dtype=torch.float64) for _ in range(3))
    places = torch.arange(23)
    near = (places > places[:, None] - 5) | (places < 2)
    seen = (places <= places[:, None]) & near
    assert torch.allclose(probes_context.windowed(q, k, v, 5, 2), attention(q, k, v, seen))


@pytest.mark.parametrize("length", [3, 8, 40])
def test_scores_are_counted(length: int) -> None:
    sizes = probes_context.Sizes(n_heads=3, window=6, sinks=2)
    places = torch.arange(length)
    causal = places <= places[:, None]
    assert probes_context.score_entries("explicit", length, sizes) == 3 * length**2
    assert probes_context.score_entries("fused", length, sizes) == 3 * int(causal.sum())
    near = (places > places[:, None] - 6) | (places < 2)
    found = probes_context.score_entries("window with sinks", length, sizes)
    assert found == 3 * int((causal & near).sum())


def test_memory_is_the_tensors_that_live() -> None:
    def run() -> torch.Tensor:
        first = torch.zeros(1000, 1000)
        total = first.view(-1).sum()  # a view is nothing new
        del first
        return total + torch.zeros(500, 1000).sum()

    assert probes_context.peak_bytes(run) == pytest.approx(4_000_000, abs=100)


def test_context(tmp_path: Path) -> None:
    sizes = probes_context.Sizes(
        (64, 128), 2, 8, window=16, sinks=2, cache_lengths=(64, 512), n_layers=1, repeats=1
    )
    found = probes_context.context(sizes=sizes, out=tmp_path / "x", threads=1)
    explicit, fused = (found.numbers["attention"][way] for way in ("explicit", "fused"))
    assert explicit["scores"] == [2 * 64**2, 2 * 128**2]
    assert explicit["bytes"][1] / explicit["bytes"][0] > 3.5
    assert fused["bytes"][1] < explicit["bytes"][1]
    caches = found.numbers["caches"]
    assert caches["one key-value head"][1] < caches["all heads"][1]
    assert caches["window 16, 2 sinks"][1] == caches["window 16, 2 sinks"][0]
    assert "a million" in str(found)
    assert probes_context.context(sizes=sizes, out=tmp_path / "x", threads=1).rows == found.rows
