"""The demo: its drawings, its words, and (slow) the word game from start to end."""

from __future__ import annotations

import io
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from budgerigar.evaluation.cloze import fill_gaps, gap_ids, next_logits
from budgerigar.experiments import demo_screen as draw
from budgerigar.experiments.demo_text import minutes_needed, named_lines, verdict
from budgerigar.experiments.demo_words import word_of_token
from budgerigar.text.stories import cloze_set, generate_stories


def screen(width: int = 80) -> tuple[draw.Screen, io.StringIO]:
    out = io.StringIO()
    return draw.Screen(file=out, width=width), out


def test_off_a_terminal_there_are_no_escape_codes() -> None:
    on, out = screen()
    on.heading("A title 轩辕")
    on.say("word " * 40)
    on.show(draw.guess_bars([("budgerigar", 0.9), ("鹦鹉", 0.1)], "budgerigar"))
    on.show(draw.weighted_words(["a", "bird"], [0.9, 0.0]), draw.colour_scale())
    with on.frames() as live:
        assert live is None
    text = out.getvalue()
    assert "\x1b" not in text
    assert "budgerigar  90.0%" in text
    assert max(map(draw.cell_len, text.split("\n"))) <= 80


def test_bars_line_up_beside_wide_characters() -> None:
    text = draw.guess_bars([("ab", 0.5), ("鹦鹉", 0.25)], "ab").plain
    first, second = text.split("\n")
    assert draw.cell_len(first[: first.index("%")]) == draw.cell_len(second[: second.index("%")])
    assert first.count("█") == 15
    assert second.count("█") == 7


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (125, "2 min 05 s")]
)
def test_clock(seconds: float, words: str) -> None:
    assert draw.clock(seconds) == words


def test_level_and_bar() -> None:
    assert [draw.level(share) for share in (0.0, 0.5, 1.0, 7.0)] == ["·", "▄", "█", "█"]
    assert draw.bar(1.0, 4) == "████"
    assert draw.bar(0.5, 1) == "▌"
    assert draw.bar(-1.0, 4) == ""


def test_the_chart_puts_points_above_and_below_its_lines() -> None:
    lines = {"uniform": 4.0, "best n-gram": 2.0}
    text = draw.loss_chart([(0.0, 3.5), (50.0, 1.5)], lines, until=100.0, width=60, height=12)
    rows = text.plain.split("\n")
    at = {name: next(i for i, row in enumerate(rows) if name in row) for name in lines}
    dots = [i for i, row in enumerate(rows) if "●" in row]
    assert at["uniform"] < dots[0] < at["best n-gram"] < dots[1]
    assert "1 min 40 s" in text.plain
    assert max(map(len, rows)) <= 60
    assert draw.loss_chart([], {}, 1.0).plain == ""


def test_the_chart_draws_a_single_point() -> None:
    assert "●" in draw.loss_chart([(1.0, 2.0)], {}, 10.0).plain


def test_lines_have_short_names() -> None:
    found = named_lines(
        {
            "uniform": 4.2,
            "unigram (first 5 M tokens)": 3.3,
            "bigram (first 5 M tokens)": 2.5,
            "order-7 n-gram": 1.6,
            "order-7 n-gram, streaming": 1.5,
        }
    )
    assert found == {"uniform": 4.2, "bigram": 2.5, "best n-gram (order 7)": 1.6}


def test_minutes_needed_follows_the_logarithm_of_time() -> None:
    points = [(seconds, 3.0 - 0.2 * math.log(seconds)) for seconds in (10, 40, 60, 80, 100)]
    assert minutes_needed(points, 3.0 - 0.2 * math.log(600)) == pytest.approx(10.0)
    assert minutes_needed([(10, 2.0), (60, 2.0), (100, 2.1)], 1.0) is None
    assert minutes_needed([(10.0, 2.0)], 1.0) is None


def test_the_verdict_tells_what_was_passed() -> None:
    lines = {"uniform": 4.0, "bigram": 2.5, "best n-gram (order 7)": 1.5}
    points = [(seconds, 3.0 - 0.2 * math.log(seconds)) for seconds in (50.0, 75.0, 100.0)]
    words = verdict(2.08, lines, points)
    assert "below uniform, bigram" in words
    assert "not yet below best n-gram" in words
    assert f"about {math.exp(7.5) / 60:.0f} minutes" in words
    assert "counting can do is behind" in verdict(1.4, lines, points)


