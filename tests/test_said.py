"""Words that know what they were made of."""

from __future__ import annotations

import copy
import json

import pytest

from budgerigar.inspection.views.payload import pack, unpack
from budgerigar.said import Said, heard, listed, said, told


def test_words_are_the_template_with_its_values() -> None:
    words = said("{n:,} tokens of {name!r}, {share:.1%}", n=12345, name="a", share=0.5)
    assert words == "12,345 tokens of 'a', 50.0%"
    assert words.template == "{n:,} tokens of {name!r}, {share:.1%}"
    assert words.values == {"n": "12,345", "name": "'a'", "share": "50.0%"}
    with pytest.raises(KeyError):
        said("{gone}")


def test_words_within_words_keep_their_own_template() -> None:
    inner = said("{n} stories", n=3)
    words = said("nothing in {texts}", texts=inner)
    assert words == "nothing in 3 stories"
    assert isinstance(words.values["texts"], Said)
    assert words.values["texts"].template == "{n} stories"
    assert listed([inner, "b", "c"]) == "3 stories, b, c"
    assert listed(["1, 2", inner], apart=True) == "1, 2; 3 stories"


def test_they_travel_as_json_and_in_payloads() -> None:
    words = said("nothing in {texts} <b>", texts=said("{n} stories", n=3))
    assert told("plain") == "plain"
    for got in (
        heard(json.loads(json.dumps(told(words)))),
        unpack(pack({"a": [words]}))["a"][0],
        copy.deepcopy(words),
    ):
        assert got == words
        assert (got.template, got.values["texts"].values) == (words.template, {"n": "3"})
