"""Our attention, layers and whole encoder-decoder against torch.nn on copied weights, masks included.

Shapes: B batch, T target or query positions, S source or key positions, D d_model.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from budgerigar.layers.attention import Attention
from budgerigar.layers.block import Block
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.taps import Taps
from budgerigar.layers.visibility import View
from budgerigar.models.transformer import Transformer

# torch.nn says that it cannot use its nested tensors with norm_first: a matter of its speed
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

WIDTH, HEADS = 24, 4
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
PRECISIONS = [torch.float32, torch.float64]
# (B, T, S): one position, one row, primes, more targets than sources and the other way round
SHAPES = [(1, 1, 1), (1, 7, 3), (3, 5, 11), (2, 13, 2), (5, 2, 7)]
LOOKS = ["unseen", "looked at", "step by step"]


def close(ours: Tensor, theirs: Tensor) -> None:
    """1e-5 of the largest value in float32, 1e-12 in float64."""
    assert ours.shape == theirs.shape
    assert torch.isfinite(ours).all()
    difference = (ours - theirs).abs().max()
    assert difference <= TOLERANCE[ours.dtype] * theirs.abs().max().clamp(min=1.0), difference


def looks(how: str) -> Taps | None:
    """Nobody looks; a tap records everything; a replaced weight takes the explicit path."""
    if how == "unseen":
        return None
    return Taps("*", replace={"*.weights": lambda w: w} if how == "step by step" else None)


def config_of(**dials: Any) -> TransformerConfig:
    base: dict[str, Any] = {"d_model": WIDTH, "n_heads": HEADS, "d_ff": 40, "positions": "none"}
    return TransformerConfig(**{**base, **dials})


def shaken(module: nn.Module, dtype: torch.dtype, seed: int) -> Any:
    """The module in a precision, with weights, biases and norms that are all far from their start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            mean = 0.8 if parameter.dim() == 1 else 0.0
            parameter.copy_(torch.empty(parameter.shape).normal_(mean, 0.2, generator=generator))
    return module.to(dtype).eval()


def noise(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def ragged(rows: int, width: int, seed: int = 0) -> Tensor:
    """(B,) lengths from 1 to `width`, the longest among them."""
    lengths = torch.randint(1, width + 1, (rows,), generator=torch.Generator().manual_seed(seed))
    lengths[0] = width
    return lengths


def real(lengths: Tensor, width: int) -> Tensor:
    """(B,width) boolean: not padding."""
    return torch.arange(width)[None] < lengths[:, None]


def hidden_future(length: int) -> Tensor:
    """torch.nn's way to say causal: True where a query must not look."""
    return torch.ones(length, length).triu(1).bool()


def self_view(length: int, causal: bool, valid: Tensor | None) -> View:
    positions = torch.arange(length)[None]
    plain = valid is None
    return View(
        positions, positions, causal, causal and plain, plain and not causal, key_valid=valid
    )


def cross_view(queries: int, keys: int, valid: Tensor | None) -> View:
    positions = torch.arange(queries)[None], torch.arange(keys)[None]
    return View(*positions, causal=False, sees_all=valid is None, key_valid=valid)


def copy_attention(ours: Any, theirs: Any) -> None:
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_layer(ours: Any, theirs: Any, cross: bool) -> None:
    """A block's weights into a torch.nn.TransformerEncoderLayer or DecoderLayer."""
    copy_attention(ours.self_attention, theirs.self_attn)
    norms = [ours.attention_norm, ours.feed_forward_norm]
    if cross:
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        norms.insert(1, ours.cross_attention_norm)
    theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.down.state_dict())
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


# -- attention ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", LOOKS)
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_self_attention(causal: bool, padded: bool, dtype: torch.dtype, how: str) -> None:
    ours = shaken(Attention(config_of(), 0, "a"), dtype, 1)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype).eval()
    copy_attention(ours, theirs)
    for batch, length, _ in SHAPES:
        x = noise(batch, length, WIDTH, dtype=dtype, seed=length)
        valid = real(ragged(batch, length), length) if padded else None
        want, weights = theirs(
            x,
            x,
            x,
            key_padding_mask=None if valid is None else ~valid,
            attn_mask=hidden_future(length) if causal else None,
            average_attn_weights=False,
        )
        taps = looks(how)
        close(ours(x, self_view(length, causal, valid), taps=taps), want)
        if how == "step by step":
            close(taps.values["a.weights"], weights)


