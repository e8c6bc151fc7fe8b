"""Recomputed = model: every step of attention again from the tensors that the model used, over pairs
of dials, cross-attention and padding; and looking changes no logit, to the last bit.

Single dials are in test_traces.py and test_pair_traces.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dials import pairwise_sample
from streams import filled
from toy import SOURCE, STORY, TARGET, chinese, english, network, translator, words

from budgerigar.inspection import trace
from budgerigar.inspection.heads import mask_of
from budgerigar.inspection.pair_traces import trace_pair
from budgerigar.inspection.traces import Trace
from budgerigar.layers.attention import Attention
from budgerigar.layers.taps import Taps
from budgerigar.layers.visibility import View
from budgerigar.models.transformer import Transformer

PAIRS = pairwise_sample()
CROSS: dict[str, dict[str, Any]] = {
    "grouped, soft-cap": {"n_kv_heads": 2, "attention_softcap": 3.0, "norm_place": "pre"},
    "one key head, sink": {"n_kv_heads": 1, "sink_logit": True, "positions": "relative"},
    "sink, soft-cap": {"sink_logit": True, "attention_softcap": 1.5, "positions": "rotary"},
    "window and sinks": {"attention_window": 3, "sink_tokens": 1, "positions": "learned"},
    "unscaled, normed": {"attention_scale": "none", "qk_norm": "full", "positions": "none"},
    "alibi, output norms": {"positions": "alibi", "norm_place": "output", "norm": "rms"},
    "own biases, no residual": {
        "positions": "relative",
        "relative_shared": False,
        "residual": False,
        "norm_place": "pre",
    },
}


def check(seen: Trace) -> float:
    """The largest difference of all heads of all kinds of attention."""
    worst = 0.0
    for site in seen.sites:
        for head in seen.heads(of=site.of, kind=site.kind):
            assert np.isfinite(head.weights).all()
            assert (head.weights[head.mask.hidden] == 0).all()
            worst = max(worst, head.difference)
    return worst


def of_pair(number: int) -> None:
    tokenizer = words()
    model = filled(network(tokenizer.vocab_size, **PAIRS[number]))
    seen = trace(model, tokenizer, STORY, start_id=0)
    with torch.no_grad():
        assert torch.equal(model(torch.tensor([seen.ids]))[0], seen.logits)
    assert check(seen) < 1e-5, PAIRS[number]


@pytest.mark.parametrize("number", range(0, len(PAIRS), 4))
def test_pairs_of_dials(number: int) -> None:
    of_pair(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n in range(len(PAIRS)) if n % 4])
def test_all_pairs_of_dials(number: int) -> None:
    of_pair(number)


@pytest.mark.parametrize("name", CROSS)
def test_of_translators(name: str) -> None:
    model = filled(translator(**CROSS[name]))
    seen = trace_pair(model, english(), SOURCE, TARGET, source_tokenizer=chinese())
    with torch.no_grad():
        plain = model(torch.tensor([seen.ids]), source=torch.tensor([seen.source_ids]))[0]
    assert torch.equal(plain, seen.logits)
    assert [(site.of, site.kind) for site in seen.sites] == [
        ("encoder", "self"),
        ("decoder", "self"),
        ("decoder", "cross"),
    ]
    assert check(seen) < 1e-5


def again(module: Attention, values: dict[str, torch.Tensor], view: View, stack: Any) -> float:
    """The difference of one layer's steps to the model's own head output, a padded batch at once."""
    query, key, value = (values[f"{module.name}.{part}"] for part in ("query", "key", "value"))
    bias = None if module.cross else stack.bias(view)
    with torch.no_grad():
        steps = module.steps_from_taps(query, key, value, view, bias)
    own = values[f"{module.name}.head_output"]
    assert torch.isfinite(steps.weights).all()
    assert (steps.weights[~view.visible()[:, None].expand_as(steps.weights)] == 0).all()
    return float((steps.head_output - own).abs().max() / own.abs().max())


LENGTHS = [9, 4, 1]


def padded(model: Transformer, ids: list[int]) -> torch.Tensor:
    return torch.tensor([[*ids[:n], *[0] * (max(LENGTHS) - n)] for n in LENGTHS])


@pytest.mark.parametrize("dials", [
    {"positions": "learned", "norm_place": "post"}, {"positions": "relative"},
    {"positions": "alibi", "n_kv_heads": 2}, {"sink_logit": True, "attention_softcap": 2.0},
    {"positions": "sinusoidal", "sink_logit": True},
])  # fmt: skip
def test_padding_of_an_encoder(dials: dict[str, Any]) -> None:
    """Three texts in one batch, the shorter ones padded: recomputed with the padding hidden."""
    tokenizer = words()
    model = filled(network(tokenizer.vocab_size, assembly="encoder-only", **dials))
    ids, lengths = tokenizer.encode(STORY), torch.tensor(LENGTHS)
    tokens, taps = padded(model, ids), Taps(("*",))
    with torch.no_grad():
        looked, plain = model(tokens, lengths, taps=taps), model(tokens, lengths)
    assert torch.equal(looked, plain)
    at = torch.arange(tokens.shape[1])[None]
    view = View(at, at, causal=False, key_valid=at < lengths[:, None])
    for block in model.encoder.blocks():
        assert again(block.self_attention, taps.values, view, model.encoder) < 1e-5
    for row, n in enumerate(LENGTHS):  # and each text is as it is alone
        alone = trace(model, tokenizer, ids[:n])
        torch.testing.assert_close(looked[row, :n], alone.logits, rtol=1e-4, atol=1e-4)
        own = View(at, at, causal=False, key_valid=(at < n))
        reasons = mask_of(own, None, 0).reasons
        assert (reasons[:, n:] == "padding").all()
        assert (reasons[:, :n] == "").all()


@pytest.mark.parametrize("dials", [
    {}, {"positions": "relative", "norm_place": "pre"}, {"sink_logit": True, "n_kv_heads": 1},
    {"attention_softcap": 2.0, "positions": "rotary"},
])  # fmt: skip
def test_padding_of_a_source(dials: dict[str, Any]) -> None:
    """Sources of several lengths, one of them of padding alone: cross-attention sees none of it."""
    model = filled(translator(**dials))
    lengths, taps = torch.tensor([6, 3, 0]), Taps(("*",))
    source = torch.tensor([[1, 2, 3, 4, 5, 0]] * 3)
    tokens = torch.tensor([[0, *english().encode(TARGET)]] * 3)
    with torch.no_grad():
        looked = model(tokens, source=source, source_lengths=lengths, taps=taps)
        plain = model(tokens, source=source, source_lengths=lengths)
    assert torch.equal(looked, plain)
    assert torch.isfinite(looked).all()
    rows, columns = torch.arange(tokens.shape[1])[None], torch.arange(source.shape[1])[None]
    valid = columns < lengths[:, None]
    inside = View(columns, columns, causal=False, key_valid=valid)
    across = View(rows, columns, causal=False, key_valid=valid)
    causal = View(rows, rows, causal=True)
    for block in model.encoder.blocks():
        assert again(block.self_attention, taps.values, inside, model.encoder) < 1e-5
    for block in model.decoder.blocks():
        assert again(block.self_attention, taps.values, causal, model.decoder) < 1e-5
        assert again(block.cross_attention, taps.values, across, model.decoder) < 1e-5
        own = taps.values[f"{block.cross_attention.name}.head_output"]
        assert (own[2] == 0).all()  # zeros, never NaN
