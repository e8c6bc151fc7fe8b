"""Models whose weights are set by hand, small enough to check with a pencil; the layers are the
same as everywhere.

`apple`: "the dear black apple". Attention gathers what the words say about the apple; only the
feed-forward can combine it: dear AND black is a computer, dear or black alone decides nothing.

`it`: "Xuanyuan has a budgerigar ; it has green feathers ." One head of width 8 asks, from *it*, for
an animal that was spoken of; the four steps of attention in numbers that fit on a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.taps import Taps
from budgerigar.models.transformer import Transformer

APPLE_WORDS = ("the", "dear", "black", "apple", "fruit", "tech")
APPLE_FEATURES = ("price", "black", "fruit", "tech")
"""what the first four numbers of the residual stream mean"""

# The word vectors: price, black, fruit, tech; then what the heads look for: whether the word asks
# about itself, speaks of a price, speaks of a colour, or is where a head rests that finds nothing.
_APPLE_VECTORS = (
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),  # the
    (0.8, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0),  # dear
    (0.0, 0.8, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0),  # black
    (0.1, 0.1, 0.6, 0.6, 1.0, 0.0, 0.0, 0.0),  # apple
    (0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # fruit
    (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0),  # tech
)
_ASKS, _REST = 4, 7  # numbers of the residual stream
_SOUGHT = (5, 6)  # by head 0 and head 1
# nothing but attention and the feed-forward
_BARE: dict[str, Any] = {
    "positions": "none", "qkv_bias": False, "output_bias": False, "tied_embeddings": False,
}  # fmt: skip
_FOUND, _RESTS = 60.0, 30.0  # scores: what a head looks for, and where it rests; others get 0


@dataclass(frozen=True)
class Worked:
    """A hand-set network and the names of its tokens and of its first numbers."""

    network: Transformer
    words: tuple[str, ...]
    features: tuple[str, ...]

    def ids(self, sentence: str) -> Tensor:
        """(1,T) int64: the words' numbers.

        Raises:
            UserError: a word that this model does not know.
        """
        unknown = [word for word in sentence.split() if word not in self.words]
        if unknown or not sentence.strip():
            raise UserError(
                f"this hand-set model knows only the words {', '.join(self.words)}"
                + (f", not {unknown[0]!r}" if unknown else "; give it some of them")
            )
        return torch.tensor([[self.words.index(word) for word in sentence.split()]])


@dataclass(frozen=True)
class WorkedSteps:
    """The features of the last word at three places of the block, each (F,) float32."""

    before: Tensor
    after_attention: Tensor
    after_feed_forward: Tensor
    weights: Tensor
    """(H,T): where each head looked from the last word"""


def without_norms(network: Transformer) -> Transformer:
    """Take every normalization out of `network`, for arithmetic by hand and for showing what it does.

    Returns the same network, changed.
    """
    for stack in (network.encoder, network.decoder):
        if stack is None:
            continue
        stack.final_norm = None
        for block in stack.blocks():
            for name in ("attention_norm", "cross_attention_norm", "feed_forward_norm"):
                setattr(block, name, None)
    return network


def _zeros(config: TransformerConfig) -> Transformer:
    """A network without norms whose every weight is 0."""
    network = without_norms(Transformer(config)).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.zero_()
    return network


def apple(
    threshold: float = 1.3, to_fruit: float = -1.0, to_tech: float = 0.7, feed_forward: bool = True
) -> Worked:
    """The model of "the dear black apple".

    One layer, two heads of width 1, one ReLU unit: relu(price + black - threshold), which adds
    `to_fruit` of itself to fruit and `to_tech` to tech. Without `feed_forward` the unit is silent.
    """
    config = TransformerConfig(
        vocab_size=len(APPLE_WORDS),
        context_length=8,
        d_model=len(_APPLE_VECTORS[0]),
        n_layers=1,
        n_heads=2,
        d_head=1,
        d_ff=1,
        activation="relu",
        **_BARE,
    )
    network = _zeros(config)
    network.embedding.tokens.weight.copy_(torch.tensor(_APPLE_VECTORS))
    assert network.decoder is not None
    block = next(network.decoder.blocks())
    attention, unit = block.self_attention, block.feed_forward
    attention.query.weight[:, _ASKS] = 1.0
    for head, sought in enumerate(_SOUGHT):
        attention.key.weight[head, sought] = _FOUND
        attention.key.weight[head, _REST] = _RESTS
        attention.value.weight[head, head] = 1.0  # head 0 brings price, head 1 brings black
        attention.output.weight[head, head] = 1.0
    if feed_forward:
        unit.up.weight[0, :2] = 1.0
        unit.up.bias[0] = -threshold
        unit.down.weight[2, 0], unit.down.weight[3, 0] = to_fruit, to_tech
    _read_meaning(network)
    return Worked(network, APPLE_WORDS, APPLE_FEATURES)


def _read_meaning(network: Transformer) -> None:
    """The logits of the words "fruit" and "tech" are the features of these names."""
    assert network.head is not None
    weight = network.head.weight
    assert weight is not None
    for feature in ("fruit", "tech"):
        weight[APPLE_WORDS.index(feature), APPLE_FEATURES.index(feature)] = 1.0


@torch.inference_mode()
def worked_steps(model: Worked, sentence: str) -> WorkedSteps:
    """What the last word of `sentence` is before the block, after attention, after the feed-forward."""
    names = {part: f"decoder.0.residual_{part}" for part in ("before", "middle", "after")}
    taps = Taps([*names.values(), "decoder.0.self_attention.*"])
    # steps one by one, so that the weights can be seen
    taps.replacements["decoder.0.self_attention.scores"] = lambda scores: scores
    model.network(model.ids(sentence), taps=taps)
    features = len(model.features)
    before, middle, after = (taps.values[name][0, -1, :features] for name in names.values())
    weights = taps.values["decoder.0.self_attention.weights"][0, :, -1]
    return WorkedSteps(before, middle, after, weights)


def is_undecided(features: Sequence[float], tolerance: float = 1e-6) -> bool:
    """Whether fruit and tech (the last two features) say the same."""
    return abs(features[-2] - features[-1]) <= tolerance


# -- it --------------------------------------------------------------------------------------------

IT_WORDS = ("Xuanyuan", "has", "budgerigar", "green", "it")
"""The key of "it" stands for itself and for the rest of the sentence (a ; feathers .)."""
IT_FEATURES = ("animal", "thing", "person", "action", "colour", "one", "named", "anything")
"""what the 8 numbers of a key and of a value mean"""
IT_QUERY = (3.0, 2.0, 0.5, -1.0, 0.5, 1.0, 1.0, 0.25)
"""what "it" asks for: how much each of the features counts"""
IT_KEYS: dict[str, tuple[float, ...]] = {
    "Xuanyuan": (0.0, 0.0, 1.0, 0.0, 0.0, 0.45, 0.0, 1.0),
    "has": (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.09, 1.0),
    "budgerigar": (1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.55, 1.0),
    "green": (0.0, 0.0, 0.0, 0.0, 0.6, 0.0, 0.25, 1.0),
    "it": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
}
"""word -> what it offers; query . key: 1.2, -0.66, 6.8, 0.8 and 0.25"""


def it(scores: Mapping[str, float] | None = None, divided: bool = True) -> Worked:
    """The model of "it": one layer, one head of width 8, no feed-forward, every token sees all.

    scores: word -> raw score (query . key) where it is not to be IT_KEYS' own; its key then offers as
    much more or less of "anything". divided: by sqrt(8), as attention is.

    Raises:
        UserError: a score of a word that the model does not have.
    """
    if unknown := set(scores or ()) - set(IT_WORDS):
        raise UserError(f"the words of this model are {', '.join(IT_WORDS)}, not {min(unknown)!r}")
    width = len(IT_FEATURES)
    config = TransformerConfig(
        assembly="encoder-only",
        vocab_size=len(IT_WORDS),
        context_length=8,
        d_model=width + 1,  # and whether the word is the one that asks
        n_layers=1,
        n_heads=1,
        d_head=width,
        d_ff=1,
        attention_scale="sqrt" if divided else "none",
        **_BARE,
    )
    network = _zeros(config)
    for row, word in enumerate(IT_WORDS):
        key = list(IT_KEYS[word])
        if scores and word in scores:
            own = sum(a * b for a, b in zip(IT_QUERY, key, strict=True))
            key[-1] += (scores[word] - own) / IT_QUERY[-1]
        asks = float(word == "it")
        network.embedding.tokens.weight[row] = torch.tensor([*key, asks])
    assert network.encoder is not None
    attention = next(network.encoder.blocks()).self_attention
    attention.query.weight[:, width] = torch.tensor(IT_QUERY)
    attention.key.weight[:, :width] = torch.eye(width)
    attention.value.weight[:, :width] = torch.eye(width)
    attention.output.weight[:width] = torch.eye(width)
    return Worked(network, IT_WORDS, IT_FEATURES)


@dataclass(frozen=True)
class ItSteps:
    """The four steps from "it", each (5,) by IT_WORDS; output (8,): what "it" takes along."""

    scores: Tensor
    scaled: Tensor
    weights: Tensor
    output: Tensor


@torch.inference_mode()
def it_steps(model: Worked) -> ItSteps:
    """What the model computes for "it" in its own sentence."""
    taps = Taps(["encoder.0.self_attention.*"])
    taps.replacements["encoder.0.self_attention.scores"] = lambda scores: scores
    model.network(model.ids(" ".join(IT_WORDS)), taps=taps)
    got = {name.rsplit(".", 1)[-1]: value for name, value in taps.values.items()}
    row = len(IT_WORDS) - 1
    scores, weights, output = (got[n][0, 0, row] for n in ("scores", "weights", "head_output"))
    return ItSteps(scores, scores * model.network.config.scale, weights, output)
