"""T5 (Raffel et al. 2020) and T5 v1.1 (Shazeer 2020): an encoder-decoder with a relative bias that all
layers of a stack share, RMSNorm, no biases, scores that are not scaled. The first ties the head to
the embedding and scales it by 1/sqrt(D); v1.1 has a head of its own and gated GELU.
"""

from __future__ import annotations

from typing import Any

import torch

from budgerigar.formats.families.family import (
    ACTIVATIONS,
    GATES,
    Family,
    affine,
    held,
    table,
    theirs_of,
)
from budgerigar.formats.families.values import Values
from budgerigar.formats.weight_rules import Rule, TensorSource
from budgerigar.layers.config import TransformerConfig

_HEAD, _TABLE = "lm_head.weight", "shared.weight"
_BIAS = "SelfAttention.relative_attention_bias.weight"
_CROSS_BIAS = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"


class _T5(Family):
    name = "T5"
    assembly = "encoder-decoder"
    architectures = ("T5ForConditionalGeneration",)
    model_types = ("t5",)

    def config_from(self, values: Values, tensors: TensorSource | None = None) -> TransformerConfig:
        v = values
        d_model = v.whole("d_model")
        tied, scaled = _head(v, tensors)
        config = TransformerConfig(
            assembly="encoder-decoder",
            vocab_size=v.whole("vocab_size"),
            # of training; distances have no end, so longer texts only cost quality
            context_length=v.whole("n_positions", 512),
            d_model=d_model,
            n_encoder_layers=v.whole("num_layers"),
            n_decoder_layers=v.whole("num_decoder_layers", v.whole("num_layers")),
            positions="relative",
            relative_buckets=v.whole("relative_attention_num_buckets", 32),
            relative_max_distance=v.whole("relative_attention_max_distance", 128),
            norm="rms",
            norm_epsilon=v.number("layer_norm_epsilon", 1e-6),
            norm_bias=False,
            n_heads=v.whole("num_heads"),
            d_head=v.whole("d_kv"),
            attention_scale="none",
            d_ff=v.whole("d_ff"),
            activation=_activation(v),
            qkv_bias=False,
            output_bias=False,
            ff_bias=False,
            tied_embeddings=tied,
            head_scale=max(d_model, 1) ** -0.5 if scaled else 1.0,
            decoder_start=v.whole("decoder_start_token_id", v.whole("pad_token_id", 0)),
            initialisation="t5",
            dropout_embedding=v.number("dropout_rate", 0.1),
            dropout_residual=v.number("dropout_rate", 0.1),
            dropout_ff=v.number("dropout_rate", 0.1),
            dropout_attention=v.number("dropout_rate", 0.1),
        )
        v.check()
        return config

    def config_to(self, config: TransformerConfig) -> dict[str, Any]:
        c = config
        gate = theirs_of(c.activation, GATES) if c.gated else None
        plain = theirs_of(c.activation, ACTIVATIONS) or "relu"
        # the name that v1.1 has always had for the gate whose GELU is the tanh form
        gated = "gated-gelu" if c.activation == "geglu-tanh" else f"gated-{gate}"
        return {
            "architectures": ["T5ForConditionalGeneration"],
            "model_type": "t5",
            "is_encoder_decoder": True,
            "vocab_size": c.vocab_size,
            "n_positions": c.context_length,
            "d_model": c.d_model,
            "num_layers": c.encoder_layers,
            "num_decoder_layers": c.decoder_layers,
            "relative_attention_num_buckets": c.relative_buckets,
            "relative_attention_max_distance": c.relative_max_distance,
            "layer_norm_epsilon": c.norm_epsilon,
            "num_heads": c.n_heads,
            "d_kv": c.head_width,
            "d_ff": c.ff_width,
            "feed_forward_proj": gated if gate else plain,
            "tie_word_embeddings": c.tied_embeddings,
            **_scaled(c),
            "decoder_start_token_id": c.decoder_start,
            "dropout_rate": c.dropout_residual,
        }

    def rules(self, config: TransformerConfig) -> list[Rule]:
        c = config
        copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
        tokens = (_TABLE, *copies, *((_HEAD,) if c.tied_embeddings else ()))
        rules = [table("embedding.tokens.weight", tokens)]
        rules += [] if c.tied_embeddings else [table("head.weight", (_HEAD,))]
        for stack, depth in (("encoder", c.encoder_layers), ("decoder", c.decoder_layers)):
            shared = f"{stack}.block.0.layer.0.{_BIAS}"
            rules.append(Rule(f"{stack}.relative_bias.weight", (shared,)))
            rules += affine(f"{stack}.final_norm", (f"{stack}.final_layer_norm",), bias=False)
            for layer in range(depth):
                theirs = f"{stack}.block.{layer}.layer"
                rules += _layer(f"{stack}.{layer}", theirs, c.gated, crosses=stack == "decoder")
        return rules

    def ignored(self, name: str) -> str | None:
        return "a bias that the first release wrote and never read" if name == _CROSS_BIAS else None


