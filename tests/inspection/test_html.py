"""The offline page: its data are the library's, nothing in a sentence can break out of it."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from toy import STORY, matrix, network, words

from budgerigar.inspection import trace
from budgerigar.inspection.html import frame, page


def data_of(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


def test_numbers_are_the_librarys_within_what_the_page_says(tmp_path) -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY, start_id=0)
    data = data_of(seen.html(tmp_path / "it.html").read_text("utf-8"))
    assert [h["name"] for h in data["heads"]] == seen.names()
    assert data["queries"] == data["keys"] == seen.labels
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
    assert data_of(text)["queries"] == [evil, "b"]
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
