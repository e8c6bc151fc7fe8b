"""Attention against the reference and plain loops in float64; against torch.nn: test_torch_nn."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from budgerigar.layers.attention import Attention, attention, attention_steps
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.taps import Taps
from budgerigar.layers.visibility import View


def causal_view(length: int) -> View:
    positions = torch.arange(length)[None]
    return View(positions, positions, causal=True, aligned=True)


def test_reference_equals_loops_in_float64() -> None:
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(n, 3, dtype=torch.float64) for n in (2, 4, 4))
    visible = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]]).bool()
    out = attention(queries, keys, values, visible)
    for i in range(2):
        seen = [j for j in range(4) if visible[i, j]]
        scores = [math.exp(float(queries[i] @ keys[j]) / math.sqrt(3)) for j in seen]
        want = sum(s * values[j] for s, j in zip(scores, seen, strict=True)) / sum(scores)
        torch.testing.assert_close(out[i], want)


DIALS = {
    "plain": {},
    "grouped": {"n_kv_heads": 2},
    "one key-value head": {"n_kv_heads": 1},
    "window": {"attention_window": 3},
    "window and sink": {"attention_window": 2, "sink_tokens": 1},
    "sink logit": {"sink_logit": True},
    "alibi": {"positions": "alibi"},
    "scale": {"attention_scale": 0.7},
    "wide heads": {"d_head": 10},
}


@pytest.mark.parametrize("dials", DIALS.values(), ids=DIALS.keys())
def test_fused_path_equals_steps(dials: dict) -> None:
    torch.manual_seed(2)
    config = TransformerConfig(d_model=16, n_heads=4, **{"positions": "none", **dials})
    module = Attention(config.validate(), 0, "a").eval()
    if module.sink_logit is not None:
        nn.init.normal_(module.sink_logit)
    x, view, taps = torch.randn(2, 6, 16), causal_view(6), Taps("a.*")
    with torch.no_grad():
        assert not module.explicit()
        fused = module(x, view)
        recorded = module(x, view, taps=taps)
        parts = [taps.values[f"a.{name}"] for name in ("query", "key", "value")]
        steps = module.steps_from_taps(*parts, view)
    assert torch.equal(fused, recorded)
    torch.testing.assert_close(
        steps.head_output, taps.values["a.head_output"], rtol=1e-5, atol=1e-6
    )
    total = steps.weights.sum(-1)
    if config.sink_logit:
        assert (total < 1).all()
    else:
        torch.testing.assert_close(total, torch.ones_like(total))
    assert (
        steps.weights[
            ~view.visible(module.window, module.sink_tokens)[:, None].expand_as(steps.weights)
        ]
        == 0
    ).all()


def test_window_and_sinks_by_hand() -> None:
    view = causal_view(6)
    seen = view.visible(window=2, sink_tokens=1)[0]
    assert seen[5].tolist() == [True, False, False, False, True, True]
    assert seen[1].tolist() == [True, True, False, False, False, False]


def test_documents_hide_each_other() -> None:
    positions = torch.tensor([[0, 1, 0, 1]])
    documents = torch.tensor([[0, 0, 1, 1]])
    view = View(positions, positions, True, query_documents=documents, key_documents=documents)
    want = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert view.visible()[0].int().tolist() == want


@pytest.mark.parametrize("softcap", [None, 5.0])
def test_rows_that_see_nothing_give_zeros_and_finite_gradients(softcap: float | None) -> None:
    torch.manual_seed(3)
    config = TransformerConfig(d_model=8, n_heads=2, positions="none", attention_softcap=softcap)
    module = Attention(config, 0, "a", cross=True)
    x, source = torch.randn(2, 3, 8, requires_grad=True), torch.randn(2, 4, 8)
    valid = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    view = View(torch.arange(3)[None], torch.arange(4)[None], False, key_valid=valid)
    taps = Taps("a.head_output")
    out = module(x, view, memory=module.memory(source), taps=taps)
    assert torch.isfinite(out).all()
    assert (taps.values["a.head_output"][1] == 0).all()
    assert (taps.values["a.head_output"][0] != 0).any()
    out.sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_softcap_and_sink_by_hand() -> None:
    query, key = torch.tensor([[[[2.0]]]]), torch.tensor([[[[1.0], [3.0]]]])
    value = torch.tensor([[[[1.0], [10.0]]]])
    steps = attention_steps(
        query, key, value, scale=0.5, softcap=2.0, sink_logit=torch.tensor([0.25])
    )
    capped = [2 * math.tanh(1 / 2), 2 * math.tanh(3 / 2)]
    total = sum(math.exp(c) for c in capped) + math.exp(0.25)
    weights = [math.exp(c) / total for c in capped]
    torch.testing.assert_close(steps.weights.flatten(), torch.tensor(weights))
    torch.testing.assert_close(steps.head_output.item(), weights[0] + 10 * weights[1])


def test_replacing_weights_takes_the_explicit_path_and_says_so() -> None:
    torch.manual_seed(4)
    module = Attention(TransformerConfig(d_model=8, n_heads=2, positions="none"), 0, "a").eval()
    x, view = torch.randn(1, 5, 8), causal_view(5)
    same = Taps(replace={"a.weights": lambda w: w})
    none = Taps(replace={"a.weights": torch.zeros_like})
    with torch.no_grad():
        torch.testing.assert_close(module(x, view, taps=same), module(x, view))
        torch.testing.assert_close(module(x, view, taps=none)[0, 0], module.output.bias)
    assert same.used == {"a.weights"}


def test_autocast_on_a_cpu_keeps_attention_in_float32() -> None:
    """Products of matrices are bfloat16, scores and weights are not; the answer is close."""
    torch.manual_seed(5)
    module = Attention(TransformerConfig(d_model=16, n_heads=2, positions="none"), 0, "a")
    x, view, taps = torch.randn(2, 5, 16), causal_view(5), Taps("a.*")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = module(x, view, taps=taps)
    assert near.dtype == torch.bfloat16
    assert {taps.values[f"a.{n}"].dtype for n in ("query", "key", "value")} == {torch.float32}
    assert taps.values["a.head_output"].dtype == torch.float32
    torch.testing.assert_close(near.float(), module(x, view), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("norm", ["none", "head", "full"])
def test_autocast_on_a_cpu_keeps_cross_attention_in_float32(norm: str) -> None:
    torch.manual_seed(6)
    config = TransformerConfig(d_model=16, n_heads=2, positions="none", qk_norm=norm)
    module, taps = Attention(config, 0, "a", cross=True), Taps("a.*")
    x, source = torch.randn(1, 3, 16), torch.randn(1, 4, 16)
    view = View(torch.arange(3)[None], torch.arange(4)[None], False, sees_all=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        module(x, view, memory=module.memory(source), taps=taps)
    assert {taps.values[f"a.{n}"].dtype for n in ("query", "key", "value")} == {torch.float32}


def test_a_bias_of_distances_and_a_softcap_in_bfloat16() -> None:
    """The bias is made in float32; the steps stay in the precision of queries, keys and values."""
    config = TransformerConfig(d_model=16, n_heads=4, positions="alibi", attention_softcap=2.0)
    layer = Attention(config, 0, "a").eval()
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = layer(x, causal_view(5))
        found = layer.to(torch.bfloat16)(x.bfloat16(), causal_view(5))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, atol=0.02, rtol=0.02)