def _layer(ours: str, theirs: str, gated: bool, crosses: bool) -> list[Rule]:
    """Rules of one block: sublayers are numbered 0, 1 and, in a decoder, 2."""
    last = 2 if crosses else 1
    attentions = [("self_attention", "attention_norm", "0", "SelfAttention")]
    if crosses:
        attentions.append(("cross_attention", "cross_attention_norm", "1", "EncDecAttention"))
    rules = []
    for mine, norm, number, other in attentions:
        rules += affine(f"{ours}.{norm}", (f"{theirs}.{number}.layer_norm",), bias=False)
        for part in ("query", "key", "value", "output"):
            name = f"{theirs}.{number}.{other}.{part[0]}"
            rules += affine(f"{ours}.{mine}.{part}", (name,), bias=False)
    rules += affine(f"{ours}.feed_forward_norm", (f"{theirs}.{last}.layer_norm",), bias=False)
    inner = {"gate": "wi_0", "up": "wi_1"} if gated else {"up": "wi"}
    for part, other in {**inner, "down": "wo"}.items():
        name = f"{theirs}.{last}.DenseReluDense.{other}"
        rules += affine(f"{ours}.feed_forward.{part}", (name,), bias=False)
    return rules


def _activation(v: Values) -> Any:
    """relu, gated-gelu (whose GELU is the tanh form), gated-silu …"""
    words = v.text("feed_forward_proj", "relu")
    if words == "gated-gelu":
        return "geglu-tanh"
    gated, _, name = words.rpartition("-")
    options = GATES if gated == "gated" else ACTIVATIONS
    if gated not in ("", "gated") or name not in options:
        v.refuse(f"feed_forward_proj = {words!r} is not known here")
        return "relu"
    return options[name]


def _head(v: Values, tensors: TensorSource | None) -> tuple[bool, bool]:
    """(the head is tied to the embedding, its logits are scaled).

    One setting said both until newer files, which say the scale alone: there the weights decide.
    """
    tied = v.flag("tie_word_embeddings", True)
    if "scale_decoder_outputs" not in v:
        return tied, tied
    scaled = v.flag("scale_decoder_outputs", True)
    if tensors is not None and {_HEAD, _TABLE} <= held(tensors):
        shapes = {tensors.shape(name) for name in (_HEAD, _TABLE)}
        tied = len(shapes) == 1 and torch.equal(tensors.get(_HEAD), tensors.get(_TABLE))
    return tied, scaled


def _scaled(c: TransformerConfig) -> dict[str, bool]:
    """Said where a tied head is not scaled: newer versions of `transformers` keep the two apart."""
    unscaled = c.tied_embeddings and c.head_scale == 1.0
    return {"scale_decoder_outputs": False} if unscaled else {}


T5 = _T5()
