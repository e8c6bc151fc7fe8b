"""Gradient norms against products of Jacobians, autograd on torch.nn and finite differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from toy import network, one_text, recurrent, torch_layer

from budgerigar.errors import UserError
from budgerigar.inspection.reach import Reach, reach, window_of
from budgerigar.inspection.reach_plots import reach_figure
from budgerigar.inspection.reach_text import distances_shown, reach_table
from budgerigar.layers.taps import Taps
from budgerigar.models.ancestor_configs import FeedForwardConfig
from budgerigar.models.configs import NgramConfig
from budgerigar.models.feed_forward import FeedForward
from budgerigar.models.ngram import NgramModel

SIZE = 11
IDS = torch.randint(0, SIZE, (40,), generator=torch.Generator().manual_seed(2)).tolist()


def ends_of(width: int, positions: int) -> list[int]:
    """Which tokens are predicted: spread evenly over those that have `width` before them."""
    return sorted({round(float(at)) for at in np.linspace(width, len(IDS) - 1, positions)})


def test_an_elman_network_is_a_product_of_jacobians() -> None:
    """d h_t / d h_(t-1) = diag(1 - h_t^2) U, by hand, in float64."""
    made = one_text("elman", SIZE, n_layers=1)
    width = 12
    found = reach(made, IDS, distance=width, positions=5)
    block = next(made.decoder.blocks())
    u, w = (part.weight.detach().double().numpy() for part in (block.hidden, block.input))
    bias = sum(part.bias.detach().double().numpy() for part in (block.hidden, block.input))
    table = made.embedding.tokens.weight.detach().double().numpy()
    head, shift = (p.detach().double().numpy() for p in (made.head.weight, made.head.bias))  # type: ignore[union-attr]
    states = [np.zeros(7)]
    for token in IDS:
        states.append(np.tanh(w @ table[token] + u @ states[-1] + bias))
    for row, end in enumerate(ends_of(width, 5)):
        logits = head @ states[end] + shift  # states[end] has read ids 0 … end - 1
        chances = np.exp(logits - logits.max())
        back = head[IDS[end]] - (chances / chances.sum()) @ head  # d log p / d h
        for distance in range(1, width + 1):
            h = states[end - distance + 1]
            through = back * (1 - h**2)
            wanted = np.linalg.norm(through @ w)
            assert found.norms[row, distance - 1] == pytest.approx(wanted, rel=2e-5)
            back = through @ u
    assert found.carried


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("carried", [True, False])
def test_recurrent_models_as_autograd_on_torch(cell: str, carried: bool) -> None:
    made = one_text(cell, SIZE)
    width = 9
    found = reach(made, IDS, distance=width, positions=4, carried=carried)
    layers = [torch_layer(cell, block) for block in made.decoder.blocks()]
    table = made.embedding.tokens.weight.detach().double()
    assert made.head.weight is not None
    head, shift = made.head.weight.detach().double(), made.head.bias.detach().double()
    for row, end in enumerate(ends_of(width, 4)):
        first = 0 if carried else end - width
        vectors = table[IDS[first:end]].requires_grad_()
        x = vectors[None]
        for layer in layers:
            x = layer(x)[0]
        log_p = (head @ x[0, -1] + shift).log_softmax(-1)[IDS[end]]
        (gradient,) = torch.autograd.grad(log_p, vectors)
        wanted = gradient.norm(dim=-1).flip(0)[:width].numpy()
        np.testing.assert_allclose(found.norms[row], wanted, rtol=1e-4)


def test_a_gpt_by_finite_differences() -> None:
    made = network(SIZE)
    found = reach(made, IDS, distance=6, positions=3)
    double = network(SIZE).double()

    def log_p(window: Tensor, wanted: int, change: Tensor) -> float:
        taps = Taps(replace={"decoder.embedding": lambda x: x + change})
        with torch.no_grad():
            logits = double.forward(window[None], taps=taps)[0, -1].double()
        return float(logits.log_softmax(-1)[wanted])

    step, d_model = 1e-3, 16
    for row, end in enumerate(ends_of(6, 3)):
        window = torch.tensor(IDS[end - 6 : end])
        for distance in (1, 2, 6):
            slope = []
            for k in range(d_model):
                change = torch.zeros(1, 6, d_model, dtype=torch.float64)
                change[0, 6 - distance, k] = step
                up, down = (log_p(window, IDS[end], sign * change) for sign in (1, -1))
                slope.append((up - down) / (2 * step))
            assert found.norms[row, distance - 1] == pytest.approx(np.linalg.norm(slope), rel=2e-3)
    assert not found.carried
    assert found.sees == 64


def test_a_feed_forward_model_ends_at_a_cliff() -> None:
    made = FeedForward(FeedForwardConfig(vocab_size=SIZE, order=5, d_embedding=4, d_hidden=6))
    found = reach(made, IDS, distance=8)
    assert found.sees == 4
    assert (found.norms[:, :4] > 0).all()
    assert (found.norms[:, 4:] == 0).all()
    assert found.shares[4:].tolist() == [0] * 4
    table = reach_table([found])
    assert "sees 4 tokens, beyond them the gradient is exactly 0: a cliff" in table
    assert "it saw only these" in table  # its state is no more than those tokens
    assert table.split("\n")[4].split() == ["8", "0"]


def test_an_ngram_has_no_gradient() -> None:
    made = NgramModel.fit(np.array(IDS), NgramConfig(vocab_size=SIZE, order=4))
    found = reach(made, IDS, name="counts")
    assert found.sees == 3
    assert found.norms.size == 0
    assert "Up to 3 tokens back" in reach_table([found])
    axes = reach_figure([found]).axes[0]  # its line stands inside the picture, also when alone
    assert axes.lines[0].get_xdata()[0] == 3.5 < axes.get_xlim()[1]  # type: ignore[index]


def test_the_bare_logit_and_saturation() -> None:
    made = one_text("lstm", SIZE)
    plain = reach(made, IDS, distance=5, positions=4, of="logit")
    assert plain.of == "logit"
    with torch.no_grad():
        made.head.bias.add_(3.0)  # a constant added to every logit: no prediction changes
    again = reach(made, IDS, distance=5, positions=4)
    with torch.no_grad():
        made.head.bias.sub_(3.0)
    np.testing.assert_allclose(
        again.norms, reach(made, IDS, distance=5, positions=4).norms, rtol=1e-4
    )
    with pytest.raises(UserError, match="choose log-probability or logit"):
        reach(made, IDS, of="loss")  # type: ignore[arg-type]


def test_the_network_is_left_as_it_was() -> None:
    made = one_text("lstm", SIZE, dropout=0.5).train()
    weights = [p.detach().clone() for p in made.parameters()]
    first = reach(made, IDS, distance=5, positions=4)
    assert made.training
    assert all(p.grad is None and p.requires_grad for p in made.parameters())
    assert all(torch.equal(p, w) for p, w in zip(made.parameters(), weights, strict=True))
    assert not made.embedding._forward_hooks
    np.testing.assert_array_equal(first.norms, reach(made, IDS, distance=5, positions=4).norms)


def test_an_edited_model_is_measured_as_edited() -> None:
    from budgerigar.inspection.editing import EditedNetwork, plan_edit

    made = one_text("lstm", SIZE, n_layers=1)
    edit = plan_edit(made, (), "zero", replace={"decoder.0.forget_gate": torch.ones_like})
    found = reach(EditedNetwork(made, edit), IDS, distance=8, positions=4)
    assert not np.allclose(found.norms, reach(made, IDS, distance=8, positions=4).norms, rtol=0.01)


def test_what_cannot_be_measured() -> None:
    made = one_text("lstm", SIZE)
    with pytest.raises(UserError, match="at least 3 tokens"):
        reach(made, IDS[:2])
    with pytest.raises(UserError, match="a text of 40 tokens allows 1 to 39"):
        reach(made, IDS, distance=40)
    with pytest.raises(UserError, match="this model's context allows 1 to 16"):
        reach(network(SIZE, context_length=16), IDS, distance=17)
    with pytest.raises(UserError, match="carries no state"):
        reach(network(SIZE), IDS, carried=True)
    with pytest.raises(UserError, match="token id 11"):
        reach(made, [*IDS, 11])
    for other in (recurrent(), network(SIZE, assembly="encoder-only")):
        with pytest.raises(UserError, match="reads pairs or fills gaps"):
            reach(other, IDS)
    assert reach(made, IDS[:3]).norms.shape == (2, 1)
    assert window_of(made) is None


def by_hand(norms: Any, **facts: Any) -> Reach:
    return Reach("hand", np.asarray(norms, dtype=np.float64), **facts)


def test_means_by_hand() -> None:
    found = by_hand([[4.0, 1.0, 0.0], [1.0, 1.0, 0.25], [2.0, 1.0, 0.0]])
    np.testing.assert_allclose(found.mean, [2.0, 1.0, 0.0])
    np.testing.assert_allclose(found.shares, [1.0, 0.5, 0.0])
    assert found.within(1) == pytest.approx((4 / 5 + 1 / 2.25 + 2 / 3) / 3)
    assert found.within(3) == 1
    halving = by_hand([0.5 ** np.arange(20)] * 2)
    np.testing.assert_allclose(halving.shares, 0.5 ** np.arange(20))
    np.testing.assert_allclose(halving.smooth()[:4], halving.shares[:4])
    assert halving.last_above(0.01) == 7  # 2^-6 is the last above, seven tokens back
    assert by_hand(np.ones((2, 5))).last_above(0.01) == 5


def test_a_prediction_that_is_nearly_sure_does_not_count_less() -> None:
    """A factor of one prediction's own leaves the shape as it is."""
    norms = np.random.default_rng(0).uniform(0.1, 1, (6, 10))
    scaled = norms * np.array([1, 1e-9, 1, 1e6, 1, 1])[:, None]
    np.testing.assert_allclose(by_hand(scaled).shares, by_hand(norms).shares, rtol=1e-9)


