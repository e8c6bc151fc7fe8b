"""The feed-forward model against its equation, written out token by token in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from budgerigar.models.ancestor_configs import FeedForwardConfig
from budgerigar.models.feed_forward import FeedForward

V, ORDER, M, H = 13, 4, 3, 5


def by_hand(model: FeedForward, tokens: list[int]) -> list[list[float]]:
    """logits = b + W x + U tanh(d + H x), with plain numbers."""
    weights = {name: p.tolist() for name, p in model.named_parameters()}
    rows = []
    for place in range(len(tokens)):
        x: list[float] = []
        for back in range(ORDER - 2, -1, -1):
            at = place - back
            x += (
                weights["embedding.tokens.weight"][tokens[at]]
                if at >= 0
                else weights["embedding.start"]
            )
        hidden = [
            math.tanh(d + sum(h * v for h, v in zip(row, x, strict=True)))
            for row, d in zip(weights["decoder.0.weight"], weights["decoder.0.bias"], strict=True)
        ]
        output = weights.get("head.weight", weights["embedding.tokens.weight"])
        direct = weights.get("head.direct", [[0.0] * len(x)] * V)
        rows.append(
            [
                weights["head.bias"][v]
                + sum(u * h for u, h in zip(output[v], hidden, strict=True))
                + sum(w * e for w, e in zip(direct[v], x, strict=True))
                for v in range(V)
            ]
        )
    return rows


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_is_the_papers_equation(direct: bool, tied: bool) -> None:
    width = M if tied else H
    config = FeedForwardConfig(
        V, ORDER, d_embedding=M, d_hidden=width, direct_connections=direct, tied_embeddings=tied
    )
    model = FeedForward(config, seed=1).double()
    with torch.no_grad():
        for parameter in model.parameters():  # also those that start at 0
            parameter.copy_(torch.randn_like(parameter))
    tokens = torch.randint(0, V, (2, 7), generator=torch.Generator().manual_seed(2))
    expected = torch.tensor([by_hand(model, row) for row in tokens.tolist()], dtype=torch.float64)
    torch.testing.assert_close(model(tokens), expected, rtol=1e-12, atol=1e-12)


def test_sees_a_window_and_nothing_before_it() -> None:
    model = FeedForward(FeedForwardConfig(V, ORDER, d_embedding=M, d_hidden=H))
    read = torch.arange(9)[None]

    def moved(place: int) -> Tensor:
        changed = read.clone()
        changed[0, place] = 12
        return (model(changed) != model(read)).any(-1)[0]

    # the prediction after a token knows it and the two before: three in all
    assert moved(4).tolist() == [4 <= place <= 6 for place in range(9)]


def test_before_the_text_stands_a_vector_of_its_own() -> None:
    model = FeedForward(FeedForwardConfig(V, ORDER, d_embedding=M, d_hidden=H))
    read = torch.tensor([[1, 2, 3, 4]])
    before = model(read)
    with torch.no_grad():
        model.embedding.start += 1.0
    same = (model(read) == before).all(-1)[0]
    assert same.tolist() == [False, False, True, True]
    model(read).sum().backward()
    assert model.embedding.start.grad is not None
    assert float(model.embedding.start.grad.abs().sum()) > 0
