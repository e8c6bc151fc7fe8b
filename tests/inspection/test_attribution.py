"""A logit taken apart: the parts sum to it on every dial, and each is what it says it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from streams import ALL, TRANSLATORS, model_of, traced
from toy import STORY, chinese, english, network, one_text, recurrent, words

from budgerigar.errors import UserError
from budgerigar.inspection import attribute_by_key, attribute_logit, edited_network, path_of, trace
from budgerigar.inspection.lens_text import attribution_text, naming
from budgerigar.inspection.pair_traces import trace_pair
from budgerigar.layers.norm import Norm
from budgerigar.layers.packed_linear import PackedEmbedding, PackedLinear, PackedMatrix
from budgerigar.layers.taps import Taps
from budgerigar.models.modes import without_source


@pytest.mark.parametrize("name", ALL)
def test_parts_sum_to_the_logit(name: str) -> None:
    seen = traced(name)
    for position in (0, 3, -1):
        path = path_of(seen, position)
        for token in (1, 4, None):
            found = attribute_logit(seen, position, token, path=path)
            assert found.difference < 1e-5
            own = seen.logits[position]
            chosen = int(own.argmax()) if token is None else token
            assert found.token == chosen
            assert found.logit == pytest.approx(float(own[chosen]))
            assert sum(p.logit for p in found.parts) == pytest.approx(found.total)
            assert found.total == pytest.approx(found.logit, abs=1e-4 * float(own.abs().max()))
            assert sum(v for _, v in found.by_layer()) == pytest.approx(found.total)
        apart = attribute_logit(seen, position, 1, against=4, path=path)
        assert apart.logit == pytest.approx(float(own[1] - own[4]), abs=1e-6)
        assert apart.difference < 1e-5
        for part, one, two in zip(
            apart.parts,
            attribute_logit(seen, position, 1, path=path).parts,
            attribute_logit(seen, position, 4, path=path).parts,
            strict=True,
        ):
            assert part.origin == one.origin == two.origin
            assert part.logit == pytest.approx(one.logit - two.logit)


@pytest.mark.parametrize("name", ALL)
def test_every_part_is_there_once(name: str) -> None:
    seen = traced(name)
    config = seen.network.config
    origins = path_of(seen, 2).origins
    assert len({origin.name for origin in origins}) == len(origins)
    depth = config.decoder_layers or config.encoder_layers
    kinds = ("self", "cross") if name in TRANSLATORS else ("self",)
    heads = {(o.layer, o.head, o.attention) for o in origins if o.kind == "head"}
    assert heads == {
        (layer, head, kind) for layer in range(depth) for head in range(4) for kind in kinds
    }
    assert [o.layer for o in origins if o.kind == "feed-forward"] == list(range(depth))
    biases = [o for o in origins if o.kind == "attention bias"]
    assert len(biases) == (len(kinds) * depth if config.output_bias else 0)


def test_parts_by_hand_in_float64() -> None:
    """A pre-norm model from its weights alone: an independent way to four of the parts."""
    tokenizer = words()
    model = network(
        tokenizer.vocab_size, positions="learned", head_bias=True, tied_embeddings=False
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn(parameter.shape))
    seen = trace(model, tokenizer, STORY, start_id=0)
    weight = {n: p.detach().double().numpy() for n, p in model.named_parameters()}
    at, token, other = 6, 3, 5
    last = seen.tap("decoder.1.residual_after")[at].astype(np.float64)
    sigma = np.sqrt(last.var() + 1e-5)

    def share(vector: np.ndarray) -> float:
        scaled = (vector - vector.mean()) / sigma * weight["decoder.final_norm.weight"]
        return float(scaled @ (weight["head.weight"][token] - weight["head.weight"][other]))

    parts = {part.name: part.logit for part in attribute_logit(seen, at, token, other).parts}
    assert parts["token"] == pytest.approx(
        share(weight["embedding.tokens.weight"][seen.ids[at]]), rel=1e-4
    )
    assert parts["position"] == pytest.approx(
        share(weight["embedding.positions.weight"][at]), rel=1e-4
    )
    contribution = seen.attention("L1.H2").contribution[at].astype(np.float64)
    assert parts["L1.H2"] == pytest.approx(share(contribution), rel=1e-3)
    hidden = seen.tap("decoder.0.feed_forward.hidden")[at].astype(np.float64)
    name = "decoder.0.feed_forward.down"
    written = weight[f"{name}.weight"] @ hidden + weight[f"{name}.bias"]
    assert parts["L0 feed-forward"] == pytest.approx(share(written), rel=1e-3)
    assert parts["L1 attention's bias"] == pytest.approx(
        share(weight["decoder.1.self_attention.output.bias"]), rel=1e-4
    )
    rows = weight["head.weight"][token] - weight["head.weight"][other]
    assert parts["final norm's bias"] == pytest.approx(
        float(weight["decoder.final_norm.bias"] @ rows), rel=1e-4
    )
    bias = weight["head.bias"]
    assert parts["output bias"] == pytest.approx(float(bias[token] - bias[other]), rel=1e-4)


def held(norm: Norm, x: torch.Tensor) -> torch.Tensor:
    """A norm's own numbers; its scale gives no gradient, as if it were a constant."""
    spread = x - x.mean(-1, keepdim=True) if norm.kind == "layer" else x
    scale = (spread.detach().square().mean(-1, keepdim=True) + norm.epsilon).rsqrt()
    weight = None if norm.weight is None else norm.weight + (1 if norm.offset else 0)
    normed = spread * scale if weight is None else spread * scale * weight
    return normed if norm.bias is None else normed + norm.bias


