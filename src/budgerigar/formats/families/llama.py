"""Llama and its likes of the same shape (Touvron et al. 2023): rotary positions, RMSNorm, a gate in
the feed-forward, grouped keys and values. SmolLM2, Llama 2 and 3 (with its RoPE scaling), Mistral
(with its window), Qwen2 (with biases of queries, keys and values).
"""

from __future__ import annotations

import re
from typing import Any, Literal

from budgerigar.formats.families.family import GATES, Family, affine, either, table, theirs_of
from budgerigar.formats.families.values import Values
from budgerigar.formats.weight_rules import Rule, TensorSource
from budgerigar.layers.config import LayerPattern, RotaryScaling, TransformerConfig

_BASE = ("model.", "")
_FREQUENCIES = re.compile(r"(^|\.)rotary_emb\.(inv_freq|original_inv_freq)$")
_CONTEXTS = {"llama": 2048, "mistral": 131_072, "qwen2": 32_768}  # where config.json leaves it out
_KV_HEADS = {"mistral": 8, "qwen2": 32}  # the same; null means as many as query heads


class _Llama(Family):
    name = "Llama"
    assembly = "decoder-only"
    architectures = (
        "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
        "LlamaModel", "MistralModel", "Qwen2Model",
    )  # fmt: skip
    model_types = ("llama", "mistral", "qwen2")

    def config_from(self, values: Values, tensors: TensorSource | None = None) -> TransformerConfig:
        v = values
        kind = _kind(v)
        window, layers = _windows(v, kind)
        qkv_bias = True if kind == "qwen2" else v.flag("attention_bias", False)
        scaling, base = _rotary(v)
        config = TransformerConfig(
            vocab_size=v.whole("vocab_size"),
            context_length=v.whole("max_position_embeddings", _CONTEXTS[kind]),
            d_model=v.whole("hidden_size"),
            n_layers=v.whole("num_hidden_layers"),
            layers=layers,
            rotary_base=base,
            rotary_scaling=scaling,
            norm="rms",
            norm_epsilon=v.number("rms_norm_eps", 1e-6),
            norm_bias=False,
            n_heads=v.whole("num_attention_heads"),
            n_kv_heads=None
            if "num_key_value_heads" in v.nulls
            else v.whole("num_key_value_heads", _KV_HEADS.get(kind)),
            d_head=v.whole("head_dim", None),
            attention_window=window,
            d_ff=v.whole("intermediate_size"),
            activation=v.choice("hidden_act", GATES, "silu"),
            qkv_bias=qkv_bias,
            output_bias=qkv_bias and kind != "qwen2",
            ff_bias=v.flag("mlp_bias", False),
            tied_embeddings=v.flag("tie_word_embeddings", False),
            initialisation="normal",
            init_std=v.number("initializer_range", 0.02),
            dropout_attention=v.number("attention_dropout", 0.0),
        )
        v.check()
        return config

    def config_to(self, config: TransformerConfig) -> dict[str, Any]:
        c = config
        windows = [c.window_of(layer) for layer in range(c.n_layers)]
        kind = _kind_for(c, windows)
        values: dict[str, Any] = {
            "architectures": [f"{kind.capitalize()}ForCausalLM"],
            "model_type": kind,
            "vocab_size": c.vocab_size,
            "max_position_embeddings": c.context_length,
            "hidden_size": c.d_model,
            "num_hidden_layers": c.n_layers,
            "num_attention_heads": c.n_heads,
            "num_key_value_heads": c.kv_heads,
            "head_dim": c.head_width,
            "intermediate_size": c.ff_width,
            "hidden_act": theirs_of(c.activation, GATES) or "silu",
            "rms_norm_eps": c.norm_epsilon,
            "tie_word_embeddings": c.tied_embeddings,
            "initializer_range": c.init_std,
            "attention_dropout": c.dropout_attention,
            **_rotary_to(c),
        }
        if kind == "llama":
            values |= {"attention_bias": c.qkv_bias or c.output_bias, "mlp_bias": c.ff_bias}
        elif kind == "mistral":
            values["sliding_window"] = windows[0]
        else:
            values |= _qwen2_windows(windows)
        return values

    def rules(self, config: TransformerConfig) -> list[Rule]:
        c, head = config, ("lm_head.weight",)
        tokens = either(_BASE, "embed_tokens.weight") + (head if c.tied_embeddings else ())
        rules = [table("embedding.tokens.weight", tokens)]
        rules += affine("decoder.final_norm", either(_BASE, "norm"), bias=False)
        rules += [] if c.tied_embeddings else [table("head.weight", head)]
        for layer in range(c.n_layers):
            ours = f"decoder.{layer}"
            theirs = [f"{base}layers.{layer}." for base in _BASE]
            for mine, other, bias in (
                ("self_attention.query", "self_attn.q_proj", c.qkv_bias),
                ("self_attention.key", "self_attn.k_proj", c.qkv_bias),
                ("self_attention.value", "self_attn.v_proj", c.qkv_bias),
                ("self_attention.output", "self_attn.o_proj", c.output_bias),
                ("feed_forward.gate", "mlp.gate_proj", c.ff_bias),
                ("feed_forward.up", "mlp.up_proj", c.ff_bias),
                ("feed_forward.down", "mlp.down_proj", c.ff_bias),
                ("attention_norm", "input_layernorm", False),
                ("feed_forward_norm", "post_attention_layernorm", False),
            ):
                rules += affine(f"{ours}.{mine}", either(theirs, other), bias)
        return rules

    def ignored(self, name: str) -> str | None:
        return "rotary frequencies, computed here" if _FREQUENCIES.search(name) else None


