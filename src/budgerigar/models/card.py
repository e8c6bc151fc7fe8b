"""The card of a model: its layers, sizes, memory and FLOPs, from shapes alone. Imports no torch.

`card(config)` for any configuration; `paper_card(name)` for a published shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from budgerigar.layers import shapes
from budgerigar.layers.config import TransformerConfig
from budgerigar.models import ancestor_card, rnn_card
from budgerigar.models.ancestor_configs import FeedForwardConfig, RecurrentConfig
from budgerigar.models.card_words import in_words, quantity
from budgerigar.models.configs import ModelConfig, NgramConfig
from budgerigar.models.papers import paper
from budgerigar.models.rnn_config import RnnEncoderDecoderConfig
from budgerigar.models.word_vectors_config import WordVectorsConfig

_PAIR_FLOPS = "FLOPs: for a pair of a source and a target token, both sides full"


@dataclass(frozen=True)
class Card:
    """Facts of one model, grouped; `as_dict` for JSON, `text` to read."""

    name: str
    words: list[str]
    """what the configuration means, a sentence each"""
    facts: dict[str, dict[str, Any]]
    """section -> fact -> value; sizes in bytes, FLOPs per token, counts as whole numbers"""
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"name": self.name, "in_words": self.words, **self.facts, "notes": self.notes}

    def text(self) -> str:
        """The card as lines of text."""
        lines = [self.name, *(f"  {sentence}" for sentence in self.words)]
        for section, facts in self.facts.items():
            lines += ["", section.replace("_", " ")]
            width = max((len(name) for name in facts), default=0)
            for name, value in facts.items():
                shown = quantity(name, value)
                label = name if section == "sizes" else name.replace("_", " ")
                lines.append(f"  {label:<{width}}  {shown}")
        if self.notes:
            lines += ["", *self.notes]
        return "\n".join(lines)


def card(
    config: ModelConfig,
    name: str = "",
    *,
    batch_size: int = 1,
    notes: tuple[str, ...] = (),
) -> Card:
    """The card of a configuration. `batch_size`: rows at full context, for the memory figures."""
    config.validate()
    if isinstance(config, NgramConfig):
        return _ngram_card(config, name, notes)
    if isinstance(config, WordVectorsConfig):
        return _vectors_card(config, name, notes)
    if isinstance(config, RnnEncoderDecoderConfig):
        facts, words = rnn_card.sections(config, batch_size), rnn_card.in_words(config)
        return Card(name or "rnn-encoder-decoder", words, facts, [*notes, _PAIR_FLOPS])
    if isinstance(config, FeedForwardConfig | RecurrentConfig):
        facts, words = ancestor_card.sections(config, batch_size), ancestor_card.in_words(config)
        kind = "feed-forward" if isinstance(config, FeedForwardConfig) else "recurrent"
        return Card(name or kind, words, facts, list(notes))
    facts = {
        "sizes": _sizes(config),
        "parameters": _parameters(config),
        "cache": _cache(config),
        "memory": _memory(config, batch_size),
        "flops_per_token": _flops(config),
        "attention": _attention(config),
    }
    if config.assembly == "encoder-only":
        del facts["cache"]
    remarks = list(notes)
    if config.assembly == "encoder-decoder":
        remarks.append(_PAIR_FLOPS)
    return Card(name or config.assembly, in_words(config), facts, remarks)


def paper_card(name: str, *, batch_size: int = 1) -> Card:
    """The card of a published shape, with its source."""
    found = paper(name)
    notes = [f"source: {found.source}"]
    notes += [f"the source says: {found.published}"] if found.published else []
    notes += [f"note: {found.note}"] if found.note else []
    return card(found.config, name, batch_size=batch_size, notes=tuple(notes))


def _sizes(c: TransformerConfig) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    if c.encoder_layers:
        sizes["n_encoder_layers"] = c.encoder_layers
    if c.decoder_layers:
        sizes["n_decoder_layers"] = c.decoder_layers
    if c.assembly != "encoder-decoder":
        sizes = {"n_layers": c.n_layers}
    sizes |= {
        "d_model": c.d_model,
        "n_heads": c.n_heads,
        "n_kv_heads": c.kv_heads,
        "d_head": c.head_width,
        "d_ff": c.ff_width,
        "vocab_size": c.vocab_size,
        "context_length": c.context_length,
    }
    return sizes


def _parameters(c: TransformerConfig) -> dict[str, Any]:
    counted = shapes.parameters(c)
    parts = {part: number for part, number in vars(counted).items() if number}
    return {**parts, "total": counted.total, "without_embeddings": counted.without_embeddings}


def _cache(c: TransformerConfig) -> dict[str, Any]:
    full = shapes.cache_bytes(c, c.context_length, c.context_length)
    return {
        "bytes_per_token": shapes.cache_bytes_per_token(c),
        "bytes_at_full_context": full,
        "bytes_at_full_context_16_bit": full // 2,
    }


def _memory(c: TransformerConfig, batch_size: int) -> dict[str, Any]:
    weights = 4 * shapes.parameters(c).total
    return {
        "batch_size": batch_size,
        "weights_bytes": weights,
        "weights_bytes_16_bit": weights // 2,
        "inference_bytes": shapes.inference_bytes(c, batch_size),
        "inference_bytes_16_bit": shapes.inference_bytes(c, batch_size, 2),
        "training_bytes_about": shapes.training_bytes(c, batch_size),
    }


def _flops(c: TransformerConfig) -> dict[str, Any]:
    flops = shapes.flops_per_token(c)
    return {
        "forward": round(flops.forward),
        "of_which_attention_at_full_context": round(flops.attention),
        "backward": round(flops.backward),
        "training": round(flops.training),
    }


def _attention(c: TransformerConfig) -> dict[str, Any]:
    facts = {}
    for name, training in (("running", False), ("training", True)):
        fused, why = shapes.attention_path(c, training)
        facts[name] = f"{'fused' if fused else 'step by step'}: {why}"
    return facts


def _ngram_card(config: NgramConfig, name: str, notes: tuple[str, ...]) -> Card:
    n = config.order
    words = [
        f"{n}-gram: the next token is predicted from the {n - 1} before it, by counting.",
        f"Counts are smoothed ({config.smoothing}); what was never seen falls back to shorter ones.",
    ]
    facts = {"sizes": {"order": n, "vocab_size": config.vocab_size}}
    return Card(name or "n-gram", words, facts, list(notes))


def _vectors_card(config: WordVectorsConfig, name: str, notes: tuple[str, ...]) -> Card:
    skip = config.method == "skip-gram"
    what = "the words around it from a word" if skip else "a word from the mean of those around it"
    most = 2 * config.d_embedding * config.vocab_size
    words = [
        f"Word vectors, {config.method}: learnt by telling {what} (up to {config.window} to each "
        f"side), each against {config.negatives} noise words.",
        "They say which words are alike, and predict no text.",
        "A word has two vectors, as what predicts and as what is predicted; the first is used.",
    ]
    sizes = {"d_embedding": config.d_embedding, "window": config.window}
    sizes |= {"negatives": config.negatives, "vocab_size": config.vocab_size}
    facts: dict[str, dict[str, Any]] = {
        "sizes": sizes,
        "parameters": {"at_most": most},
        "memory": {"weights_bytes_at_most": 4 * most},
    }
    return Card(name or "word-vectors", words, facts, list(notes))
