"""Small models of every kind, as `bg.load` would give them, for the tests of the page's views."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import toy

from budgerigar.api.encoders import EncoderModel
from budgerigar.api.model import Model
from budgerigar.inspection.views import Look, ask, look_at, unpack
from budgerigar.models.ancestor_configs import FeedForwardConfig
from budgerigar.models.configs import NgramConfig
from budgerigar.models.feed_forward import FeedForward
from budgerigar.models.ngram import NgramModel
from budgerigar.text.sampling import draw_sample
from budgerigar.text.tokenizer import MASK, Tokenizer
from budgerigar.text.tokenizers import build_tokenizer, train_tokenizer

STORY = toy.STORY
SOURCE, TARGET = "轩辕有一只虎皮鹦鹉", "Xuanyuan has a budgerigar"
PAIR = {"source": SOURCE, "target": TARGET}


@cache
def tokenizer(kind: str = "word", end: bool = True) -> Tokenizer:
    """Learnt from the toy texts."""
    return train_tokenizer([STORY, TARGET, SOURCE], kind=kind, end=end)


def decoder(kind: str = "word", **dials: Any) -> Model:
    """A decoder-only Transformer whose heads differ."""
    reader = tokenizer(kind)
    network = toy.network(reader.vocab_size, **{"context_length": 128, **dials})
    return Model(network, reader, {"text": {"starts_documents": True}})


def encoder(**dials: Any) -> Model:
    """An encoder that fills in words."""
    reader = build_tokenizer(draw_sample([STORY], 10**6, 0), "word", None, True, (MASK,))
    network = toy.network(reader.vocab_size, assembly="encoder-only", **dials)
    return EncoderModel(network, reader, {"text": {"starts_documents": True}})


def translator(**dials: Any) -> Model:
    """An encoder-decoder Transformer over one vocabulary of bytes and words."""
    reader = tokenizer("bpe")
    settings = {"assembly": "encoder-decoder", "norm_place": "post", "decoder_start": None}
    network = toy.network(
        reader.vocab_size, **{**settings, "decoder_start": reader.end_id, **dials}
    )
    return Model(network, reader, source_tokenizer=reader)


def recurrent_translator(**dials: Any) -> Model:
    """A recurrent one with Bahdanau's attention."""
    reader = tokenizer("bpe")
    sizes = {"vocab_size": reader.vocab_size, "source_vocab_size": reader.vocab_size}
    network = toy.recurrent(**{**sizes, "decoder_start": reader.end_id, **dials})
    return Model(network, reader, source_tokenizer=reader)


def recurrent(cell: str = "lstm") -> Model:
    """A recurrent language model."""
    reader = tokenizer()
    network = toy.one_text(cell, reader.vocab_size)
    return Model(network, reader, {"text": {"starts_documents": True}})


def ngram(order: int = 3) -> Model:
    """Counted on the story."""
    reader = tokenizer()
    ids = np.array(reader.encode(STORY))
    network = NgramModel.fit(ids, NgramConfig(reader.vocab_size, order), end_id=reader.end_id)
    return Model(network, reader, {"text": {"starts_documents": True}})


def feed_forward() -> Model:
    """Bengio's of 2003."""
    reader = tokenizer()
    network = FeedForward(FeedForwardConfig(reader.vocab_size, 4, d_embedding=6, d_hidden=8), 1)
    return Model(network.eval(), reader, {"text": {"starts_documents": True}})


MODELS: dict[str, Any] = {
    "decoder": decoder,
    "encoder": encoder,
    "encoder-decoder": translator,
    "rnn-encoder-decoder": recurrent_translator,
    "recurrent": recurrent,
    "ngram": ngram,
    "feed-forward": feed_forward,
}


def question(kind: str) -> dict[str, Any]:
    """What such a model is asked about."""
    return dict(PAIR) if kind in ("encoder-decoder", "rnn-encoder-decoder") else {"text": STORY}


def look(kind: str, **dials: Any) -> Look:
    """A model of that kind, looked at."""
    return look_at(MODELS[kind](**dials), question(kind))


def view(looked: Look, name: str, **params: Any) -> Any:
    """What the page would get, unpacked."""
    return unpack(ask(looked, name, params))


def sites(looked: Look) -> list[tuple[str, str]]:
    """The kinds of attention of its trace."""
    return [(site.of, site.kind) for site in looked.trace.sites]