def _kind(v: Values) -> str:
    """llama, mistral or qwen2: they differ in a window and in biases."""
    named = (v.text("model_type", ""), *v.words("architectures"))
    found = (kind for name in named for kind in _CONTEXTS if name.lower().startswith(kind))
    return next(found, "llama")


def _windows(v: Values, kind: str) -> tuple[int | None, tuple[LayerPattern, ...]]:
    """(window of all layers, what single layers do differently)."""
    window = v.whole("sliding_window", 4096)
    if kind == "mistral":  # null says that there is none; left out means 4096
        return (None if "sliding_window" in v.nulls else window), ()
    if kind != "qwen2" or not v.flag("use_sliding_window", False):
        return None, ()
    depth = v.whole("num_hidden_layers")
    first = v.whole("max_window_layers", 28)
    kinds = v.words("layer_types") or [
        "sliding_attention" if layer >= first else "full_attention" for layer in range(depth)
    ]
    known = {"sliding_attention", "full_attention"}
    if len(kinds) != depth or not set(kinds) <= known:
        v.refuse(f"layer_types: {depth} of {' or '.join(sorted(known))} are needed")
        return None, ()
    if len(set(kinds)) == 1:
        return (window if "sliding_attention" in kinds else None), ()
    slides = [kind == "sliding_attention" for kind in kinds]
    return None, tuple(LayerPattern(window if slide else 0) for slide in slides)


def _qwen2_windows(windows: list[int | None]) -> dict[str, Any]:
    limited = [window for window in windows if window]
    if not limited:
        return {"use_sliding_window": False}
    kinds = ["sliding_attention" if window else "full_attention" for window in windows]
    full = kinds.count("full_attention")
    return {
        "use_sliding_window": True,
        "sliding_window": limited[0],
        "max_window_layers": full,  # for readers that know no layer_types
        "layer_types": kinds,
    }


def _kind_for(c: TransformerConfig, windows: list[int | None]) -> str:
    """Which of the likes has these windows and biases."""
    if c.qkv_bias and not c.output_bias:
        return "qwen2"
    if not any(windows):
        return "llama"
    return "mistral" if len(set(windows)) == 1 and not c.qkv_bias else "qwen2"


# -- rotary positions ------------------------------------------------------------------------------
_Kind = Literal["linear", "yarn", "llama3"]
_SCALINGS: dict[str, _Kind] = {"linear": "linear", "yarn": "yarn", "llama3": "llama3"}
_YARN = ("mscale", "mscale_all_dim")


def _rotary(v: Values) -> tuple[RotaryScaling | None, float]:
    """Scaling and base. They stand in rope_parameters, or in rope_scaling and rope_theta (before)."""
    new = "rope_parameters" in v
    r = v.table("rope_parameters" if new else "rope_scaling")
    base = r.number("rope_theta", v.number("rope_theta", 10_000.0))
    if r.number("partial_rotary_factor", v.number("partial_rotary_factor", 1.0)) != 1.0:
        v.refuse("partial_rotary_factor: heads of this family are turned whole")
    kind = r.text("rope_type", r.text("type", "default"))
    if kind == "default":
        return None, base
    if kind not in _SCALINGS:
        why = {
            "dynamic": "it depends on the length of each text",
            "longrope": "it chooses its factors by the length of each text",
        }.get(kind, f"known are {', '.join(_SCALINGS)}")
        v.refuse(f"rope_type = {kind!r}: {why}")
        return None, base
    for name in _YARN:
        if name in r:
            v.refuse(f"{name}: this form of yarn is not known here")
    if kind == "yarn" and r.flag("truncate", True) is False:
        v.refuse("truncate = false: yarn's borders are rounded here")
    context = v.whole("max_position_embeddings", 2048)
    original = r.whole("original_max_position_embeddings", context)
    llama3 = kind == "llama3"
    return RotaryScaling(
        kind=_SCALINGS[kind],
        factor=r.number("factor"),
        original_context_length=original,
        attention_factor=r.number("attention_factor", None) if kind == "yarn" else None,
        beta_fast=r.number("beta_fast", 32.0),
        beta_slow=r.number("beta_slow", 1.0),
        low_frequency_factor=r.number("low_freq_factor") if llama3 else 1.0,
        high_frequency_factor=r.number("high_freq_factor") if llama3 else 4.0,
    ), base


def _rotary_to(c: TransformerConfig) -> dict[str, Any]:
    """In the old form, which all readers know."""
    values: dict[str, Any] = {"rope_theta": c.rotary_base}
    s = c.rotary_scaling
    if s is None or s.kind not in _SCALINGS:
        return values
    scaling: dict[str, Any] = {"rope_type": s.kind, "factor": s.factor}
    if s.kind != "linear":
        scaling["original_max_position_embeddings"] = s.original_context_length
    if s.kind == "yarn":
        scaling |= {"beta_fast": s.beta_fast, "beta_slow": s.beta_slow}
        if s.attention_factor is not None:
            scaling["attention_factor"] = s.attention_factor
    if s.kind == "llama3":
        scaling |= {
            "low_freq_factor": s.low_frequency_factor,
            "high_freq_factor": s.high_frequency_factor,
        }
    return {**values, "rope_scaling": scaling}


LLAMA = _Llama()
