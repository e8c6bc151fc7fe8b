"""The window rule, against the rule carried out token by token."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from budgerigar.errors import UserError
from budgerigar.generation.overflow import check_sinks, window_length
from budgerigar.layers.config import LayerPattern, TransformerConfig
from budgerigar.models.transformer import Transformer


@pytest.mark.parametrize("context", [1, 2, 3, 4, 7, 64])
def test_window_is_the_rule_carried_out_token_by_token(context: int) -> None:
    window: list[int] = []
    for n in range(1, 5 * context + 3):
        if len(window) == context:
            window = window[max(1, context // 2) :]  # drop the oldest half
        window.append(n)
        assert window_length(n, context) == len(window)


def test_without_a_limit_the_window_is_everything() -> None:
    assert window_length(10_000, None) == 10_000


def test_sinks_need_windows_relative_positions_and_a_cache() -> None:
    def network(**dials: object) -> Transformer:
        return Transformer(TransformerConfig(n_layers=2, d_model=8, n_heads=2, **dials))  # type: ignore[arg-type]

    check_sinks(network(positions="rotary", attention_window=8), cached=True)
    mixed = (LayerPattern(attention_window=4), LayerPattern())
    cases = [
        (network(positions="learned", attention_window=8), True, "relative"),
        (network(positions="rotary"), True, "attention_window"),
        (network(positions="rotary", layers=mixed), True, "attention_window"),
        (network(positions="rotary", attention_window=8), False, "cache"),
        (SimpleNamespace(), True, "no cache"),
    ]
    for model, cached, why in cases:
        with pytest.raises(UserError, match=why):
            check_sinks(model, cached)
