"""Pictures: orientation, labels, hatches, scales, fonts. A warning (a missing glyph) fails."""

from __future__ import annotations

import errno
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from toy import CHINESE, STORY, matrix, network, words

from budgerigar.errors import UserError
from budgerigar.inspection import fonts, plots, trace
from budgerigar.inspection.matrix import Matrix, scale_top

pytestmark = pytest.mark.filterwarnings("error")
LABELS = ["one", "two", "three", "four"]


@pytest.fixture
def without_cjk(monkeypatch: pytest.MonkeyPatch):
    """A machine whose only font is matplotlib's own."""
    monkeypatch.setattr(fonts, "_candidates", list)
    fonts._noted.clear()


def has_cjk() -> bool:
    return not fonts.families_for(["轩辕"])[1]


def test_orientation_and_labels() -> None:
    drawn = matrix(LABELS)
    axes = plots.head_figure(drawn).axes[0]
    image = axes.images[0]
    np.testing.assert_allclose(image.get_array().filled(0), drawn.weights)
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first query is at the top
    assert [t.get_text() for t in axes.get_yticklabels()] == LABELS
    assert [t.get_text() for t in axes.get_xticklabels()] == LABELS
    assert list(axes.get_yticks()) == [0, 1, 2, 3]
    assert "looks" in axes.get_ylabel()
    assert "looked at" in axes.get_xlabel()
    assert axes.get_aspect() == 1.0


def test_cells_are_square_on_the_page() -> None:
    for n in (1, 5, 40, 128):
        figure = plots.head_figure(matrix(["word"] * n))
        box = figure.axes[0].get_position()
        wide, high = figure.get_size_inches()
        assert box.width * wide == pytest.approx(box.height * high, rel=1e-6)


def test_masked_cells_are_hatched_and_have_no_colour() -> None:
    drawn = matrix(LABELS, window=2)
    axes = plots.head_figure(drawn).axes[0]
    cells = axes.images[0].get_array()
    assert (np.ma.getmaskarray(cells) == drawn.masked).all()
    assert axes.images[0].cmap.get_bad()[3] == 0
    hatches = [p.get_hatch() for p in axes.patches if p.get_hatch()]
    assert len(set(hatches)) == 2  # future and window, each its own way
    future = next(p for p in axes.patches if p.get_hatch() == "////")
    assert future.get_path().contains_point((3, 0))
    assert not future.get_path().contains_point((0, 3))
    texts = " ".join(t.get_text() for t in plots.head_figure(drawn).texts)
    assert "later tokens" in texts
    assert "outside the window" in texts


@pytest.mark.parametrize(("largest", "top"), [(0.9, 1.0), (0.4, 0.5), (0.03, 0.05), (0.0, 1.0)])
def test_colour_bar_numbers_are_the_datas(largest: float, top: float) -> None:
    flat = Matrix(np.full((3, 3), largest), list("abc"), list("abc"))
    assert scale_top([flat]) == top
    figure = plots.head_figure(flat)
    bar = figure.axes[-1]
    assert figure.axes[0].images[0].get_clim() == (0.0, top)
    shown = [float(t.get_text()) for t in bar.get_yticklabels()]
    np.testing.assert_allclose(shown, bar.get_yticks(), atol=1e-6)
    assert shown[0] == 0
    assert shown[-1] == pytest.approx(top)


def test_numbers_in_cells_can_be_read() -> None:
    drawn = matrix(LABELS)
    axes = plots.head_figure(drawn).axes[0]
    assert len(axes.texts) == 10  # the visible cells
    for text in axes.texts:
        key, query = (round(v) for v in text.get_position())
        weight = drawn.weights[query, key]
        assert text.get_text() == f"{weight:.2f}"
        back, front = axes.images[0].cmap(weight)[:3], to_rgba(text.get_color())[:3]
        light = [np.dot((0.2126, 0.7152, 0.0722), np.array(c) ** 2.2) for c in (back, front)]
        assert (max(light) + 0.05) / (min(light) + 0.05) > 3.5


@pytest.mark.parametrize("n", [1, 2, 8, 40, 100, 128])
def test_labels_do_not_touch_each_other(n: int) -> None:
    labels = [["budgerigar", "a", "antidisestablishmentarianism"][k % 3] for k in range(n)]
    figure = plots.head_figure(matrix(labels))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = [t.get_window_extent() for t in axes.get_yticklabels()]
    for above, below in itertools.pairwise(boxes):
        assert above.y0 >= below.y1 - 3.5  # a box has a little air above and below its letters
    for text in [*axes.get_yticklabels(), *axes.get_xticklabels()]:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.y1 <= figure.bbox.y1
        assert len(text.get_text()) <= 16


