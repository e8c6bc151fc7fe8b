"""The page's views on models that others trained (fetched once; skipped where no network is)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import budgerigar as bg
from budgerigar.errors import UserError
from budgerigar.inspection.views import ask, can, look_at, unpack

pytestmark = pytest.mark.slow

TIRED = "The animal didn't cross the street because it was too tired."


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model of the catalogue, from the user's own cache."""
    monkeypatch.delenv("BUDGIE_CACHE")

    def loaded(name: str) -> Any:
        try:
            return bg.load(name)
        except UserError as error:
            pytest.skip(str(error))

    return loaded


@pytest.mark.parametrize("name", ["minilm-l6", "smollm2-135m-instruct"])
def test_every_head_is_recomputed_and_labelled(load: Any, name: str) -> None:
    looked = look_at(load(name), {"text": TIRED + " 🦜"})
    read = unpack(ask(looked, "read"))
    labels = read["spellings"]["read"]["labels"]
    assert "".join(read["spellings"]["read"]["pieces"]) == "".join(looked.trace.spelling.pieces)
    added = read["spellings"]["read"]["added"]
    assert [labels[at] for at in added] == (["[CLS]", "[SEP]"] if name == "minilm-l6" else [])
    (site,) = read["sites"]
    for layer in range(0, site["layers"], 5):
        for number in range(site["heads"]):
            at = {"layer": layer, "head": number}
            found = unpack(ask(looked, "head", at))
            assert found["difference"] < 1e-5
            assert found["kv_head"] == number // (site["heads"] // site["kv_heads"])
            np.testing.assert_allclose(found["row_sums"], 1, atol=1e-5)
        steps = unpack(ask(looked, "steps", {**at, "query": 4}))
        assert steps["label"] == labels[4]
        np.testing.assert_allclose(steps["weighted"].sum(0), steps["head_output"], atol=1e-4)
    links = unpack(ask(looked, "links", {"query": "it", "key": "animal", "untrained": False}))
    assert len(links["links"]) == site["layers"] * site["heads"]
    assert ("generate" in can(looked.model)) == (name != "minilm-l6")


def test_bytes_of_a_real_vocabulary_are_joined(load: Any) -> None:
    looked = look_at(load("smollm2-135m-instruct"), {"text": "轩辕 🦜"})
    groups = unpack(ask(looked, "read"))["spellings"]["read"]["groups"]
    assert "".join(group["text"] for group in groups).replace("␣", " ").strip() == "轩辕 🦜"
    assert any(group["length"] > 1 for group in groups)