@pytest.mark.parametrize("how", LOOKS)
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_cross_attention(padded: bool, dtype: torch.dtype, how: str) -> None:
    """Queries from the decoder, keys and values from the encoder."""
    ours = shaken(Attention(config_of(), 0, "a", cross=True), dtype, 2)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype).eval()
    copy_attention(ours, theirs)
    for batch, length, width in SHAPES:
        x = noise(batch, length, WIDTH, dtype=dtype, seed=length)
        source = noise(batch, width, WIDTH, dtype=dtype, seed=100 + width)
        valid = real(ragged(batch, width), width) if padded else None
        hidden = None if valid is None else ~valid
        want, weights = theirs(
            x, source, source, key_padding_mask=hidden, average_attn_weights=False
        )
        taps = looks(how)
        view = cross_view(length, width, valid)
        close(ours(x, view, memory=ours.memory(source), taps=taps), want)
        if how == "step by step":
            close(taps.values["a.weights"], weights)


@pytest.mark.parametrize("how", LOOKS)
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_rows_that_see_nothing_are_zero_where_torch_has_nan(dtype: torch.dtype, how: str) -> None:
    """A source of no tokens. torch.nn gives NaN there as soon as its weights are asked for."""
    ours = shaken(Attention(config_of(), 0, "a", cross=True), dtype, 3)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype).eval()
    copy_attention(ours, theirs)
    x, source = noise(2, 3, WIDTH, dtype=dtype), noise(2, 5, WIDTH, dtype=dtype, seed=1)
    valid = real(torch.tensor([5, 0]), 5)
    want, _ = theirs(x, source, source, key_padding_mask=~valid)
    assert want[1].isnan().all()
    taps = looks(how)
    out = ours(x, cross_view(3, 5, valid), memory=ours.memory(source), taps=taps)
    close(out[0], want[0])
    # what remains is the bias of the output projection: nothing was read
    assert torch.equal(out[1], ours.output.bias.expand(3, WIDTH))
    if taps is not None:
        assert (taps.values["a.head_output"][1] == 0).all()
    if how == "step by step":
        assert (taps.values["a.weights"][1] == 0).all()


def test_rows_that_see_nothing_have_finite_gradients() -> None:
    """Also step by step; and what is not seen gets a gradient of exactly zero."""
    for how in LOOKS:
        ours = shaken(Attention(config_of(), 0, "a", cross=True), torch.float32, 3).train()
        x = noise(2, 3, WIDTH, dtype=torch.float32).requires_grad_()
        source = noise(2, 5, WIDTH, dtype=torch.float32, seed=1).requires_grad_()
        view = cross_view(3, 5, real(torch.tensor([4, 0]), 5))
        ours(x, view, memory=ours.memory(source), taps=looks(how)).square().sum().backward()
        gradients = [x.grad, source.grad, *(p.grad for p in ours.parameters())]
        assert all(g is not None and torch.isfinite(g).all() for g in gradients)
        assert (source.grad[1] == 0).all()
        assert (source.grad[0, 4] == 0).all()
        assert (source.grad[0, :4] != 0).any()


# -- layers ------------------------------------------------------------------------------------------
LAYERS = list(itertools.product(["pre", "post"], ["relu", "gelu"], PRECISIONS))


@pytest.mark.parametrize(("place", "activation", "dtype"), LAYERS)
def test_encoder_layer(place: str, activation: str, dtype: torch.dtype) -> None:
    config = config_of(norm_place=place, activation=activation)
    ours = shaken(Block(config, 0, "b", both_ways=True), dtype, 4)
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 40, 0.0, activation, batch_first=True, norm_first=place == "pre", dtype=dtype
    )
    copy_layer(ours, theirs, cross=False)
    for (batch, length, _), how in itertools.product(SHAPES, LOOKS):
        x = noise(batch, length, WIDTH, dtype=dtype, seed=length)
        valid = real(ragged(batch, length), length)
        # in training mode torch takes its plain path, which does not blank padded rows
        want = theirs(x, src_key_padding_mask=~valid)
        close(ours(x, self_view(length, False, valid), taps=looks(how)), want)
        close(ours(x, self_view(length, False, None), taps=looks(how)), theirs(x))
        want = theirs(x, src_mask=hidden_future(length), src_key_padding_mask=~valid)
        close(ours(x, self_view(length, True, valid), taps=looks(how)), want)


@pytest.mark.parametrize(("place", "activation", "dtype"), LAYERS)
def test_decoder_layer(place: str, activation: str, dtype: torch.dtype) -> None:
    config = config_of(norm_place=place, activation=activation, assembly="encoder-decoder")
    ours = shaken(Block(config, 0, "b", cross=True), dtype, 5)
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, 40, 0.0, activation, batch_first=True, norm_first=place == "pre", dtype=dtype
    )
    copy_layer(ours, theirs, cross=True)
    for (batch, length, width), how in itertools.product(SHAPES, LOOKS):
        x = noise(batch, length, WIDTH, dtype=dtype, seed=length)
        source = noise(batch, width, WIDTH, dtype=dtype, seed=100 + width)
        valid = real(ragged(batch, width), width)
        memory = ours.cross_attention.memory(source)
        out = ours(
            x,
            self_view(length, True, None),
            memory=memory,
            memory_view=cross_view(length, width, valid),
            taps=looks(how),
        )
        hidden = hidden_future(length)
        close(out, theirs(x, source, tgt_mask=hidden, memory_key_padding_mask=~valid))
        targets = real(ragged(batch, length, seed=1), length)
        out = ours(
            x,
            self_view(length, True, targets),
            memory=memory,
            memory_view=cross_view(length, width, None),
            taps=looks(how),
        )
        want = theirs(x, source, tgt_mask=hidden, tgt_key_padding_mask=~targets)
        close(out, want)


