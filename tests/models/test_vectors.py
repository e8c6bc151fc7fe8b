"""Encoders that give vectors: without an output layer, with BERT's pooler; networks still unfilled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from dials import config_of

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.taps import Taps
from budgerigar.models.transformer import Transformer


def encoder(**more: Any) -> TransformerConfig:
    return config_of(
        {"positions": "learned", "norm_place": "post"}, assembly="encoder-only", **more
    )


def test_without_a_head_the_vectors_are_what_comes_out() -> None:
    bare = Transformer(encoder(token_head=False), seed=3).eval()
    assert not [name for name, _ in bare.named_parameters() if name.startswith("head")]
    headed = Transformer(encoder(), seed=3).eval()
    headed.load_state_dict(bare.state_dict())
    tokens, lengths = torch.randint(0, 17, (2, 7)), torch.tensor([7, 4])
    taps = Taps(["*"])
    with torch.inference_mode():
        vectors = headed.vectors(tokens, lengths)
        assert vectors.shape == (2, 7, 16)
        assert torch.equal(bare(tokens, lengths, taps=taps), vectors)
        assert torch.equal(taps.values["encoder.1.residual_after"], vectors)
        assert "logits" not in taps.values
        assert torch.allclose(headed(tokens, lengths), vectors @ headed.embedding.tokens.weight.T)


def test_the_pooler_is_a_tanh_of_the_first_position() -> None:
    model = Transformer(encoder(pooler=True), seed=3).eval()
    assert model.pooler is not None
    vectors = torch.randn(3, 5, 16)
    with torch.inference_mode():
        want = torch.tanh(vectors[:, 0] @ model.pooler.weight.T + model.pooler.bias)
        assert torch.allclose(model.pooled(vectors), want)
    with pytest.raises(UserError, match="mean"):
        Transformer(encoder()).pooled(vectors)


def test_a_decoder_has_no_vectors_of_a_text() -> None:
    with pytest.raises(UserError, match="decoder-only"):
        Transformer(config_of({})).vectors(torch.zeros(1, 2, dtype=torch.long))


@pytest.mark.parametrize("positions", ["rotary", "alibi", "relative", "learned"])
def test_an_unfilled_network_takes_weights_and_has_its_constants(positions: str) -> None:
    config = config_of({"positions": positions})
    filled, unfilled = Transformer(config, seed=4).eval(), Transformer.unfilled(config).eval()
    assert all(weight.is_meta for weight in unfilled.parameters())
    assert not any(constant.is_meta for constant in unfilled.buffers())
    unfilled.load_state_dict(filled.state_dict(), assign=True)
    tokens = torch.randint(0, 17, (2, 7))
    with torch.inference_mode():
        assert torch.equal(filled(tokens), unfilled(tokens))
