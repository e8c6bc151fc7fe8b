"""Text out of tokens: whole characters, stop texts over token borders, stream equal to the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import PieceTokenizer, ScriptedModel, fixed_continuation, hashed_table

from budgerigar.errors import UserError
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.streaming import (
    TextStream,
    forbidden_ids,
    generate_texts,
    prompt_ids,
    stream_text,
)

BYTES = PieceTokenizer([bytes([b]) for b in range(256)])
GREEDY = SamplingOptions(max_new_tokens=200, temperature=0)


def scripted(text: bytes) -> ScriptedModel:
    """A model that says the bytes of `text`, then newlines, after a prompt of one byte."""
    return ScriptedModel(fixed_continuation([*text, 10], 256), 256)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=30), st.text(max_size=12))
def test_streaming_equals_decoding(damaged: bytes, text: str) -> None:
    data = text.encode() + damaged + text.encode()
    stream = TextStream(BYTES)  # type: ignore[arg-type]
    pieces = [stream.push(b) for b in data] + [stream.flush()]
    assert "".join(pieces) == data.decode("utf-8", errors="replace")


def test_characters_come_whole() -> None:
    text = "a虎😀é"
    stream = TextStream(BYTES)  # type: ignore[arg-type]
    pieces = [p for b in text.encode() if (p := stream.push(b))]
    assert pieces == list(text)
    assert stream.flush() == ""


def test_half_a_character_at_the_end_is_flushed_as_a_replacement() -> None:
    options = SamplingOptions(max_new_tokens=5, temperature=0)
    pieces = list(stream_text(scripted("ab虎鹦".encode()), BYTES, "x", options))  # type: ignore[arg-type]
    assert "".join(pieces) == "ab虎"
    options = SamplingOptions(max_new_tokens=6, temperature=0)
    pieces = list(stream_text(scripted("ab虎鹦".encode()), BYTES, "x", options))  # type: ignore[arg-type]
    assert "".join(pieces) == "ab虎�"


@pytest.mark.parametrize("seed", range(20))
def test_stream_joined_is_generate(seed: int) -> None:
    pieces = [b"a", b"b", "虎".encode()[:1], "虎".encode()[1:], b"\xff", b"ab", b"\n"]
    tokenizer = PieceTokenizer(pieces, end=True)
    network = ScriptedModel(hashed_table(8, seed, 1.0), 8, context_length=6)
    options = SamplingOptions(max_new_tokens=30, temperature=1, seed=seed, stop=["bab", "\n\n"])
    streamed = list(stream_text(network, tokenizer, "ab", options))  # type: ignore[arg-type]
    assert all(streamed)
    (whole,) = generate_texts(network, tokenizer, ["ab"], options)  # type: ignore[arg-type]
    assert "".join(streamed) == whole.text
    decoded = tokenizer.decode(whole.tokens)
    if whole.finish == "stop":
        assert decoded.startswith(whole.text)
        assert decoded[len(whole.text) :].startswith(("bab", "\n\n"))
    else:
        assert whole.text == decoded
        assert "bab" not in decoded


def test_a_stop_text_across_tokens_is_cut_and_ends_the_run() -> None:
    options = SamplingOptions(max_new_tokens=50, temperature=0, stop=("STOP",))
    network = scripted(b"go on STAR STOP never shown")
    assert "".join(stream_text(network, BYTES, "x", options)) == "go on STAR "  # type: ignore[arg-type]
    (result,) = generate_texts(network, BYTES, ["x"], options)  # type: ignore[arg-type]
    assert (result.text, result.finish) == ("go on STAR ", "stop")
    assert network.read == 2 * len("x" + "go on STAR STO")  # the P that completes it is not read


def test_a_held_tail_is_given_out_when_the_length_is_reached() -> None:
    options = SamplingOptions(max_new_tokens=5, temperature=0, stop="STOP")
    assert "".join(stream_text(scripted(b"abSTOP"), BYTES, "x", options)) == "abSTO"  # type: ignore[arg-type]


def test_the_end_token_ends_and_is_no_text() -> None:
    tokenizer = PieceTokenizer([b"a", b"b"], end=True)
    network = ScriptedModel(fixed_continuation([0, 1, 2, 0], 3, prompt_length=2), 3)
    (result,) = generate_texts(network, tokenizer, ["a"], GREEDY)  # type: ignore[arg-type]
    assert (result.text, result.tokens, result.finish) == ("ab", [0, 1], "end")


def test_prompts_open_a_document_where_there_are_documents() -> None:
    with_end = PieceTokenizer([b"a", b"\n"], end=True)
    without = PieceTokenizer([b"a", b"\n"])
    assert prompt_ids(with_end, "a") == [2, 0]  # type: ignore[arg-type]
    assert prompt_ids(with_end, "") == [2]  # type: ignore[arg-type]
    assert prompt_ids(with_end, "a", starts_documents=False) == [0]  # type: ignore[arg-type]
    assert prompt_ids(without, "a") == [0]  # type: ignore[arg-type]
    assert prompt_ids(without, "") == [1]  # type: ignore[arg-type]


def test_an_empty_prompt_without_a_newline_starts_from_a_seen_piece() -> None:
    tokenizer = PieceTokenizer([b"a", b"b"])
    tokenizer.never_seen[0] = True
    assert prompt_ids(tokenizer, "") == [1]  # type: ignore[arg-type]
    tokenizer.never_seen[:] = True
    with pytest.raises(UserError, match="nothing to start from"):
        prompt_ids(tokenizer, "")  # type: ignore[arg-type]


def test_never_seen_and_special_pieces_are_not_generated_but_the_end_is() -> None:
    tokenizer = PieceTokenizer([b"a", b"b", b"<mask>"], end=True)
    tokenizer.special_ids["<mask>"] = 2
    tokenizer.never_seen[1] = True
    assert forbidden_ids(tokenizer).tolist() == [False, True, True, False]  # type: ignore[arg-type]
    assert tokenizer.never_seen.tolist() == [False, True, False, False]


def test_several_samples_of_several_prompts() -> None:
    tokenizer = PieceTokenizer([b"a", b"b", b"c"])
    network = ScriptedModel(hashed_table(3, sharpness=0.5), 3)
    options = SamplingOptions(max_new_tokens=12, temperature=1, seed=2)
    results = generate_texts(network, tokenizer, ["a", "ab"], options, samples=3)  # type: ignore[arg-type]
    assert [(r.prompt, r.sample) for r in results] == [
        (p, n) for p in ("a", "ab") for n in (0, 1, 2)
    ]
    assert len({r.text for r in results}) == 6
    again = "".join(stream_text(network, tokenizer, "ab", options, sample=2))  # type: ignore[arg-type]
    assert again == results[5].text


def test_steps_are_kept_on_request() -> None:
    tokenizer = PieceTokenizer([b"a", b"b"], end=True)
    network = ScriptedModel(hashed_table(3), 3, context_length=4)
    options = SamplingOptions(max_new_tokens=9, seed=1)
    (result,) = generate_texts(network, tokenizer, ["a"], options, explain=2, show_end=True)  # type: ignore[arg-type]
    assert [s.token for s in result.steps][: len(result.tokens)] == result.tokens
    assert all(s.p_end is not None and len(s.candidates) == 2 for s in result.steps)
    (plain,) = generate_texts(network, tokenizer, ["a"], options)  # type: ignore[arg-type]
    assert plain.steps == []
    assert plain.text == result.text
    assert np.isfinite([s.p_end for s in result.steps]).all()
