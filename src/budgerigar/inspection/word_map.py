"""A map of word vectors: their two directions of largest spread (principal components).

Two of many dimensions are little: the axes say how much of the spread they hold. Words that are near
on the map need not be alike (`neighbours` tells), but words that are alike are mostly near.

Shapes: N words, D width of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.inspection.plots import Texts, blank_figure, save, write_title

FIGURE_INCHES = (11.0, 8.5)
FONT_POINTS = 9.0
MOST_LABELS = 160


def principal_components(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, 2) places on the two directions of largest spread of `vectors` (N, D), and the share of the
    whole spread that each holds. Each direction's sign makes its largest place positive."""
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    left, spread, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(vectors), 2))
    found = (left * spread)[:, :2]
    places[:, : found.shape[1]] = found
    extreme = places[np.abs(places).argmax(0), [0, 1]]
    places *= np.where(extreme < 0, -1.0, 1.0)
    shares = np.zeros(2)
    whole = float((spread**2).sum())
    if whole:
        shares[: len(spread[:2])] = spread[:2] ** 2 / whole
    return places, shares


def draw_word_map(path: Path, vectors: np.ndarray, labels: Sequence[str]) -> Path:
    """Write the map of `vectors` (N, D), named by `labels`, the most important first.

    A label that would cover an earlier one is left out; its word stays as a dot.

    Raises:
        UserError: fewer than three words, or a file name of another kind of picture.
    """
    if len(vectors) < 3:
        raise UserError(f"a map needs at least three words, and here are {len(vectors)}")
    places, shares = principal_components(vectors)
    svg = path.suffix.lower() == ".svg"
    figure = blank_figure(FIGURE_INCHES)
    axes = figure.add_axes((0.085, 0.07, 0.895, 0.88))
    axes.scatter(places[:, 0], places[:, 1], s=7, color="#3b6fa0", alpha=0.55, linewidths=0)
    low, high = places.min(0), places.max(0)
    room = 0.05 * (high - low) + 1e-6
    axes.set_xlim(
        low[0] - room[0], high[0] + 1.6 * room[0]
    )  # settled now: labels are measured below
    axes.set_ylim(low[1] - room[1], high[1] + 1.6 * room[1])
    for name, share, label in zip("xy", shares, ("first", "second"), strict=True):
        text = f"{label} principal component ({100 * share:.0f} % of the spread)"
        getattr(axes, f"set_{name}label")(text)
    axes.grid(alpha=0.2)
    _write_labels(figure, axes, places, labels, svg)
    write_title(figure, f"{len(vectors):,} words by their vectors", "", [])
    return save(figure, path)


def _write_labels(
    figure: Any, axes: Any, places: np.ndarray, labels: Sequence[str], svg: bool
) -> None:
    """Labels beside their dots, in order, as long as they fit."""
    texts = Texts(list(labels), svg)
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
    taken: list[Any] = []
    for place, label in zip(places, labels, strict=True):
        if len(taken) >= MOST_LABELS:
            return
        drawn = axes.annotate(
            texts(label), place, xytext=(3, 2), textcoords="offset points",
            fontsize=FONT_POINTS, family=texts.families, parse_math=False,
        )  # fmt: skip
        box = drawn.get_window_extent(renderer)
        if any(box.overlaps(other) for other in taken):
            drawn.remove()
        else:
            taken.append(box)
