"""Small Transformers of every kind whose residual streams differ in how norms, heads and ends stand."""

from __future__ import annotations

from typing import Any

import torch
from toy import STORY, chinese, english, network, translator, words

from budgerigar.inspection.pair_traces import trace_pair
from budgerigar.inspection.traces import Trace, trace
from budgerigar.layers.config import LayerPattern
from budgerigar.models.transformer import Transformer

DECODERS: dict[str, dict[str, Any]] = {
    "pre": {},
    "post": {"norm_place": "post", "positions": "sinusoidal"},
    "post with a final norm": {"norm_place": "post", "final_norm": True},
    "pre without a final norm": {"final_norm": False},
    "sandwich": {"norm_place": "sandwich", "norm": "rms", "norm_offset": True},
    "sandwich, layer norm": {"norm_place": "sandwich"},
    "output": {"norm_place": "output", "norm": "rms"},
    "output, layer norm": {"norm_place": "output"},
    "parallel": {"parallel_residual": True, "norm": "rms"},
    "no residual": {"residual": False},
    "no residual, post": {"residual": False, "norm_place": "post"},
    "no residual, sandwich": {"residual": False, "norm_place": "sandwich"},
    "no biases": {
        "norm_bias": False,
        "qkv_bias": False,
        "output_bias": False,
        "ff_bias": False,
        "positions": "none",
    },
    "norms without weight": {"norm_weight": False, "norm_bias": False},
    "two kinds of norm": {"layers": (LayerPattern(norm="rms"), LayerPattern(norm="layer"))},
    "untied, biased head": {"tied_embeddings": False, "head_bias": True},
    "scaled head": {"head_scale": 0.3, "head_bias": True},
    "soft-capped logits": {"logit_softcap": 3.0, "head_bias": True},
    "scaled embedding, normed": {"embedding_scale": "sqrt", "embedding_norm": True},
    "projected": {"embedding_size": 10, "positions": "learned", "position_offset": 2},
    "projected, untied, normed": {
        "embedding_size": 10,
        "tied_embeddings": False,
        "embedding_norm": True,
        "token_types": 2,
        "positions": "sinusoidal",
        "sinusoid_layout": "split",
    },
    "grouped, windowed, sinks": {"n_kv_heads": 2, "attention_window": 5, "sink_tokens": 2},
    "sink logit, gated": {"sink_logit": True, "activation": "swiglu"},
    "wide heads, soft-cap": {"d_head": 8, "attention_softcap": 2.0, "positions": "alibi"},
    "T5's bias": {"positions": "relative", "attention_scale": "none"},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "BERT": {
        "norm_place": "post",
        "embedding_norm": True,
        "token_types": 2,
        "positions": "learned",
        "head_transform": True,
        "head_bias": True,
    },
    "BERT with ReLU, rms": {
        "norm": "rms",
        "activation": "relu",
        "head_transform": True,
        "embedding_size": 12,
    },
    "BERT with tanh's GELU": {"activation": "gelu-tanh", "head_transform": True},
    "BERT with a gate": {"activation": "swiglu", "head_transform": True},
    "BERT with squared ReLU": {"activation": "squared-relu", "head_transform": True},
    "encoder, pre": {"positions": "rotary"},
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "translator, post": {},
    "translator, pre, relative": {"norm_place": "pre", "positions": "relative"},
    "translator, sandwich, capped": {"norm_place": "sandwich", "logit_softcap": 4.0},
    "translator, no residual": {"residual": False, "norm_place": "pre"},
    "translator, output": {"norm_place": "output", "norm": "rms", "n_kv_heads": 1},
}
ALL = [*DECODERS, *ENCODERS, *TRANSLATORS]


def filled(model: Transformer, seed: int = 5) -> Transformer:
    """Biases, norm weights and sinks that are not what they begin as: nothing hides behind a zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def model_of(name: str) -> Transformer:
    """The model of that name."""
    if name in TRANSLATORS:
        return filled(translator(**TRANSLATORS[name]))
    dials = DECODERS.get(name) or ENCODERS.get(name) or {}
    assembly = "encoder-only" if name in ENCODERS else "decoder-only"
    return filled(network(words().vocab_size, assembly=assembly, **dials))


def traced(name: str, model: Any = None) -> Trace:
    """A text, or a pair, read by the model of that name (or by a view of it)."""
    model = model_of(name) if model is None else model
    if name in TRANSLATORS:
        target = "Xuanyuan has a budgerigar"
        return trace_pair(
            model, english(), "轩辕有一只虎皮鹦鹉", target, source_tokenizer=chinese()
        )
    return trace(model, words(), STORY, start_id=0 if name in DECODERS else None)
