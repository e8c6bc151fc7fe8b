"""A word tokenizer, a byte tokenizer and small networks for the tests of this folder."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from budgerigar.inspection.matrix import Mask, Matrix
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.ancestor_configs import RecurrentConfig
from budgerigar.models.recurrent import Recurrent
from budgerigar.models.rnn_config import RnnEncoderDecoderConfig
from budgerigar.models.rnn_encoder_decoder import RnnEncoderDecoder
from budgerigar.models.transformer import Transformer

STORY = (
    "Xuanyuan had a budgerigar when he was young . It had green feathers . "
    "But he always remembered that budgerigar from his childhood ."
)
CHINESE = "轩辕有一只虎皮鹦鹉，它有绿色的羽毛。"


class Pieces:
    """A tokenizer over a given list of byte pieces, longest match first; id 0 is `<end>`."""

    def __init__(self, pieces: list[bytes], kind: str = "bpe") -> None:
        self.kind, self.pieces = kind, [b"", *pieces]
        self.special_ids = {"<end>": 0}
        self.backend = SimpleNamespace(get_vocab=lambda **_: {})  # no piece goes on inside a word

    @property
    def end_id(self) -> int:
        return 0

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def fingerprint(self) -> str:
        return repr(self.pieces)

    def token_bytes(self, token: int, /) -> bytes:
        return self.pieces[token]

    def encode(self, text: str) -> list[int]:
        data, ids = text.encode(), []
        while data:
            best = max(
                (t for t, p in enumerate(self.pieces) if t and data.startswith(p)),
                key=lambda t: len(self.pieces[t]),
            )
            ids.append(best)
            data = data[len(self.pieces[best]) :]
        return ids


def words(text: str = STORY) -> Pieces:
    """A tokenizer of whole words, each with the blank before it."""
    parts = [" " + word for word in text.split()]
    return Pieces([p.encode() for p in sorted({*parts, text.split()[0]})], kind="word")


def single_bytes() -> Pieces:
    """Every byte is a token."""
    return Pieces([bytes([b]) for b in range(256)], kind="byte")


def network(vocab_size: int, seed: int = 1, **dials: Any) -> Transformer:
    """A small Transformer with weights large enough that heads differ."""
    settings: dict[str, Any] = {
        "vocab_size": vocab_size,
        "context_length": 64,
        "d_model": 16,
        "n_layers": 2,
        "n_heads": 4,
        "initialisation": "normal",
        "init_std": 0.4,
    }
    return Transformer(TransformerConfig(**{**settings, **dials}), seed).eval()


def matrix(
    labels: list[str], seed: int = 0, window: int | None = None, name: str = "L2.H3"
) -> Matrix:
    """Causal weights at random."""
    n = len(labels)
    scores = np.random.default_rng(seed).normal(size=(n, n)) * 2
    i, j = np.indices((n, n))
    reason = np.full((n, n), "", dtype="<U8")
    reason[j > i] = "future"
    if window:
        reason[i - j >= window] = "window"
    weights = np.where(reason == "", np.exp(scores), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return Matrix(weights, labels, labels, Mask.of(reason), name=name, about="a model: a text")


SOURCE, TARGET = "轩辕有一只虎皮鹦鹉", "Xuanyuan has a budgerigar"


def chinese() -> Pieces:
    """A tokenizer of Chinese pieces: words, characters, and one that joins two words."""
    pieces = ["轩辕", "有一", "只", "虎皮", "鹦鹉", "猫", "小梅", "有", "一", "虎", "皮"]
    return Pieces([p.encode() for p in pieces])


def english() -> Pieces:
    """A tokenizer of English pieces, some of them parts of words."""
    pieces = ["Xuan", "yuan", "Mei", " has", " a", " budger", "igar", " cat", " is", " in", " the"]
    return Pieces([p.encode() for p in pieces])


def translator(seed: int = 1, **dials: Any) -> Transformer:
    """A small encoder-decoder between `chinese()` and `english()`, two vocabularies."""
    return network(
        dials.pop("vocab_size", english().vocab_size),
        seed,
        **{
            "assembly": "encoder-decoder",
            "source_vocab_size": chinese().vocab_size,
            "shared_embeddings": False,
            "positions": "sinusoidal",
            "norm_place": "post",
            "decoder_start": 0,
            "context_length": 32,
            **dials,
        },
    )


def recurrent(seed: int = 1, **dials: Any) -> RnnEncoderDecoder:
    """A small recurrent translator between the same, with Bahdanau's attention."""
    settings: dict[str, Any] = {
        "vocab_size": english().vocab_size,
        "source_vocab_size": chinese().vocab_size,
        "shared_embeddings": False,
        "d_embedding": 8,
        "d_hidden": 12,
        "d_attention": 10,
        "context_length": 32,
        "decoder_start": 0,
    }
    model = RnnEncoderDecoder(RnnEncoderDecoderConfig(**{**settings, **dials}), seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():  # weights large enough that places differ
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.6)
    return model


def one_text(cell: str, vocab_size: int, seed: int = 3, **dials: Any) -> Recurrent:
    """A small recurrent language model with weights large enough that gates move."""
    settings = {"d_embedding": 6, "d_hidden": 7, "n_layers": 2, **dials}
    made = Recurrent(RecurrentConfig(vocab_size=vocab_size, cell=cell, **settings), seed).eval()  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.6 * torch.randn(parameter.shape, generator=generator))
    return made


def torch_layer(cell: str, layer: Any) -> torch.nn.RNNBase:
    """The same layer by torch, in float64."""
    kinds: dict[str, Any] = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "elman": torch.nn.RNN}
    twin: torch.nn.RNNBase = kinds[cell](layer.d_input, layer.d_hidden, batch_first=True).double()
    with torch.no_grad():
        for name, part in (("ih", layer.input), ("hh", layer.hidden)):
            getattr(twin, f"weight_{name}_l0").copy_(part.weight)
            getattr(twin, f"bias_{name}_l0").copy_(part.bias)
    return twin
