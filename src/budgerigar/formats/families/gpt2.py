"""GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each sublayer, biases everywhere,
queries, keys and values fused into one matrix kept transposed, the head tied to the embedding.
"""

from __future__ import annotations

import re
from typing import Any

from budgerigar.formats.families.family import (
    ACTIVATIONS,
    Family,
    affine,
    either,
    table,
    theirs_of,
)
from budgerigar.formats.families.values import Values
from budgerigar.formats.weight_rules import TRANSPOSED, Part, Rule, TensorSource
from budgerigar.layers.config import TransformerConfig

_BASE = ("transformer.", "")  # the oldest files are of the model without its head
_MASK = re.compile(r"(^|\.)h\.\d+\.(attn|crossattention)\.(masked_)?bias$")


class _Gpt2(Family):
    name = "GPT-2"
    assembly = "decoder-only"
    architectures = ("GPT2LMHeadModel", "GPT2Model")
    model_types = ("gpt2",)

    def config_from(self, values: Values, tensors: TensorSource | None = None) -> TransformerConfig:
        v = values
        v.unless("add_cross_attention", False, "a decoder of this family reads no source")
        v.unless("scale_attn_by_inverse_layer_idx", False, "scores have one scale in all layers")
        config = TransformerConfig(
            vocab_size=v.whole("vocab_size"),
            context_length=v.whole("n_positions", v.whole("n_ctx", None)) or v.whole("n_positions"),
            d_model=v.whole("n_embd"),
            n_layers=v.whole("n_layer"),
            n_heads=v.whole("n_head"),
            d_ff=v.whole("n_inner", None) or 4 * v.whole("n_embd"),
            positions="learned",
            norm_epsilon=v.number("layer_norm_epsilon", 1e-5),
            activation=v.choice("activation_function", ACTIVATIONS, "gelu_new"),
            attention_scale="sqrt" if v.flag("scale_attn_weights", True) else "none",
            tied_embeddings=v.flag("tie_word_embeddings", True),
            initialisation="depth-scaled",
            init_std=v.number("initializer_range", 0.02),
            dropout_embedding=v.number("embd_pdrop", 0.1),
            dropout_residual=v.number("resid_pdrop", 0.1),
            dropout_attention=v.number("attn_pdrop", 0.1),
        )
        v.check()
        return config

    def config_to(self, config: TransformerConfig) -> dict[str, Any]:
        c = config
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": c.vocab_size,
            "n_positions": c.context_length,
            "n_embd": c.d_model,
            "n_layer": c.n_layers,
            "n_head": c.n_heads,
            "n_inner": c.ff_width,
            "activation_function": theirs_of(c.activation, ACTIVATIONS) or "gelu_new",
            "layer_norm_epsilon": c.norm_epsilon,
            "scale_attn_weights": c.attention_scale != "none",
            "tie_word_embeddings": c.tied_embeddings,
            "initializer_range": c.init_std,
            "embd_pdrop": c.dropout_embedding,
            "resid_pdrop": c.dropout_residual,
            "attn_pdrop": c.dropout_attention,
        }

    def rules(self, config: TransformerConfig) -> list[Rule]:
        head = ("lm_head.weight",)
        tokens = either(_BASE, "wte.weight") + (head if config.tied_embeddings else ())
        rules = [
            table("embedding.tokens.weight", tokens),
            Rule("embedding.positions.weight", either(_BASE, "wpe.weight")),
            *affine("decoder.final_norm", either(_BASE, "ln_f")),
        ]
        rules += [] if config.tied_embeddings else [table("head.weight", head)]
        for layer in range(config.n_layers):
            rules += self._layer(config, layer)
        return rules

    def _layer(self, config: TransformerConfig, layer: int) -> list[Rule]:
        ours = f"decoder.{layer}"
        theirs = [f"{base}h.{layer}." for base in _BASE]
        sizes = (config.d_model,) * 3
        fused = either(theirs, "attn.c_attn.weight"), either(theirs, "attn.c_attn.bias")
        rules = []
        for i, part in enumerate(("query", "key", "value")):
            name = f"{ours}.self_attention.{part}"
            rules.append(Rule(f"{name}.weight", fused[0], Part(i, sizes, TRANSPOSED)))
            rules.append(Rule(f"{name}.bias", fused[1], Part(i, sizes)))
        for mine, other in (
            ("self_attention.output", "attn.c_proj"),
            ("feed_forward.up", "mlp.c_fc"),
            ("feed_forward.down", "mlp.c_proj"),
        ):
            rules += affine(f"{ours}.{mine}", either(theirs, other), transform=TRANSPOSED)
        rules += affine(f"{ours}.attention_norm", either(theirs, "ln_1"))
        return rules + affine(f"{ours}.feed_forward_norm", either(theirs, "ln_2"))

    def ignored(self, name: str) -> str | None:
        return "the causal mask, the same for all" if _MASK.search(name) else None


GPT2 = _Gpt2()
