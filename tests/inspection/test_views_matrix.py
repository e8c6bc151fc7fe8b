"""Large matrices on demand: the head's own part, in 8 bits and exactly."""

from __future__ import annotations

import numpy as np
import pytest
from viewed import decoder, look, view

from budgerigar.errors import UserError
from budgerigar.inspection.views import look_at


def test_they_are_the_matrices_of_the_steps() -> None:
    looked = look_at(decoder(n_kv_heads=2), {"text": "It had green feathers ."})
    steps = view(looked, "steps", layer=1, head=3, query=2)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        whole = steps[name]["weights"]
        found = view(looked, "matrix", layer=1, head=3, part=name)
        assert found["shape"] == list(whole.shape) == steps[name]["shape"]
        step = (whole.max() - whole.min()) / 255
        np.testing.assert_allclose(found["weights"], whole, atol=0.51 * step)
        row = view(looked, "matrix", layer=1, head=3, part=name, row=1)
        np.testing.assert_array_equal(row["weights"], whole[1])
        with pytest.raises(UserError, match="there is no row"):
            view(looked, "matrix", layer=1, head=3, part=name, row=len(whole))


def test_additive_attention_has_two() -> None:
    looked = look("rnn-encoder-decoder")
    steps = view(looked, "steps", layer=0, head=0, query=0)
    for name in ("W_Q", "W_K"):
        row = view(looked, "matrix", layer=0, head=0, part=name, row=0)
        np.testing.assert_array_equal(row["weights"], steps[name]["weights"][0])
    with pytest.raises(UserError, match="no W_O"):
        view(looked, "matrix", layer=0, head=0, part="W_O")
