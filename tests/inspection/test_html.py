"""The offline page: its data are the library's, nothing in a sentence can break out of it."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from toy import (
    SOURCE,
    STORY,
    TARGET,
    chinese,
    english,
    matrix,
    network,
    recurrent,
    translator,
    words,
)

from budgerigar.inspection import trace
from budgerigar.inspection.html import frame, page
from budgerigar.inspection.pair_traces import trace_pair


def data_of(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


def test_numbers_are_the_librarys_within_what_the_page_says(tmp_path) -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY, start_id=0)
    data = data_of(seen.html(tmp_path / "it.html").read_text("utf-8"))
    assert [h["name"] for h in data["heads"]] == seen.names()
    assert data["axes"][0]["queries"] == data["axes"][0]["keys"] == seen.labels
    assert len(data["masks"]) == 1
    shape = (len(seen), len(seen))
    mask = np.frombuffer(base64.b64decode(data["masks"][0]), np.uint8).reshape(shape)
    for stored, head in zip(data["heads"], seen.heads(), strict=True):
        weights = np.frombuffer(base64.b64decode(stored["weights"]), "<u2").reshape(shape) / 65535
        assert np.abs(weights - head.weights).max() < 1e-5
        assert ((mask > 0) == (head.mask_reason != "")).all()
    assert data["reasons"][mask[0, 1]] == "masked: later tokens"


@pytest.mark.parametrize(
    "evil", ["</script><b>x</b>", "<!--", "__DATA__", '"><img src=x>', "\u2028"]
)
def test_a_sentence_stays_text(evil: str) -> None:
    drawn = matrix([evil, "b"])
    text = page([drawn], evil)
    assert data_of(text)["axes"][0]["queries"] == [evil, "b"]
    assert data_of(text)["about"] == evil
    assert text.count("<script") == 2
    assert "<b>x</b>" not in text
    assert "<img" not in text
    assert "srcdoc=" in frame([drawn], evil)
    assert frame([drawn], evil).count('"') == 6


def test_the_page_asks_nothing_of_anyone() -> None:
    text = page([matrix(["a", "b"])])
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|src=|@import|url\(", text)


def test_a_translator_shows_every_kind_of_attention_with_its_own_labels(tmp_path) -> None:
    seen = trace_pair(translator(), english(), SOURCE, TARGET, source_tokenizer=chinese())
    data = data_of(seen.html(tmp_path / "pair.html").read_text("utf-8"))
    assert [axes["title"] for axes in data["axes"]] == [
        "decoder, cross-attention", "encoder, self-attention", "decoder, self-attention",
    ]  # fmt: skip
    assert [head["axes"] for head in data["heads"]] == [0] * 8 + [1] * 8 + [2] * 8
    assert data["heads"][0]["short"] == "L0.H0"
    assert data["heads"][0]["name"] == "L0.H0 (decoder, cross-attention)"
    cross = data["axes"][0]
    assert (cross["queries"], cross["keys"]) == (seen.target_labels, seen.source_labels)
    assert cross["queryAxis"] == "query: the token being predicted"
    assert data["axes"][2]["queries"][0] == "<start>"
    shape = (len(cross["queries"]), len(cross["keys"]))
    first = np.frombuffer(base64.b64decode(data["heads"][3]["weights"]), "<u2").reshape(shape)
    expected = seen.attention("L0.H3", kind="cross").weights
    assert np.abs(first / 65535 - expected).max() < 1e-5
    one = data_of(seen.html(tmp_path / "one.html", of="encoder").read_text("utf-8"))
    assert len(one["axes"]) == 1
    only = trace_pair(recurrent(), english(), SOURCE, TARGET, source_tokenizer=chinese())
    assert len(data_of(only.html(tmp_path / "rnn.html").read_text("utf-8"))["heads"]) == 1
