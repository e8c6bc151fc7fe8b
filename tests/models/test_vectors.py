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


def test_vectors_of_a_decoder_are_what_its_output_layer_reads() -> None:
    model = Transformer(config_of({}), seed=3).eval()
    tokens, lengths = torch.randint(0, 17, (2, 7)), torch.tensor([7, 4])
    with torch.inference_mode():
        vectors = model.vectors(tokens, lengths)
        assert torch.equal(model.head(vectors, model.embedding), model(tokens))  # type: ignore[misc]
        alone = model.vectors(tokens[1:, :4])
    assert torch.allclose(vectors[1:, :4], alone, rtol=1e-4, atol=1e-6)


def test_an_encoder_decoder_has_no_vectors_of_one_text() -> None:
    both = config_of({"assembly": "encoder-decoder"})
    with pytest.raises(UserError, match="encode"):
        Transformer(both).vectors(torch.zeros(1, 2, dtype=torch.long))


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