def slope(name: str, tap: str, at: int, token: int, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The gradient (D,) of a logit by what is written at the tap `tap`, on its direct way alone: by
    torch's autograd, through the model itself, with scales held and all sublayers' outputs constant.
    """
    model = model_of(name).double()
    seen = traced(name, model)
    monkeypatch.setattr(Norm, "forward", held)
    if model.config.head_transform:
        act = model.head.activation
        monkeypatch.setattr(model.head, "activation", lambda z: z * (act(z) / z).detach())
    probe = torch.zeros(model.config.d_model, dtype=torch.float64, requires_grad=True)

    def touch(value: torch.Tensor) -> torch.Tensor:
        touched = value.detach().clone()
        touched[0, at] = touched[0, at] + probe
        return touched

    constant = {
        "*_attention.output": torch.Tensor.detach,
        "*.feed_forward.output": torch.Tensor.detach,
    }
    logits = model(**seen.inputs, taps=Taps(replace={**constant, tap: touch}))
    torch.testing.assert_close(logits[0].float(), seen.logits, rtol=1e-3, atol=1e-3)
    (found,) = torch.autograd.grad(logits[0, at, token], probe, allow_unused=True)
    return np.zeros(len(probe)) if found is None else found.numpy()  # None: no way leads there


@pytest.mark.parametrize("name", [name for name in ALL if "capped" not in name])
def test_parts_go_the_way_that_autograd_finds_with_scales_held(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An independent way to every frozen map: what a sublayer wrote, times the logit's gradient."""
    seen, at, token = traced(name), 3, 2
    found = attribute_logit(seen, at, token)
    stack = "encoder" if seen.network.decoder is None else "decoder"
    sublayers = {"feed_forward": "feed-forward", "self_attention": "self"}
    if name in TRANSLATORS:
        sublayers["cross_attention"] = "cross"
    for layer in (0, 1):
        for sublayer, kind in sublayers.items():
            tap = f"{stack}.{layer}.{sublayer}.output"
            with monkeypatch.context() as patch:
                gradient = slope(name, tap, at, token, patch)
            expected = float(gradient @ seen.tap(tap)[at])
            mine = sum(
                part.logit
                for part in found.parts
                if part.origin.layer == layer and kind in (part.origin.kind, part.origin.attention)
            )
            assert mine == pytest.approx(expected, rel=1e-3, abs=1e-3), tap


@pytest.mark.parametrize(
    ("name", "kind"),
    [("grouped, windowed, sinks", "self"), ("sink logit, gated", "self"), ("post", "self"),
     ("translator, post", "cross"), ("translator, output", "self"), ("BERT", "self")],
)  # fmt: skip
def test_a_head_by_key_sums_to_the_head(name: str, kind: str) -> None:
    seen = traced(name)
    found = attribute_logit(seen, 4, 2, against=3)
    part = next(
        p
        for p in found.parts
        if (p.origin.layer, p.origin.head, p.origin.attention) == (1, 3, kind)
    )
    shares = attribute_by_key(seen, "L1.H3", 4, 2, against=3, kind=kind)
    assert shares.sum() == pytest.approx(part.logit, rel=1e-4, abs=1e-5)
    head = seen.attention("L1.H3", of=None if kind == "cross" else seen.sites[-1].of, kind=kind)
    assert (shares[head.mask.hidden[4]] == 0).all()
    assert len(shares) == len(head.key_labels)


def test_of_a_model_without_its_residual_only_the_last_sublayer_has_a_way_to_the_logits() -> None:
    found = attribute_logit(traced("no residual"), 5, 1)
    reaching = {part.name for part in found.parts if part.logit}
    assert reaching == {"L1 feed-forward", "final norm's bias"}


def test_a_head_that_is_switched_off_adds_nothing() -> None:
    for name in ("pre", "post"):
        seen = traced(name, edited_network(model_of(name), ["L1.H2"]))
        found = attribute_logit(seen, 5, 1)
        assert found.difference < 1e-5
        assert next(p.logit for p in found.parts if p.name == "L1.H2") == 0


def test_of_a_translator_whose_source_is_switched_off_cross_attention_adds_nothing() -> None:
    seen = traced(
        "translator, pre, relative", without_source(model_of("translator, pre, relative"))
    )
    found = attribute_logit(seen, 2, 1)
    assert found.difference < 1e-5
    assert all(p.logit == 0 for p in found.parts if p.origin.attention == "cross")
    assert (attribute_by_key(seen, "L0.H0", 2, 1, kind="cross") == 0).all()


def test_with_quantised_matrices() -> None:
    model = model_of("untied, biased head")

    def packed(weight: torch.Tensor) -> PackedMatrix:
        scales = weight.abs().amax(1, keepdim=True) / 127
        return PackedMatrix((weight / scales).round().to(torch.int8), scales)

    with torch.no_grad():
        for block in model.decoder.blocks():
            for parent, part in ((block.self_attention, "output"), (block.feed_forward, "down")):
                linear = getattr(parent, part)
                setattr(parent, part, PackedLinear(packed(linear.weight), linear.bias))
        head = model.head
        head.packed, head.weight = packed(head.weight), None
        model.embedding.tokens = PackedEmbedding(packed(model.embedding.tokens.weight))
    assert attribute_logit(traced("untied, biased head", model), 5, 1).difference < 1e-5


def test_the_sum_shows_it_when_something_was_replaced_on_the_way() -> None:
    edited = edited_network(model_of("pre"), replace={"decoder.0.residual_after": lambda x: x * 2})
    assert attribute_logit(traced("pre", edited), 5, 1).difference > 1e-3


def test_strongest_and_names() -> None:
    found = attribute_logit(traced("translator, post"), -1)
    names = [part.name for part in found.parts]
    assert "L0.H1 self" in names
    assert "L1.H3 cross" in names
    sizes = [abs(part.logit) for part in found.strongest()]
    assert sizes == sorted(sizes, reverse=True)
    assert len(found.strongest(3)) == 3
    groups = [name for name, _ in found.by_layer()]
    assert groups[:4] == ["embedding", "L0 attention", "L0 cross-attention", "L0 feed-forward"]
    assert groups[-1] == "biases"


def test_what_cannot_be_taken_apart() -> None:
    tokenizer = words()
    lstm = trace(one_text("lstm", tokenizer.vocab_size), tokenizer, STORY)
    with pytest.raises(UserError, match="no residual stream"):
        attribute_logit(lstm)
    vectors: Any = network(tokenizer.vocab_size, assembly="encoder-only", token_head=False)
    with pytest.raises(UserError, match="no output layer"):
        attribute_logit(trace(vectors, tokenizer, STORY))
    bahdanau = trace_pair(recurrent(), english(), "猫", " cat", source_tokenizer=chinese())
    with pytest.raises(UserError, match="no residual stream"):
        attribute_logit(bahdanau)
    seen = traced("pre")
    with pytest.raises(UserError, match="no position 99"):
        attribute_logit(seen, 99)
    with pytest.raises(UserError, match="token id 999"):
        attribute_logit(seen, 0, 999)


def test_as_a_table() -> None:
    found = attribute_logit(traced("pre"), 5, 3, against=4)
    page = attribution_text(
        found, "young", naming(words()), ["final norm"], about_next=True, top=2
    ).splitlines()
    name = naming(words())
    assert page[0].startswith(
        f"logit of “{name(3)}” minus that of “{name(4)}” after “young” (position 5): "
    )
    at = next(i for i, line in enumerate(page) if "strongest of" in line)
    assert page[at + 1].split()[0] == found.strongest(1)[0].name.split()[0]
    assert page[at + 3] == ""  # two of them
    sums = next(line for line in page if line.strip().startswith("their sum"))
    assert float(sums.split()[2]) == pytest.approx(found.total, abs=1e-3)
    assert "held as they were, so that it is a sum: final norm" in page[-1]
    bars = [line.split("│") for line in page if "│" in line]
    for left, right in bars:
        assert not (left.endswith("█") and right)
