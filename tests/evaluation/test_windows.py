from __future__ import annotations

import numpy as np
import pytest
from little_models import make_store, store_of

from budgerigar.evaluation.windows import segments, streaming_windows


@pytest.mark.parametrize("n", [2, 5, 6, 7, 8, 31])
@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_overlapping_windows_score_each_target_once(n: int, length: int) -> None:
    store = store_of(np.arange(100, 100 + n), vocab_size=200)
    scored = []
    for batch in streaming_windows(store, length, batch_size=3):
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            assert len(tokens) <= length
            for place, target in enumerate(targets):
                if target != -100:
                    assert tokens[place] == target - 1
                    assert place >= min(length - max(1, length // 2), target - 101)
                    scored.append(target)
    assert scored == list(range(101, 100 + n))


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("length", [None, 1, 4, 7])
def test_segments_cover_every_input_once(
    overlapping: bool, documents: bool, length: int | None
) -> None:
    store = make_store(50, documents)
    scored: list[int] = []
    for begin, first, stop in segments(store, length, overlapping):
        assert begin <= first < stop
        assert length is None or stop - begin <= length
        if documents:
            assert not (store.tokens[begin + 1 : stop] == 0).any()
        scored += range(first, stop)
    assert scored == list(range(49))
