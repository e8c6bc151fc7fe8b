"""BERT (Devlin et al. 2018) and DistilBERT (Sanh et al. 2019): encoders, norms after each sublayer and
after the sum of the embeddings. MiniLM is a BERT without an output layer.

Parts that a file may lack: the output layer for masked words (`token_head`), the pooler, the layer
for classes of texts. What the files hold decides which of them the model has.
"""

from __future__ import annotations

from typing import Any

from budgerigar.formats.families.family import (
    ACTIVATIONS,
    Family,
    affine,
    either,
    held,
    table,
    theirs_of,
)
from budgerigar.formats.families.values import Values
from budgerigar.formats.weight_rules import Rule, TensorSource
from budgerigar.layers.config import TransformerConfig

_SHAPE: dict[str, Any] = {
    "assembly": "encoder-only",
    "positions": "learned",
    "norm_place": "post",
    "embedding_norm": True,
    "initialisation": "normal",
}
_POSITIONS = "positions, counted here"


class _Bert(Family):
    name = "BERT"
    assembly = "encoder-only"
    architectures = (
        "BertForMaskedLM", "BertModel", "BertForPreTraining", "BertForSequenceClassification",
    )  # fmt: skip
    model_types = ("bert",)
    base = ("bert.", "")

    def config_from(self, values: Values, tensors: TensorSource | None = None) -> TransformerConfig:
        v, names = values, held(tensors)
        v.unless("is_decoder", False, "a BERT that looks back only is not known here")
        v.unless("add_cross_attention", False, "an encoder reads no other source")
        v.unless("position_embedding_type", "absolute", "positions of this family are a table")
        told = _told(v, self.architectures)
        head = any(n.startswith("cls.predictions.") for n in names) if names else told[0]
        pooler = bool(names & {*either(self.base, "pooler.dense.weight")}) if names else told[1]
        n_classes = _classes(v) if told[2] else 0
        config = TransformerConfig(
            **_SHAPE,
            vocab_size=v.whole("vocab_size"),
            context_length=v.whole("max_position_embeddings"),
            d_model=v.whole("hidden_size"),
            n_layers=v.whole("num_hidden_layers"),
            token_types=v.whole("type_vocab_size", 2),
            norm_epsilon=v.number("layer_norm_eps", 1e-12),
            n_heads=v.whole("num_attention_heads"),
            d_ff=v.whole("intermediate_size"),
            activation=v.choice("hidden_act", ACTIVATIONS, "gelu"),
            tied_embeddings=v.flag("tie_word_embeddings", True),
            token_head=head and not n_classes,
            head_bias=head and not n_classes,
            head_transform=head and not n_classes,
            pooler=pooler,
            n_classes=n_classes,
            pooling="first" if n_classes else "mean",
            init_std=v.number("initializer_range", 0.02),
            dropout_embedding=v.number("hidden_dropout_prob", 0.1),
            dropout_residual=v.number("hidden_dropout_prob", 0.1),
            dropout_attention=v.number("attention_probs_dropout_prob", 0.1),
        )
        v.check()
        return config

    def config_to(self, config: TransformerConfig) -> dict[str, Any]:
        c = config
        architecture = "BertForMaskedLM" if c.token_head else "BertModel"
        if c.token_head and c.pooler:
            architecture = "BertForPreTraining"
        values = {
            "architectures": [architecture],
            "model_type": "bert",
            "vocab_size": c.vocab_size,
            "max_position_embeddings": c.context_length,
            "hidden_size": c.d_model,
            "num_hidden_layers": c.n_layers,
            "type_vocab_size": max(c.token_types, 1),
            "layer_norm_eps": c.norm_epsilon,
            "num_attention_heads": c.n_heads,
            "intermediate_size": c.ff_width,
            "hidden_act": theirs_of(c.activation, ACTIVATIONS) or "gelu",
            "tie_word_embeddings": c.tied_embeddings,
            "initializer_range": c.init_std,
            "hidden_dropout_prob": c.dropout_residual,
            "attention_probs_dropout_prob": c.dropout_attention,
        }
        if c.n_classes:
            labels = {str(i): f"LABEL_{i}" for i in range(c.n_classes)}
            values["architectures"] = ["BertForSequenceClassification"]
            values["id2label"] = labels
            values["label2id"] = {label: int(i) for i, label in labels.items()}
        return values

    def rules(self, config: TransformerConfig) -> list[Rule]:
        c, embeddings = config, either(self.base, "embeddings.")
        tied = ("cls.predictions.decoder.weight",)
        tokens = either(embeddings, "word_embeddings.weight")
        tokens += tied if c.token_head and c.tied_embeddings else ()
        rules = [
            table("embedding.tokens.weight", tokens),
            Rule("embedding.positions.weight", either(embeddings, "position_embeddings.weight")),
            *affine("embedding.norm", either(embeddings, "LayerNorm")),
        ]
        if c.token_types:
            types = either(embeddings, "token_type_embeddings.weight")
            rules.append(Rule("embedding.types.weight", types))
        if c.pooler:
            rules += affine("pooler", either(self.base, "pooler.dense"))
        if c.n_classes:
            rules += affine("class_head.output", ("classifier",))
        if c.token_head:
            rules += affine("head.transform", ("cls.predictions.transform.dense",))
            rules += affine("head.transform_norm", ("cls.predictions.transform.LayerNorm",))
            bias = ("cls.predictions.bias", "cls.predictions.decoder.bias")
            rules.append(table("head.bias", bias))
            rules += [] if c.tied_embeddings else [table("head.weight", tied)]
        for layer in range(c.n_layers):
            theirs = [f"{base}encoder.layer.{layer}." for base in self.base]
            for mine, other in (
                ("self_attention.query", "attention.self.query"),
                ("self_attention.key", "attention.self.key"),
                ("self_attention.value", "attention.self.value"),
                ("self_attention.output", "attention.output.dense"),
                ("attention_norm", "attention.output.LayerNorm"),
                ("feed_forward.up", "intermediate.dense"),
                ("feed_forward.down", "output.dense"),
                ("feed_forward_norm", "output.LayerNorm"),
            ):
                rules += affine(f"encoder.{layer}.{mine}", either(theirs, other))
        return rules

    def ignored(self, name: str) -> str | None:
        if name.endswith("embeddings.position_ids"):
            return _POSITIONS
        if name.startswith("cls.seq_relationship."):
            return "the layer that told whether two sentences follow each other; not used here"
        return None


