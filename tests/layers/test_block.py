"""Blocks against torch.nn's layers on copied weights, masks included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from budgerigar.layers.block import Block
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.visibility import View


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
    theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.parametrize("place", ["pre", "post"])
def test_encoder_layer(place: str) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(d_model=16, n_heads=2, positions="none", norm_place=place)
    ours = Block(config, 0, "b").double()
    theirs = nn.TransformerEncoderLayer(
        16, 2, 64, 0.0, "gelu", batch_first=True, norm_first=place == "pre"
    ).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        copy_attention(ours.self_attention, theirs.self_attn)
        theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.down.state_dict())
        theirs.norm1.load_state_dict(ours.attention_norm.state_dict())
        theirs.norm2.load_state_dict(ours.feed_forward_norm.state_dict())
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    lengths = torch.tensor([5, 3])
    valid = torch.arange(5)[None] < lengths[:, None]
    positions = torch.arange(5)[None]
    out = ours(x, View(positions, positions, causal=False, key_valid=valid))
    want = theirs(x, src_key_padding_mask=~valid)
    torch.testing.assert_close(out[valid], want[valid], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_decoder_layer(place: str) -> None:
    torch.manual_seed(1)
    config = TransformerConfig(
        assembly="encoder-decoder", d_model=16, n_heads=2, positions="none", norm_place=place
    )
    ours = Block(config, 0, "b", cross=True).double()
    theirs = nn.TransformerDecoderLayer(
        16, 2, 64, 0.0, "gelu", batch_first=True, norm_first=place == "pre"
    ).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        copy_attention(ours.self_attention, theirs.self_attn)
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.down.state_dict())
        theirs.norm1.load_state_dict(ours.attention_norm.state_dict())
        theirs.norm2.load_state_dict(ours.cross_attention_norm.state_dict())
        theirs.norm3.load_state_dict(ours.feed_forward_norm.state_dict())
    x, source = (torch.randn(2, n, 16, dtype=torch.float64) for n in (4, 6))
    valid = torch.arange(6)[None] < torch.tensor([6, 2])[:, None]
    positions, keys = torch.arange(4)[None], torch.arange(6)[None]
    out = ours(
        x,
        View(positions, positions, causal=True, aligned=True),
        memory=ours.cross_attention.memory(source),
        memory_view=View(positions, keys, causal=False, key_valid=valid),
    )
    hidden = torch.ones(4, 4).triu(1).bool()
    want = theirs(x, source, tgt_mask=hidden, memory_key_padding_mask=~valid)
    torch.testing.assert_close(out, want, rtol=1e-9, atol=1e-9)


def test_places_by_formula() -> None:
    torch.manual_seed(2)
    x = torch.randn(1, 3, 8)
    view = View(torch.arange(3)[None], torch.arange(3)[None], causal=True, aligned=True)

    def build(**dials: object) -> Block:
        base = TransformerConfig(d_model=8, n_heads=2, positions="none", norm="rms", **dials)
        block = Block(base, 0, "b")
        for parameter in block.parameters():
            nn.init.normal_(parameter, mean=0.5, std=0.3)
        return block

    def attend(block: Block, value: Tensor) -> Tensor:
        return block.self_attention(value, view)

    b = build(norm_place="sandwich")
    middle = x + b.attention_output_norm(attend(b, b.attention_norm(x)))
    want = middle + b.feed_forward_output_norm(b.feed_forward(b.feed_forward_norm(middle)))
    torch.testing.assert_close(b(x, view), want)
    b = build(norm_place="output")
    middle = x + b.attention_norm(attend(b, x))
    torch.testing.assert_close(b(x, view), middle + b.feed_forward_norm(b.feed_forward(middle)))
    b = build(parallel_residual=True)
    read = b.attention_norm(x)
    torch.testing.assert_close(b(x, view), x + attend(b, read) + b.feed_forward(read))
    b = build(residual=False)
    middle = attend(b, b.attention_norm(x))
    torch.testing.assert_close(b(x, view), b.feed_forward(b.feed_forward_norm(middle)))