# -- the whole encoder-decoder -----------------------------------------------------------------------
def both(place: str, activation: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """Our Transformer and torch.nn's with its weights; theirs has a final norm in post-norm too."""
    config = config_of(
        assembly="encoder-decoder",
        n_encoder_layers=3,
        n_decoder_layers=2,
        norm_place=place,
        activation=activation,
        final_norm=True,
        vocab_size=19,
    )
    ours = shaken(Transformer(config), dtype, 6)
    theirs = nn.Transformer(
        *(WIDTH, HEADS, 3, 2, 40, 0.0, activation),
        batch_first=True,
        norm_first=place == "pre",
        dtype=dtype,
    )
    for mine, other in zip(ours.encoder.blocks(), theirs.encoder.layers, strict=True):
        copy_layer(mine, other, cross=False)
    for mine, other in zip(ours.decoder.blocks(), theirs.decoder.layers, strict=True):
        copy_layer(mine, other, cross=True)
    theirs.encoder.norm.load_state_dict(ours.encoder.final_norm.state_dict())
    theirs.decoder.norm.load_state_dict(ours.decoder.final_norm.state_dict())
    return ours, theirs


@pytest.mark.parametrize(("place", "activation", "dtype"), LAYERS)
def test_the_whole_transformer(place: str, activation: str, dtype: torch.dtype) -> None:
    """Logits of padded pairs, in one pass and token by token from a cache."""
    ours, theirs = both(place, activation, dtype)
    table = ours.embedding.tokens.weight
    for batch, length, width in SHAPES:
        generator = torch.Generator().manual_seed(length)
        tokens = torch.randint(0, 19, (batch, length), generator=generator)
        source = torch.randint(0, 19, (batch, width), generator=generator)
        lengths = ragged(batch, width)
        hidden = ~real(lengths, width)
        with torch.no_grad():
            states = theirs(
                table[source],
                table[tokens],
                tgt_mask=hidden_future(length),
                src_key_padding_mask=hidden,
                memory_key_padding_mask=hidden,
            )
            want = (states @ table.T).float()
            given = {"source": source, "source_lengths": lengths}
            for how in LOOKS:
                close_logits(ours(tokens, **given, taps=looks(how)), want)
            state = ours.start(batch, **given)
            for at in range(length):
                logits, state = ours.step(tokens[:, at : at + 1], state)
                close_logits(logits, want[:, at])


def close_logits(ours: Tensor, theirs: Tensor) -> None:
    """Logits are float32 whatever the precision of the network."""
    assert ours.dtype == torch.float32
    assert torch.isfinite(ours).all()
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max().clamp(min=1.0)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_gradients_of_the_whole_transformer(place: str) -> None:
    """The backward pass too: what a training step would change is the same."""
    ours, theirs = both(place, "relu", torch.float64)
    ours.train()
    source, tokens = (
        torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]),
        torch.tensor([[7, 8, 9], [3, 2, 1]]),
    )
    lengths = torch.tensor([4, 2])
    hidden = ~real(lengths, 4)
    table = ours.embedding.tokens.weight.detach()
    ours.embedding.tokens.weight.requires_grad_(False)
    ours(tokens, source=source, source_lengths=lengths).double().square().sum().backward()
    states = theirs(
        table[source],
        table[tokens],
        tgt_mask=hidden_future(3),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    (states @ table.T).square().sum().backward()
    for mine, other in zip(ours.decoder.blocks(), theirs.decoder.layers, strict=True):
        cross = mine.cross_attention
        packed = torch.cat([p.weight.grad for p in (cross.query, cross.key, cross.value)])
        # our logits leave in float32: so much of the gradient is rounded away
        relative(packed, other.multihead_attn.in_proj_weight.grad)
        relative(mine.feed_forward.up.weight.grad, other.linear1.weight.grad)
    for mine, other in zip(ours.encoder.blocks(), theirs.encoder.layers, strict=True):
        relative(mine.self_attention.output.weight.grad, other.self_attn.out_proj.weight.grad)


def relative(ours: Tensor, theirs: Tensor) -> None:
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
