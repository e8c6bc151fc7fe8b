"""Heat maps in a terminal: widths, colours, masked cells, labels."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from toy import CHINESE, matrix

from budgerigar.inspection.labels import width
from budgerigar.inspection.palette import depth_of, viridis
from budgerigar.inspection.terminal import bars, coloured_text, heatmap

ANSI = re.compile(r"\x1b\[[0-9;]*m")
WORDS = ["<end>", "Xuanyuan", "had", "a", "budgerigar", "虎皮鹦鹉", "↵", "e\u0301t\u0301"]


@pytest.mark.parametrize("depth", ["truecolor", "256", "none"])
@pytest.mark.parametrize("n", [1, 2, 8, 30, 60, 128])
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_never_broader_than_the_terminal(n: int, columns: int, depth: str) -> None:
    labels = [WORDS[k % len(WORDS)] for k in range(n)]
    text = heatmap(matrix(labels, window=5), columns=columns, depth=depth)  # type: ignore[arg-type]
    assert max(width(ANSI.sub("", line)) for line in text.splitlines()) <= columns
    assert ("\x1b" in text) == (depth != "none")


def test_numbers_stand_in_small_maps_and_masked_cells_are_struck() -> None:
    small = matrix(["one", "two", "three"])
    lines = heatmap(small, columns=80, depth="none").splitlines()
    row = next(line for line in lines if line.startswith("1 "))
    assert "two" in row
    assert f"{small.weights[1, 0]:.2f}"[1:] in row
    assert f"{small.weights[1, 1]:.2f}"[1:] in row
    assert row.rstrip().endswith("╱╱")
    assert "masked: later tokens" in lines[-1]


def test_a_masked_cell_has_no_background() -> None:
    text = heatmap(matrix(["one", "two"]), columns=80, depth="truecolor")
    row = next(line for line in text.splitlines() if ANSI.sub("", line).startswith("0 "))
    struck = row[row.index("╱") - 30 : row.index("╱")]
    assert "48;2" not in struck.rsplit("\x1b[0m", 1)[-1]


def test_a_cell_has_the_colour_of_its_weight() -> None:
    small = matrix(["one", "two"])
    text = heatmap(small, columns=80, depth="truecolor", top=1.0)
    for weight in small.weights[1]:
        assert "48;2;{};{};{}".format(*viridis(float(weight))) in text


def test_row_label_is_the_rows_own_token() -> None:
    labels = [f"w{k}" for k in range(8)]
    lines = [ANSI.sub("", x) for x in heatmap(matrix(labels), columns=100).splitlines()]
    for k, label in enumerate(labels):
        assert re.match(rf"{k} +{label} ", next(x for x in lines if x.startswith(f"{k} ")))


def test_chinese_labels_downwards() -> None:
    text = heatmap(matrix(list(CHINESE)), columns=60, depth="truecolor")
    header = text.splitlines()[3]
    assert header.split() == ["".join(CHINESE)]


def test_dense_maps_label_every_second_and_split_into_panels() -> None:
    text = heatmap(matrix([f"w{k}" for k in range(100)]), columns=70, depth="truecolor")
    assert "keys 0 to " in text
    assert "▀" in text
    assert "\n98 w98 " in ANSI.sub("", text)


@pytest.mark.parametrize(
    ("settings", "depth"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm-256color"}, "truecolor"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, "none"),
        ({"TERM": "vt100"}, "none"),
    ],
)
def test_depth_follows_the_environment(
    settings: dict[str, str], depth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TERM", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert depth_of(Screen()) == depth
    assert depth_of(io.StringIO()) == "none"


def test_viridis_is_matplotlibs() -> None:
    from matplotlib import colormaps

    for share in np.linspace(0, 1, 101):
        expected = np.array(colormaps["viridis"](share)[:3]) * 255
        assert np.abs(np.array(viridis(float(share))) - expected).max() < 7


def test_256_colours_grow_lighter() -> None:
    light = [sum(w * (c / 255) ** 2.2 for w, c in zip((0.21, 0.72, 0.07), viridis(k / 10, "256"),
                                                     strict=True)) for k in range(11)]  # fmt: skip
    assert light == sorted(light)
    assert len(set(light)) == 11


def test_coloured_text_wraps_and_notes() -> None:
    pieces = ["But", " he", " always", "↵", "虎皮"]
    plain = coloured_text(
        pieces, [None, 0.1, 0.9, 0.0, 0.5], columns=12, depth="none", notes=["", "1", "2", "3", "4"]
    )
    assert plain.splitlines() == ["But he[1]", " always[2]", "↵[3]", "虎皮[4]"]
    assert ANSI.sub("", coloured_text(pieces, [None] * 5, columns=80, depth="256")) == (
        "But he always↵\n虎皮"
    )


def test_bars() -> None:
    lines = bars([("budgerigar", 1.0), ("虎皮", 0.5), ("a", 0.0)], columns=40).splitlines()
    assert max(map(width, lines)) <= 40
    assert lines[0].count("█") == 21
    assert lines[1].count("█") == 10
    assert lines[1].endswith("▌")
    assert "0.000" in lines[2]
