from __future__ import annotations

import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.inspection.toy import STORY, Pieces, network, single_bytes, words
from textbook_ngram import TextbookNgram

from budgerigar.errors import UserError
from budgerigar.inspection.back_off import BackOff, back_off
from budgerigar.inspection.back_off_text import strip_text
from budgerigar.inspection.labels import width
from budgerigar.inspection.traces import trace
from budgerigar.models.configs import NgramConfig, Smoothing
from budgerigar.models.ngram import NgramModel

LEARNT = "the cat sat on the mat . the cat ate the rat . " * 3
SMOOTHINGS: tuple[Smoothing, ...] = ("kneser-ney", "witten-bell")


def looked(
    text: str,
    learnt: str = LEARNT,
    *,
    reader: Pieces | None = None,
    order: int = 4,
    smoothing: Smoothing = "kneser-ney",
    start_id: int | None = None,
) -> BackOff:
    reader = reader or single_bytes()
    ids = reader.encode(learnt)
    ids = ids if start_id is None else [start_id, *ids, start_id]
    config = NgramConfig(reader.vocab_size, order, smoothing)
    model = NgramModel.fit(np.array(ids), config, end_id=start_id)
    return back_off(trace(model, reader, text, start_id=start_id, name="toy"), reader)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 5])
def test_the_parts_are_those_of_the_textbook(smoothing: Smoothing, order: int) -> None:
    text = "the cats sat on a mat"
    found = looked(text, order=order, smoothing=smoothing)
    reader = single_bytes()
    ids = reader.encode(text)
    book = TextbookNgram(reader.encode(LEARNT), reader.vocab_size, order, smoothing)
    assert found.tokens[0] is None
    assert len(found.predicted) == len(ids) - 1
    assert found.difference < 1e-5
    for token in found.predicted:
        past = ids[max(0, token.position - order + 1) : token.position]
        own = ids[token.position]
        assert token.probability == pytest.approx(book.probability(own, past), rel=1e-9)
        assert token.parts.sum() == pytest.approx(token.probability, rel=1e-9)
        assert token.shares.sum() == pytest.approx(1)
        assert token.nats == pytest.approx(-math.log(token.probability))
        tails = {k: tuple(past[len(past) - k + 1 :]) for k in range(1, len(past) + 2)}
        seen = [k for k, tail in tails.items() if book.tables[k][(tail, own)]]
        assert token.matched == max(seen, default=0)
        assert all(token.parts[k] == 0 for k in range(token.matched + 1, order + 1))


def test_what_is_known_of_a_context_and_what_of_its_token() -> None:
    found = looked("the cat sat on the hat", order=4)
    by_place = {token.position: token for token in found.predicted}
    hat = found.trace.text.index("hat")
    assert by_place[hat].context == ("h", "e", "␣")
    assert (by_place[hat].context_matched, by_place[hat].matched) == (3, 1)  # "h" only elsewhere
    assert by_place[5].matched == 4  # "a" of cat, after "e", " ", "c"


def test_only_an_ngram_backs_off() -> None:
    reader = words()
    with pytest.raises(UserError, match=r"no n-gram.*--recipe ngram"):
        back_off(trace(network(reader.vocab_size), reader, STORY), reader)


def test_documents_begin_with_nothing_before_them() -> None:
    reader = words()
    found = looked(STORY, STORY, reader=reader, start_id=reader.end_id)
    assert found.trace.labels[0] == "<end>"
    assert found.tokens[0] is None
    assert found.predicted[0].context == ("<end>",)
    with pytest.raises(UserError, match="nothing predicts '<end>'"):
        found.at(0)


def test_the_table_of_one_token() -> None:
    found = looked("the cat sat", order=3)
    text = found.step_text(8)
    assert text.startswith("“s” at position 8, after “t␣”: probability ")
    assert "longest context known: “t␣” (2 of 2 tokens), and “s” is one of" in text
    rows = [line.split() for line in text.split("\n")]
    longest = next(row for row in rows if row[:2] == ["3", "t␣"])
    # "t " is followed by s, o, ".", a: after sat, mat and rat; cat twice in each of three rounds
    assert longest[2:5] == ["15", "4", "3"]
    adds = [float(row[-3]) for row in rows if row[-1:] == ["%"]]
    assert sum(adds) == pytest.approx(found.at(8)[0].probability, abs=3e-4)
    assert "likeliest here: " in text
    assert "different tokens stood before" in text
    assert "kinds / (times + kinds)" in looked("the cat", smoothing="witten-bell").step_text(3)


def test_a_word_is_shown_token_by_token() -> None:
    found = looked("the cat sat", order=3)
    assert [token.label for token in found.at("cat")] == ["c", "a", "t"]
    text = found.step_text("cat")
    assert text.count(" at position ") == 3
    assert text.count("times: the context was seen") == 1
    with pytest.raises(UserError, match="no word 'dog'"):
        found.step_text("dog")


def test_words_that_were_never_seen_are_said() -> None:
    found = looked("the cat Zat", order=3)
    assert "“Z” was never seen at all" in found.step_text(8)
    assert "the training text never goes on" in found.step_text(9)
    assert "never" in found.step_text(9).split("\n")[4]


@pytest.mark.parametrize("depth", ["none", "256", "truecolor"])
@pytest.mark.parametrize("columns", [20, 60, 200])
def test_the_strip_fits_its_width(depth: str, columns: int) -> None:
    text = strip_text(looked("the cat\tsat on 轩辕 .\n"), columns=columns, depth=depth)  # type: ignore[arg-type]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert (plain == text) == (depth == "none")
    blocks = [line for line in plain.split("\n") if line[:5] in ("token", "seen ", "nats ")]
    assert blocks
    assert len(blocks) % 3 == 0
    assert all(width(line) <= columns for line in blocks)
    assert "轩 1/3" in plain
    assert "⇥" in plain
    assert "never seen" in plain


def test_a_long_text_is_cut_in_the_terminal_only() -> None:
    found = looked("the cat sat on the mat . " * 40)
    assert "… and 400 more tokens" in strip_text(found, columns=80, depth="none")


def test_a_single_token() -> None:
    found = looked("t")
    assert "nothing is predicted" in repr(found)
    assert found.difference == 0


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
@pytest.mark.parametrize("text", ["the cat sat on 轩辕 .\n" * 4, "t", "th"])
def test_pictures(name: str, text: str, tmp_path: Path) -> None:
    found = looked(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = found.heatmap(tmp_path / name)
    assert path.stat().st_size > 3000
    if name.endswith("svg"):
        drawn = path.read_text(encoding="utf-8")
        assert "nats" in drawn
        assert ("轩 1/3" in drawn) == ("轩" in text)


def test_pictures_of_words_and_of_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    from budgerigar.inspection import back_off_plots
    from budgerigar.inspection.back_off_plots import back_off_figure

    monkeypatch.setattr(back_off_plots, "MOST_LINES", 2)

    figure = back_off_figure(looked(STORY, STORY, reader=words()))
    assert any("rabbit" in tick.get_text() or "budgerigar" in tick.get_text()
               for axes in figure.axes for tick in axes.get_xticklabels())  # fmt: skip
    long = back_off_figure(looked("the cat sat on the mat . " * 6))
    assert any("66 more tokens are not drawn" in text.get_text() for text in long.texts)
