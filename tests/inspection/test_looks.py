"""Where heads look from one position and to it: the largest of a row or column, by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from viewed import STORY, encoder, look, view

from budgerigar.errors import UserError
from budgerigar.inspection.links import rank
from budgerigar.inspection.looks import glances
from budgerigar.inspection.views import look_at


def test_the_strongest_other_of_a_row_and_of_a_column() -> None:
    model = encoder()
    trace, at = model.trace(STORY), 5
    for direction in ("from", "to"):
        found = glances(trace, at, direction)  # type: ignore[arg-type]
        assert [one.weight for one in found] == sorted((one.weight for one in found), reverse=True)
        assert {one.name for one in found} == set(trace.names())
        for one in found:
            weights = trace.attention(one.name).weights
            line = weights[at] if direction == "from" else weights[:, at]
            others = [n for n in range(len(trace)) if n != at]
            assert one.other == max(others, key=lambda n: line[n])
            assert one.weight == pytest.approx(float(line[one.other]))
            assert one.uniform == pytest.approx(1 / len(trace))
            ends = (at, one.other) if direction == "from" else (one.other, at)
            link = next(
                each for each in rank(trace, *ends, untrained=False) if each.name == one.name
            )
            assert one.distance == pytest.approx(link.distance)
    with pytest.raises(UserError):
        glances(trace, len(trace))


def test_the_view_of_a_masked_token() -> None:
    model = encoder()
    looked = look_at(model, {"text": STORY, "mask": [4]})
    found = view(looked, "glance", position=4)
    labels = looked.trace.labels
    assert found["label"] == labels[4]
    first = found["heads"][0]
    weights = looked.trace.attention(first["name"]).weights[4].copy()
    weights[4] = -1
    assert first["other"] == int(np.argmax(weights))
    assert first["label"] == labels[first["other"]]
    fresh = looked.untrained.attention(first["name"]).weights[4, first["other"]]
    assert first["untrained"] == pytest.approx(float(fresh))
    assert view(looked, "glance", position=4, untrained=False)["heads"][0]["untrained"] is None
    with pytest.raises(UserError, match="encoder"):
        view(look("decoder"), "glance", position=1)