def test_title_names_head_model_and_text() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY, start_id=0, name="stories")
    texts = [t.get_text() for t in plots.head_figure(seen.attention("L1.H2").matrix()).texts]
    assert texts[0] == "L1.H2"
    assert texts[1].startswith("stories: “Xuanyuan had a budgerigar")
    assert "<end>" in texts[1]


def test_dollars_and_underscores_are_text() -> None:
    labels = ["$x_1$", "a^b", r"\frac", "<b>"]
    axes = plots.head_figure(matrix(labels)).axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == labels
    plots.head_figure(matrix(labels)).draw_without_rendering()


@pytest.mark.skipif(not has_cjk(), reason="no font with Chinese on this machine")
def test_chinese_is_drawn_by_a_font_that_has_it(tmp_path: Path) -> None:
    drawn = matrix(list(CHINESE), name="L0.H1")
    drawn.about = f"model: {CHINESE}"
    plots.save(plots.head_figure(drawn), tmp_path / "chinese.png")
    families, missing = fonts.families_for([CHINESE, "␣↵⇥"])
    assert not missing
    assert families[0] == "DejaVu Sans"
    assert len(families) == 2


def test_without_a_chinese_font_it_says_what_to_install(
    tmp_path: Path, without_cjk: None, capsys: pytest.CaptureFixture[str]
) -> None:
    plots.save(plots.head_figure(matrix(list(CHINESE))), tmp_path / "boxes.png")
    said = capsys.readouterr().err
    assert "budgerigar[cjk]" in said
    assert said.count("\n") == 1
    assert "虎" in said


def test_svg_keeps_text_as_text_whatever_the_fonts(
    tmp_path: Path, without_cjk: None, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = matrix([*CHINESE, "<b>", "budgerigar"])
    svg = plots.save(plots.head_figure(drawn, text_only=True), tmp_path / "a.svg").read_text(
        "utf-8"
    )
    for character in CHINESE:
        assert f">{character}<" in svg
    assert "&lt;b&gt;" in svg
    assert "budgerigar" in svg
    assert capsys.readouterr().err == ""
    again = plots.save(plots.head_figure(drawn, text_only=True), tmp_path / "b.svg").read_text(
        "utf-8"
    )
    assert svg == again


def test_grid_has_a_named_thumbnail_per_head_on_one_scale() -> None:
    rows = [[matrix(LABELS, 3 * y + x, name=f"L{y}.H{x}") for x in range(3)] for y in range(2)]
    rows[0][0] = Matrix(np.full((4, 4), 0.25), LABELS, LABELS, name="L0.H0")
    figure = plots.grid_figure(rows, "about")
    heads = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in heads] == [
        f"L{y}.H{x}" for y in range(2) for x in range(3)
    ]
    assert {axes.images[0].get_clim() for axes in heads} == {(0.0, 1.0)}
    tops = [axes.get_position().y0 for axes in heads]
    assert tops[0] > tops[3]  # layer 0 is above layer 1


def test_layer_figure_and_files(tmp_path: Path) -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY)
    for name in ("grid.png", "grid.svg", "grid.pdf", "GRID.PNG"):
        assert seen.heatmap(tmp_path / name).stat().st_size > 1000
    assert seen.heatmap(tmp_path / "layer.svg", layer=1).exists()
    svg = (tmp_path / "layer.svg").read_text("utf-8")
    assert all(f"L1.H{h}" in svg for h in range(4))
    assert re.search(r"the token that looks", svg)
    assert seen.heatmap(tmp_path / "head.png", head="L1.H2").exists()
    with pytest.raises(UserError, match=r"\.png, \.svg"):
        seen.heatmap(tmp_path / "head.gif")
    with pytest.raises(UserError, match="no folder"):
        seen.heatmap(tmp_path / "nowhere" / "head.png")
    with pytest.raises(UserError, match="no layer 7"):
        seen.heatmap(tmp_path / "x.png", layer=7)


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x.html"])
def test_a_full_disk_leaves_no_half_of_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY)
    monkeypatch.setattr("os.fsync", full)
    draw = seen.html if name.endswith("html") else seen.heatmap
    with pytest.raises(UserError, match=rf"{name}: the disk is full"):
        draw(tmp_path / name)
    assert not list(tmp_path.iterdir())
