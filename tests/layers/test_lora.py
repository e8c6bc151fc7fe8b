"""Adapters: nothing at first, gradients of the dense product, merged the same; what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.linear import Linear
from budgerigar.layers.lora import (
    TARGETS,
    LoraLinear,
    add_adapters,
    has_adapters,
    is_adapter,
    merged,
    targets_of,
)
from budgerigar.layers.packed_linear import PackedLinear, PackedMatrix
from budgerigar.models.transformer import Transformer

CONFIG = TransformerConfig(
    vocab_size=40, context_length=16, d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=24,
    activation="swiglu", positions="rotary", norm="rms", qkv_bias=False, output_bias=False,
    ff_bias=False,
)  # fmt: skip


def packed(rows: int = 6, columns: int = 64, minima: bool = True) -> PackedMatrix:
    draw = torch.Generator().manual_seed(3)
    codes = torch.randint(-8, 8, (rows, columns), generator=draw, dtype=torch.int8)
    scales = torch.rand(rows, columns // 32, generator=draw).half()
    low = torch.randn(rows, columns // 32, generator=draw).half() if minima else None
    return PackedMatrix(codes, scales, low)


def shaken(network: nn.Module) -> nn.Module:
    """With adapters as after many updates."""
    draw = torch.Generator().manual_seed(5)
    for name, weight in network.named_parameters():
        if is_adapter(name):
            weight.data = 0.3 * torch.randn(weight.shape, generator=draw)
    return network


def tokens() -> Tensor:
    return torch.randint(0, 40, (3, 12), generator=torch.Generator().manual_seed(1))


def test_before_its_first_update_it_is_the_base_to_the_last_bit() -> None:
    network = Transformer(CONFIG, seed=2).eval()
    with torch.no_grad():
        before = network(tokens())
        assert add_adapters(network, 4, 8.0, TARGETS) == 2 * 7
        assert torch.equal(network(tokens()), before)


def test_only_adapters_are_learnt_and_each_gets_a_gradient() -> None:
    network = Transformer(CONFIG, seed=2)
    state = torch.get_rng_state()
    add_adapters(network, 4, 8.0, TARGETS)
    assert torch.equal(torch.get_rng_state(), state)
    learnt = {n for n, p in network.named_parameters() if p.requires_grad}
    assert learnt == {n for n, _ in network.named_parameters() if is_adapter(n)}
    shaken(network)
    network(tokens()).square().mean().backward()
    for name, weight in network.named_parameters():
        assert (weight.grad is not None) == (name in learnt)
        assert weight.grad is None or float(weight.grad.abs().max()) > 0


@pytest.mark.parametrize("minima", [True, False])
def test_gradients_over_a_quantised_matrix_are_those_of_the_dense_product(minima: bool) -> None:
    adapted = LoraLinear(PackedLinear(packed(minima=minima), torch.randn(6)), rank=2, alpha=3.0)
    draw = torch.Generator().manual_seed(0)
    for weight in (adapted.lora_down, adapted.lora_up):
        weight.data = torch.randn(weight.shape, generator=draw)
    x = torch.randn(2, 5, 64, generator=draw).requires_grad_(True)
    outer = torch.randn(2, 5, 6, generator=draw)
    (adapted(x) * outer).sum().backward()

    dense = adapted.base.weight.double().detach()
    down, up, other = (
        t.detach().double().requires_grad_(True) for t in (adapted.lora_down, adapted.lora_up, x)
    )
    assert adapted.bias is not None
    wanted = other @ (dense + 1.5 * up @ down).T + adapted.bias.double()
    torch.testing.assert_close(adapted(x).double(), wanted, rtol=1e-5, atol=1e-4)
    (wanted * outer.double()).sum().backward()
    for ours, theirs in ((adapted.lora_down, down), (adapted.lora_up, up), (x, other)):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-4)


def test_merged_gives_the_same_logits_and_leaves_the_original_alone() -> None:
    network = Transformer(CONFIG, seed=2).eval()
    add_adapters(network, 4, 8.0, ("query", "up"))
    shaken(network)
    one = merged(network)
    assert has_adapters(network)
    assert not has_adapters(one)
    with torch.no_grad():
        ours, theirs = one(tokens()), network(tokens())
    assert float((ours - theirs).abs().max()) < 1e-4 * float(theirs.abs().max())
    assert one.get_parameter("decoder.0.self_attention.key.weight") is network.get_parameter(
        "decoder.0.self_attention.key.weight"
    )
    assert set(one.state_dict()) == set(Transformer(CONFIG, seed=2).state_dict())
    plain = Transformer(CONFIG, seed=2)
    assert merged(plain) is plain


def test_merging_multiplies_a_quantised_matrix_out() -> None:
    adapted = LoraLinear(PackedLinear(packed()), rank=2, alpha=2.0)
    adapted.lora_up.data.normal_()
    adapted.lora_down.data.normal_()
    one = merged(nn.Sequential(adapted))
    assert isinstance(one[0], Linear)  # type: ignore[index]
    x = torch.randn(3, 64)
    with torch.no_grad():
        torch.testing.assert_close(one(x), adapted(x), rtol=1e-4, atol=1e-4)


def test_layers_computed_again_give_the_same_gradients() -> None:
    config = CONFIG.replace(dropout_residual=0.2)
    found = []
    for again in (False, True):
        network = Transformer(config, seed=2).train()
        assert network.decoder is not None
        network.decoder.recompute = again
        torch.manual_seed(7)
        network(tokens()).square().mean().backward()
        found.append({n: p.grad for n, p in network.named_parameters()})
    assert all(torch.equal(found[0][n], found[1][n]) for n in found[0])  # type: ignore[arg-type]


def test_targets_by_name_and_by_group() -> None:
    assert targets_of(None) == TARGETS
    assert targets_of("up, attention") == ("query", "key", "value", "output", "up")
    for words in ("attention,heads", ","):
        with pytest.raises(UserError, match="query, key"):
            targets_of(words)
    with pytest.raises(UserError, match="gate"):
        add_adapters(Transformer(CONFIG.replace(activation="gelu")), 2, 2.0, ("gate",))
