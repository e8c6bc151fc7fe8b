"""Marian's Transformer (Junczys-Dowmunt et al. 2018), as OPUS-MT's models have it: that of 2017 with
all sines before all cosines, embeddings times sqrt(D), and a bias on the logits.
"""

from __future__ import annotations

from typing import Any

from budgerigar.formats.families.family import (
    ACTIVATIONS,
    Family,
    affine,
    held,
    table,
    theirs_of,
)
from budgerigar.formats.families.values import Values
from budgerigar.formats.weight_rules import ONLY_ROW, Rule, TensorSource
from budgerigar.layers.config import TransformerConfig

_BIAS, _HEAD = "final_logits_bias", "lm_head.weight"
_TABLES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
_SINUSOIDS = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))


class _Marian(Family):
    name = "Marian"
    assembly = "encoder-decoder"
    architectures = ("MarianMTModel", "MarianModel")
    model_types = ("marian",)

    def config_from(self, values: Values, tensors: TensorSource | None = None) -> TransformerConfig:
        v = values
        for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
            v.unless(
                name, False, "norms of this family stand after each sublayer, and nowhere else"
            )
        shared = v.flag("share_encoder_decoder_embeddings", True)
        source = v.whole("vocab_size")
        config = TransformerConfig(
            assembly="encoder-decoder",
            vocab_size=source if shared else v.whole("decoder_vocab_size", source),
            source_vocab_size=None if shared else source,
            context_length=v.whole("max_position_embeddings", 1024),
            d_model=v.whole("d_model"),
            n_encoder_layers=v.whole("encoder_layers"),
            n_decoder_layers=v.whole("decoder_layers"),
            positions="sinusoidal",
            sinusoid_layout="split",
            norm_place="post",
            n_heads=_same(v, "attention_heads"),
            d_ff=_same(v, "ffn_dim"),
            activation=v.choice("activation_function", ACTIVATIONS, "gelu"),
            head_bias=_BIAS in held(tensors) or tensors is None,
            tied_embeddings=v.flag("tie_word_embeddings", True),
            shared_embeddings=shared,
            embedding_scale="sqrt" if v.flag("scale_embedding", False) else "none",
            decoder_start=v.whole("decoder_start_token_id"),
            initialisation="normal",
            init_std=v.number("init_std", 0.02),
            dropout_embedding=v.number("dropout", 0.1),
            dropout_residual=v.number("dropout", 0.1),
            dropout_ff=v.number("activation_dropout", 0.0),
            dropout_attention=v.number("attention_dropout", 0.0),
        )
        v.check()
        return config

    def config_to(self, config: TransformerConfig) -> dict[str, Any]:
        c = config
        values = {
            "architectures": ["MarianMTModel"],
            "model_type": "marian",
            "is_encoder_decoder": True,
            "vocab_size": c.source_vocab_size or c.vocab_size,
            "decoder_vocab_size": c.vocab_size,
            "share_encoder_decoder_embeddings": c.shared_embeddings,
            "max_position_embeddings": c.context_length,
            "d_model": c.d_model,
            "encoder_layers": c.encoder_layers,
            "decoder_layers": c.decoder_layers,
            "activation_function": theirs_of(c.activation, ACTIVATIONS) or "relu",
            "scale_embedding": c.embedding_scale != "none",
            "tie_word_embeddings": c.tied_embeddings,
            "decoder_start_token_id": c.decoder_start,
            "init_std": c.init_std,
            "dropout": c.dropout_residual,
            "activation_dropout": c.dropout_ff,
            "attention_dropout": c.dropout_attention,
        }
        for stack in ("encoder", "decoder"):
            values |= {f"{stack}_attention_heads": c.n_heads, f"{stack}_ffn_dim": c.ff_width}
        return values

    def rules(self, config: TransformerConfig) -> list[Rule]:
        c = config
        head = (_HEAD,) if c.tied_embeddings else ()
        if c.shared_embeddings:
            rules = [table("embedding.tokens.weight", ("model.shared.weight", *_TABLES, *head))]
        else:
            rules = [
                table("source_embedding.tokens.weight", _TABLES[:1]),
                table("embedding.tokens.weight", (*_TABLES[1:], *head)),
            ]
        rules += [] if c.tied_embeddings else [table("head.weight", (_HEAD,))]
        rules += [Rule("head.bias", (_BIAS,), ONLY_ROW)] if c.head_bias else []
        for stack, depth in (("encoder", c.encoder_layers), ("decoder", c.decoder_layers)):
            for layer in range(depth):
                rules += _layer(f"{stack}.{layer}", f"model.{stack}.layers.{layer}", stack)
        return rules

    def ignored(self, name: str) -> str | None:
        return "sines and cosines, computed here" if name in _SINUSOIDS else None


def _layer(ours: str, theirs: str, stack: str) -> list[Rule]:
    """Rules of one block."""
    attentions = {"self_attention": ("self_attn", "attention_norm")}
    if stack == "decoder":
        attentions["cross_attention"] = ("encoder_attn", "cross_attention_norm")
    rules = []
    for mine, (other, norm) in attentions.items():
        parts = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        for part, name in parts.items():
            rules += affine(f"{ours}.{mine}.{part}", (f"{theirs}.{other}.{name}",))
        rules += affine(f"{ours}.{norm}", (f"{theirs}.{other}_layer_norm",))
    rules += affine(f"{ours}.feed_forward.up", (f"{theirs}.fc1",))
    rules += affine(f"{ours}.feed_forward.down", (f"{theirs}.fc2",))
    return rules + affine(f"{ours}.feed_forward_norm", (f"{theirs}.final_layer_norm",))


def _same(v: Values, part: str) -> int:
    """A size that encoder and decoder share here."""
    sizes = [v.whole(f"{stack}_{part}") for stack in ("encoder", "decoder")]
    if sizes[0] != sizes[1]:
        v.refuse(f"encoder_{part} = {sizes[0]} and decoder_{part} = {sizes[1]}: one size is needed")
    return int(sizes[0])


MARIAN = _Marian()
