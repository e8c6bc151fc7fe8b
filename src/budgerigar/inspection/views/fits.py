"""Which views fit which networks: "" where one does, else why not, in words for the page."""

from __future__ import annotations

from typing import Any

from budgerigar.inspection import gates
from budgerigar.inspection.places import places, predicts_words
from budgerigar.inspection.views.look import kind_of
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.ngram import NgramModel


def attends(network: Any) -> str:
    """Attention of any kind."""
    if places(network):
        return ""
    return f"a model of the kind {kind_of(network)} has no attention to look at"


def has_cross(network: Any) -> str:
    """Attention to a source."""
    if any(place.kind == "cross" for place in places(network)):
        return ""
    return "only a translator with attention to its source has an alignment to show"


def has_gates(network: Any) -> str:
    """A recurrent language model."""
    if gates.has_gates(network):
        return ""
    return f"a model of the kind {kind_of(network)} has no gates; an LSTM or a GRU has"


def backs_off(network: Any) -> str:
    """An n-gram."""
    if isinstance(network, NgramModel):
        return ""
    return f"a model of the kind {kind_of(network)} backs off from no context; an n-gram does"


def has_reach(network: Any) -> str:
    """A model that continues a text and has gradients."""
    kind = kind_of(network)
    if kind in ("decoder", "recurrent", "feed-forward"):
        return ""
    if kind == "ngram":
        return "an n-gram has no gradients whose reach could be measured"
    return "the reach of a prediction is measured on models that continue a text"


def writes(network: Any) -> str:
    """A model with a next token."""
    if kind_of(network) != "encoder":
        return ""
    return "an encoder sees a whole text at once and has no next token, so it writes nothing"


def has_stream(network: Any) -> str:
    """A Transformer."""
    if isinstance(network.config, TransformerConfig):
        return ""
    kind = kind_of(network)
    return (
        f"a model of the kind {kind} has no residual stream; only a Transformer's layers add to one"
    )


def reads_out(network: Any) -> str:
    """A Transformer with an output layer over its tokens."""
    if words := has_stream(network):
        return words
    if getattr(network, "head", None) is not None:
        return ""
    return "this model has no output layer over its tokens, so no word is read from its vectors"


def fills(network: Any) -> str:
    """An encoder with an output layer over its tokens."""
    if kind_of(network) != "encoder":
        return "only an encoder tells a hidden token from both sides"
    if predicts_words(network.config):
        return ""
    return "this encoder has no output layer over its words, so it fills nothing in"