def test_a_gradient_fades_further_than_float32_reaches() -> None:
    made = one_text("elman", SIZE, n_layers=1)
    with torch.no_grad():
        next(made.decoder.blocks()).hidden.weight.mul_(0.02)
    found = reach(made, IDS, distance=30, positions=4)
    assert 0 < found.mean[27] < 1e-38
    ratios = found.mean[1:20] / found.mean[:19]
    assert ratios.max() < 0.2


def test_distances_shown() -> None:
    assert distances_shown(1) == [1]
    assert distances_shown(8) == [1, 2, 4, 8]
    assert distances_shown(11) == [1, 2, 4, 8, 11]


def test_the_picture(tmp_path: Path) -> None:
    from budgerigar.inspection.plots import save

    many = [
        by_hand([0.8 ** np.arange(30)] * 3, carried=True),
        by_hand(np.concatenate([np.ones((2, 4)), np.zeros((2, 26))], axis=1), sees=4),
        Reach("计数", np.zeros((0, 0)), 6),
    ]
    figure = reach_figure(many, "a text")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels == ["hand (state carried)", "hand (sees 4)", "计数: sees 6, has no gradient"]
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(np.asarray(line.get_ydata(), np.float64), many[0].smooth())
    assert save(figure, tmp_path / "reach.png").stat().st_size > 10_000
    assert "计数" in save(reach_figure(many, "", True), tmp_path / "reach.svg").read_text("utf-8")
    with pytest.raises(UserError, match="nothing to draw"):
        reach_figure([])
