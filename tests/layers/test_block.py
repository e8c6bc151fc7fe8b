"""Where the norms of a block stand, by formula; pre and post against torch.nn: test_torch_nn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from budgerigar.layers.block import Block
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.visibility import View


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
