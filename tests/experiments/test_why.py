"""Nine experiments, small: they run, their figures are those that one gets by computing them again."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

from budgerigar.cli.output import plain
from budgerigar.errors import UserError
from budgerigar.experiments import why
from budgerigar.experiments.why import (
    attention,
    cache,
    cross_attention,
    drawing,
    feed_forward,
    heads,
    mask,
    positions,
    residual,
    scale,
)
from budgerigar.experiments.why.frame import Bars, Grid, Lines, Measured, WhyResult, number
from budgerigar.experiments.why.stories import Stories

TINY_STORIES = Stories(n=150, held_out=20, filler_words=(0, 6), length=32, d_model=16, steps=3)
SCALE = scale.Sizes((8, 64), 100, 16, (16,), steps=3)
RESIDUAL = residual.Sizes((2, 6), 6, 16, 6, 2, trained_depth=2, steps=2)
HEADS = heads.Sizes(steps=3, tests=20)
POSITIONS = positions.Sizes(3, 8, 20, stories=TINY_STORIES, repeats=2)
MASK = mask.Sizes(TINY_STORIES, n_words=3, prefixes=5)
CROSS = cross_attention.Sizes(steps=2, n_pairs=200, tests=3, d_model=16, d_ff=16)
CACHE = cache.Sizes((4, 8), repeats=2, d_model=16, layers=2, heads=2, vocab_size=20)
LONGER = dataclasses.replace(TINY_STORIES, length=64)
ATTENTION = attention.Sizes(LONGER, 8, 8, (0, 6), told=6, tests=10)
TINY = {
    "attention": lambda: attention.run(1, ATTENTION),
    "heads": lambda: heads.run(1, HEADS),
    "scale": lambda: scale.run(1, SCALE),
    "positions": lambda: positions.run(1, POSITIONS),
    "feed-forward": lambda: feed_forward.run(1),
    "residual": lambda: residual.run(1, RESIDUAL),
    "mask": lambda: mask.run(1, MASK),
    "cross-attention": lambda: cross_attention.run(1, CROSS),
    "cache": lambda: cache.run(1, CACHE),
}


@pytest.fixture(scope="module")
def results() -> dict[str, WhyResult]:
    """Each part once, tiny."""
    return {part: run() for part, run in TINY.items()}


def test_there_are_nine() -> None:
    assert tuple(TINY) == why.PARTS


@pytest.mark.parametrize("part", why.PARTS)
def test_each_part_gives_a_whole_result(
    part: str, results: dict[str, WhyResult], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    result = results[part]
    assert result.part == part
    assert result.seed == 1
    assert result.panels
    page = result.text(width=80)
    for words in (str(result.without), str(result.with_part), "The next problem"):
        assert words in page
    assert max(map(drawing.cell_len, page.split("\n"))) <= 80
    assert "\x1b" not in page
    picture = result.picture(tmp_path / f"{part}.png")
    assert picture.stat().st_size > 5_000
    assert not [w for w in recwarn if "Glyph" in str(w.message)]
    found = json.loads(json.dumps(plain(result.as_dict())))
    assert found["with"]["value"] == pytest.approx(result.with_part.value, nan_ok=True)
    assert "panels" not in found


def test_a_tiny_training_shows_nothing_and_says_so(results: dict[str, WhyResult]) -> None:
    for part in ("attention", "heads", "positions", "mask", "cross-attention"):
        assert not results[part].held
        assert "not" in results[part].verdict


def test_the_same_seed_gives_the_same_figures(results: dict[str, WhyResult]) -> None:
    for part in ("heads", "scale", "residual"):
        again = TINY[part]()
        assert again.numbers == results[part].numbers


def test_scores_spread_by_the_root_of_the_width() -> None:
    sizes = scale.Sizes(queries=500, keys=32)
    for width in (16, 256):
        raw = scale.spread(width, 1.0, 3, sizes)
        assert raw.spread == pytest.approx(math.sqrt(width), rel=0.05)
        assert scale.spread(width, width**-0.5, 3, sizes).spread == pytest.approx(1, rel=0.05)


def test_the_gradient_of_the_softmax_is_that_of_autograd() -> None:
    scores = torch.randn(3, 5, dtype=torch.float64) * 3
    norms = []
    for row in scores:
        jacobian = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, -1), row)
        norms.append(float(jacobian.norm()))
    assert scale._gradient(scores.softmax(-1)) == pytest.approx(sum(norms) / 3)


@pytest.mark.parametrize("both", residual.NAMES)
def test_the_gradient_ratio_is_that_of_finite_differences(both: tuple[bool, bool]) -> None:
    """One direction of the input: moving along the gradient changes L by its norm."""
    sizes = residual.Sizes(d_model=8, length=3, batch=1, n_words=8)
    network = residual.Transformer(residual._config(2, both[0], sizes), 5).double()
    if not both[1]:
        residual.without_norms(network)
    generator = torch.Generator().manual_seed(5)
    shape = (1, 3, 8)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    direction = torch.randn(shape, generator=generator, dtype=torch.float64)

    @torch.no_grad()
    def top(value: torch.Tensor) -> float:
        for block in network.decoder.blocks():
            value = block(value, residual._view(3))
        return float((value * direction).sum())

    step, slopes = 1e-5, []
    for place in range(x.numel()):
        nudge = torch.zeros(x.numel(), dtype=torch.float64)
        nudge[place] = step
        slopes.append((top(x + nudge.view(shape)) - top(x - nudge.view(shape))) / (2 * step))
    expected = math.hypot(*slopes) / float(direction.norm())
    assert residual.gradient_ratio(2, *both, 5, sizes) == pytest.approx(expected, rel=1e-4)


def test_the_jacobian_of_a_block_is_a_product_of_ones_and_its_parts() -> None:
    assert residual.jacobian_error(2, residual.Sizes()) < 1e-12


def test_an_encoder_without_positions_permutes() -> None:
    words = positions._words()
    assert positions.moved_vectors("none", words, 2, POSITIONS) < 1e-5
    assert positions.moved_vectors("sinusoidal", words, 2, POSITIONS) > 0.01


def test_owner_and_owned_come_both_ways_round() -> None:
    words = positions._words()
    generator = torch.Generator().manual_seed(1)
    sentences, targets = positions._owning(words, 10, generator, held_out=True)
    half = len(sentences) // 2
    read = [[words[i] for i in row] for row in sentences.tolist()]
    for one, other in zip(read[:half], read[half:], strict=True):
        assert one[1:3] == ["has", "the"]
        assert other == ["the", one[3], "has", one[0]]
    assert targets[0].tolist() == [positions.OWNER, -100, -100, positions.OWNED]
    assert targets[half].tolist() == [-100, positions.OWNER, -100, positions.OWNED]


def test_no_sum_says_and() -> None:
    """Least squares against 0 0 0 1 misses each by a quarter, whatever the weights."""
    assert feed_forward.best_sum([0.0, 0.0, 0.0, 1.0]) == pytest.approx(0.25)
    assert feed_forward.best_sum([0.0, 1.0, 1.0, 2.0]) == pytest.approx(0.0, abs=1e-12)


def test_the_cache_holds_what_is_said(results: dict[str, WhyResult]) -> None:
    network = cache._network(1, CACHE)
    assert cache.bytes_per_token(network) == 2 * 2 * 16 * 4
    tokens = torch.randint(0, 20, (1, 10))
    assert cache.largest_difference(network, tokens) < 1e-5
    assert results["cache"].numbers["with"]["8"].bytes_carried == 64 * 2 * 2 * 16 * 4
    assert results["cache"].numbers["without"]["8"].bytes_carried == 10 * 8


def test_unmasked_networks_see_the_next_word() -> None:
    corpus = mask.gather(TINY_STORIES, 1)
    ids = torch.tensor([[2, 3, 4, 5]])
    other = torch.tensor([[2, 3, 4, 6]])
    for assembly, same in (("decoder-only", True), ("encoder-only", False)):
        network, _ = mask.train_on_stories(corpus, TINY_STORIES, 1, "", assembly=assembly)
        with torch.inference_mode():
            equal = torch.allclose(network(ids)[:, :3], network(other)[:, :3])
        assert equal == same


def test_an_unknown_part() -> None:
    with pytest.raises(UserError, match="Did you mean cross-attention"):
        why.run("cross attentions")


def test_run_names_the_next_part() -> None:
    assert why.run("Feed Forward", quiet=True).following == "residual"


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.694, "0.69"), (1234.5, "1,234.50"), (1.7e6, "1.7e+06"), (1e-11, "1.0e-11")],
)
def test_numbers_are_readable(value: float, words: str) -> None:
    assert number(value) == words
    assert str(Measured("x", 99.96, "% right", 1)) == "100.0% right"


def test_drawings_hold_their_width() -> None:
    panels = (
        Bars("t", "%", [("a long name of a bar", 3.0), ("b", 0.0)], top=100, line=("chance", 50)),
        Lines("t", "x", "y", [1, 10, 99], {"a": [1, math.nan, 1e-30], "b": [0, 2, 3]}, True, True),
        Lines("t", "x", "y", list(range(100)), {"a": [float(i) for i in range(100)]}),
        Grid("t", ("r",), ("c", "d"), [[0.1, 0.9]]),
    )  # fmt: skip
    for panel in panels:
        lines = drawing.panel_text(panel, 60).plain.split("\n")
        assert max(map(drawing.cell_len, lines)) <= 60


@pytest.mark.slow
@pytest.mark.parametrize("part", why.PARTS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_holds(part: str, seed: int) -> None:
    result = why.run(part, seed, quiet=True)
    assert result.held, result.text()