class _DistilBert(Family):
    name = "DistilBERT"
    assembly = "encoder-only"
    architectures = ("DistilBertForMaskedLM", "DistilBertModel")
    model_types = ("distilbert",)
    base = ("distilbert.", "")

    def config_from(self, values: Values, tensors: TensorSource | None = None) -> TransformerConfig:
        v, names = values, held(tensors)
        told = _told(v, self.architectures)
        head = "vocab_transform.weight" in names if names else told[0]
        config = TransformerConfig(
            **_SHAPE,
            vocab_size=v.whole("vocab_size"),
            context_length=v.whole("max_position_embeddings"),
            d_model=v.whole("dim"),
            n_layers=v.whole("n_layers"),
            norm_epsilon=1e-12,
            n_heads=v.whole("n_heads"),
            d_ff=v.whole("hidden_dim"),
            activation=v.choice("activation", ACTIVATIONS, "gelu"),
            # this family's config.json names the tie in words of its own
            tied_embeddings=v.flag("tie_word_embeddings", v.flag("tie_weights_", True)),
            token_head=head,
            head_bias=head,
            head_transform=head,
            init_std=v.number("initializer_range", 0.02),
            dropout_embedding=v.number("dropout", 0.1),
            dropout_residual=v.number("dropout", 0.1),
            dropout_attention=v.number("attention_dropout", 0.1),
        )
        v.check()
        return config

    def config_to(self, config: TransformerConfig) -> dict[str, Any]:
        c = config
        return {
            "architectures": [self.architectures[0 if c.token_head else 1]],
            "model_type": "distilbert",
            "vocab_size": c.vocab_size,
            "max_position_embeddings": c.context_length,
            "dim": c.d_model,
            "n_layers": c.n_layers,
            "n_heads": c.n_heads,
            "hidden_dim": c.ff_width,
            "activation": theirs_of(c.activation, ACTIVATIONS) or "gelu",
            "tie_word_embeddings": c.tied_embeddings,
            "initializer_range": c.init_std,
            "dropout": c.dropout_residual,
            "attention_dropout": c.dropout_attention,
        }

    def rules(self, config: TransformerConfig) -> list[Rule]:
        c, embeddings = config, either(self.base, "embeddings.")
        tied = ("vocab_projector.weight",)
        tokens = either(embeddings, "word_embeddings.weight")
        tokens += tied if c.token_head and c.tied_embeddings else ()
        rules = [
            table("embedding.tokens.weight", tokens),
            Rule("embedding.positions.weight", either(embeddings, "position_embeddings.weight")),
            *affine("embedding.norm", either(embeddings, "LayerNorm")),
        ]
        if c.token_head:
            rules += affine("head.transform", ("vocab_transform",))
            rules += affine("head.transform_norm", ("vocab_layer_norm",))
            rules.append(table("head.bias", ("vocab_projector.bias",)))
            rules += [] if c.tied_embeddings else [table("head.weight", tied)]
        for layer in range(c.n_layers):
            theirs = [f"{base}transformer.layer.{layer}." for base in self.base]
            for mine, other in (
                ("self_attention.query", "attention.q_lin"),
                ("self_attention.key", "attention.k_lin"),
                ("self_attention.value", "attention.v_lin"),
                ("self_attention.output", "attention.out_lin"),
                ("attention_norm", "sa_layer_norm"),
                ("feed_forward.up", "ffn.lin1"),
                ("feed_forward.down", "ffn.lin2"),
                ("feed_forward_norm", "output_layer_norm"),
            ):
                rules += affine(f"encoder.{layer}.{mine}", either(theirs, other))
        return rules

    def ignored(self, name: str) -> str | None:
        return _POSITIONS if name.endswith("embeddings.position_ids") else None


def _told(v: Values, known: tuple[str, ...]) -> tuple[bool, bool, bool]:
    """(output layer over words, pooler, layer for classes) as the architecture has them."""
    named = next((name for name in v.words("architectures") if name in known), known[0])
    classes = named.endswith("ForSequenceClassification")
    head = named.endswith(("ForMaskedLM", "ForPreTraining"))
    return head, classes or named in ("BertModel", "BertForPreTraining"), classes


def _classes(v: Values) -> int:
    """Number of classes: config.json names each, or none where there are two."""
    labels = v.table("id2label")
    return len(labels.values) or int(v.whole("num_labels", 2))


BERT = _Bert()
DISTILBERT = _DistilBert()