def test_words_own_their_tokens() -> None:
    words = ["a", "bird", "sat"]  # "a bird sat": edges 0, 2, 7, 11
    spans = [(0, 0), (0, 1), (1, 4), (4, 6), (6, 10)]
    assert word_of_token(words, spans).tolist() == [-1, 0, 1, 1, 2]


class Counting:
    """A tokenizer of numbers: word n of the list is token n; and a model that always says token 2."""

    words = ("<end>", "that", "cat", "dog")
    device = torch.device("cpu")

    def encode(self, text: str) -> list[int]:
        return [self.words.index(w) if w in self.words else 1 for w in text.split()]

    def start(self, n: int) -> int:
        return n

    def step(
        self, tokens: torch.Tensor, state: int, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        assert tokens.shape[0] == state
        assert bool((lengths <= tokens.shape[1]).all())
        return torch.tensor([[0.0, 0.0, 2.0, 1.0]]).repeat(state, 1), state


def test_fill_gaps_counts_the_right_ones() -> None:
    stories = [
        SimpleNamespace(language="en", cloze=SimpleNamespace(prefix="x that", answer=answer))
        for answer in ("cat", "dog", "cat", "cat")
    ]
    model = Counting()
    found = fill_gaps(model, model, stories, start_id=0, batch_size=3)  # type: ignore[arg-type]
    assert (found.right, found.n, found.accuracy) == (3, 4, 0.75)
    p = np.exp([0.0, 0.0, 2.0, 1.0])
    p /= p.sum()
    assert found.mean_probability == pytest.approx((3 * p[2] + p[3]) / 4)
    assert next_logits(model, [[1], [1, 2]]).shape == (2, 4)


def test_the_answer_follows_the_prefix() -> None:
    from budgerigar.text.tokenizers import train_tokenizer

    stories = generate_stories(50, 1)
    tokenizer = train_tokenizer([story.text for story in stories], kind="word")
    for story in cloze_set(5, seed=3):
        ids, answer = gap_ids(tokenizer, story, start_id=None)
        assert tokenizer.decode([*ids, answer]) == f"{story.cloze.prefix} {story.cloze.answer}"


@pytest.mark.slow
def test_the_word_game_and_the_translation_from_start_to_end(tmp_path: Path) -> None:
    from budgerigar.experiments.demo import demo

    on, out = screen(100)
    summary = demo(quick=True, folder=tmp_path, screen=on, threads=1)
    text = out.getvalue()
    results = {name: float(result.rstrip("%")) for name, result, _ in summary.rows}
    assert results["word game: GPT"] >= 95
    assert results["word game: n-gram"] <= 15
    assert results["translation: unseen sentences"] >= 98
    assert results["translation: alignment error rate"] <= 45
    assert results["translation: “budgerigar”"] >= 95
    assert "“Xuanyuan has a budgerigar”. That is right." in text
    assert "Nobody told it" in text
    assert "What to write it knows from the source" in text
    assert "\x1b" not in text
    assert all(path.stat().st_size > 5_000 for path in summary.pictures)
    assert "budgie train your.txt" in text
    again, out_again = screen(100)
    second = demo(quick=True, folder=tmp_path, screen=again, threads=1)
    assert "earlier demo" in out_again.getvalue()
    assert [row[:2] for row in second.rows] == [row[:2] for row in summary.rows]


def test_without_a_network_the_real_text_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from budgerigar.errors import UserError
    from budgerigar.experiments.demo import Summary, _closing
    from budgerigar.experiments.demo_text import real_text

    def unreachable(text: object) -> None:
        raise UserError("there is no network")

    monkeypatch.setattr("budgerigar.training.corpora.gather_corpus", unreachable)
    on, out = screen()
    summary = Summary()
    real_text(on, tmp_path / "run", {}, summary)
    assert "could not be fetched, so this part is left out" in out.getvalue()
    assert "there is no network" in out.getvalue()
    _closing(on, summary, tmp_path, quick=False)
    closing = out.getvalue().split("Five commands")[1]
    commands = [line.split() for line in closing.split("\n") if line.startswith("  budgie")]
    runs = [str(tmp_path / "demo-words"), str(tmp_path / "demo-translation")]
    assert commands[0] == ["budgie", "explore", *runs]
    assert commands[1] == ["budgie", "train", "your.txt"]
    assert len(commands) == 5
    assert "7007" not in closing  # nobody watches a log with a browser
    assert "demo-shakespeare" not in closing
