"""Surprise against a direct computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import STORY, network, single_bytes, words

from budgerigar.errors import UserError
from budgerigar.evaluation import score_ids
from budgerigar.inspection import trace
from budgerigar.inspection.surprise import surprise, surprise_text
from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram import NgramModel


def test_nats_ranks_and_likeliest_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25], [0.1, 0.1, 0.8]]))
    tokens = surprise(logits, [0, 1, 2], ["a", "b", "c"], top=2)
    assert tokens[0].nats is None
    assert tokens[1].nats == pytest.approx(-np.log(0.2))
    assert (tokens[1].rank, tokens[2].rank) == (2, 3)  # of equals the lower id is first
    assert tokens[2].probability == pytest.approx(0.25)
    assert tokens[1].likeliest[0] == (0, pytest.approx(0.7))
    assert tokens[2].entropy == pytest.approx(-(0.5 * np.log(0.5) + 0.5 * np.log(0.25)))


def test_one_pass_gives_the_loss_of_each_token() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    seen = trace(model, tokenizer, STORY, start_id=0)
    tokens = seen.surprise(top=50)
    assert tokens[0].nats is None
    for position in (1, 5, 20):
        with torch.no_grad():
            alone = model(torch.tensor([seen.ids[:position]]))[0, -1].double().log_softmax(-1)
        assert tokens[position].nats == pytest.approx(-float(alone[seen.ids[position]]), abs=1e-4)
    assert sum(p for _, p in tokens[3].likeliest) == pytest.approx(1.0)


def test_impossible_tokens_are_infinitely_surprising() -> None:
    logits = torch.tensor([[0.0, float("-inf")], [0.0, 0.0]])
    token = surprise(logits, [0, 1], ["a", "b"])[1]
    assert token.nats == float("inf")
    assert token.entropy == pytest.approx(0.0)
    assert "inf" in surprise_text(surprise(logits, [0, 1], ["a", "b"]), depth="none")


def test_text_says_the_numbers_without_colours() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY, start_id=0)
    tokens = seen.surprise()
    text = surprise_text(tokens, depth="none", columns=70)
    assert f" had[{tokens[2].nats:.1f}]" in text
    total = sum(t.nats or 0 for t in tokens)
    assert f"{total:.2f} nats over {len(tokens) - 1} tokens" in text
    coloured = surprise_text(tokens, depth="truecolor", columns=70)
    assert "\x1b[38;2" in coloured


def test_parts_of_a_character_are_shown_together_and_added_up() -> None:
    tokenizer = single_bytes()
    seen = trace(network(tokenizer.vocab_size), tokenizer, "a 轩\né")
    assert seen.spelling.pieces == ["a", " ", "", "", "轩", "↵", "", "é"]
    tokens = seen.surprise()
    character = sum(t.nats or 0 for t in tokens[2:5])
    assert f"轩[{character:.1f}]" in surprise_text(tokens, depth="none", columns=80)


def test_running_text_keeps_the_blanks_of_the_text() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY, start_id=0)
    assert "".join(seen.spelling.pieces[1:]) == STORY
    assert seen.spelling.pieces[0] == "<end>"


def test_ranks_are_those_of_scoring_also_among_equals() -> None:
    """What an n-gram never saw is all equally likely."""
    tokenizer = words()
    ids = tokenizer.encode(STORY)
    ngram = NgramModel.fit(np.array(ids[:9]), NgramConfig(tokenizer.vocab_size, 2))
    for model in (ngram, network(tokenizer.vocab_size)):
        tokens = trace(model, tokenizer, ids).surprise()
        scored = score_ids(model, ids)
        assert [t.rank for t in tokens[1:]] == scored.ranks.tolist()
        assert [t.nats for t in tokens[1:]] == pytest.approx(scored.nats.tolist(), abs=1e-5)


def test_what_an_encoder_sees_cannot_surprise_it() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, assembly="encoder-only")
    with pytest.raises(UserError, match="encoder-only"):
        trace(model, tokenizer, STORY).surprise()
