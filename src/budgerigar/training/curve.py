"""The loss curve as a picture that needs nothing but the page it stands in: inline SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

Points = Sequence[tuple[int, float]]

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 190, 14, 40


class _Scale:
    """From steps and nats to picture coordinates."""

    def __init__(self, last: int, low: float, high: float) -> None:
        self.last, self.low, self.high = max(last, 1), low, max(high, low + 1e-6)

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.last

    def y(self, loss: float) -> float:
        share = (min(max(loss, self.low), self.high) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def curve_svg(
    training: Points,
    held_out: Points,
    lines: Mapping[str, float],
    axis: str = "loss, nats per token",
    held_out_name: str = "held-out text",
) -> str:
    """Training loss (thin), held-out loss (thick, with dots) and lines of simple models to pass.

    `axis` says what is measured; values that are not finite are left out.
    """
    training = [(s, v) for s, v in training if math.isfinite(v)]
    held_out = [(s, v) for s, v in held_out if math.isfinite(v)]
    lines = {k: v for k, v in lines.items() if "streaming" not in k and math.isfinite(v)}
    values = [v for _, v in [*training, *held_out]] + list(lines.values())
    last = max(s for s, _ in [*training, *held_out])
    low, high = min(values), max(values)
    scale = _Scale(last, max(low - 0.05 * (high - low), 0.0), high + 0.03 * (high - low))
    parts = [*_axes(scale, axis), *_lines(scale, lines)]
    parts += _path(scale, training, "#7a9cc6", 1.2) + _path(scale, held_out, "#d1495b", 2.4)
    parts += [
        f'<circle cx="{scale.x(s):.1f}" cy="{scale.y(v):.1f}" r="3.2" fill="#d1495b">'
        f"<title>step {s:,}: {v:.4f}</title></circle>"
        for s, v in held_out
    ]
    parts += _legend(held_out_name if held_out else "", training)
    measured = [v for _, v in [*training, *held_out]]
    words = f"{axis}: from {values[0]:.2f}, between {min(measured):.2f} and {max(measured):.2f}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _path(scale: _Scale, points: Points, colour: str, width: float) -> list[str]:
    if not points:
        return []
    stride = max(len(points) // 800, 1)  # more would not be seen
    kept = [*points[::stride], points[-1]]
    way = " ".join(f"{scale.x(s):.1f},{scale.y(v):.1f}" for s, v in kept)
    return [f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="{width}"/>']


def _axes(scale: _Scale, axis: str) -> list[str]:
    parts = []
    for value in ticks(scale.low, scale.high):
        y = scale.y(value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    for step in ticks(0, scale.last):
        parts.append(
            f'<text x="{scale.x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{step:,.0f}</text>"
        )
    middle = (WIDTH + LEFT - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">step</text>')
    parts.append(
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {HEIGHT / 2})">{html.escape(axis)}</text>'
    )
    return parts


def _lines(scale: _Scale, lines: Mapping[str, float]) -> list[str]:
    """Dashed lines with their names at the right, names kept apart from each other."""
    parts, lowest_free = [], -math.inf
    for name, loss in sorted(lines.items(), key=lambda item: -item[1]):
        y = scale.y(loss)
        text_y = max(y + 4, lowest_free)
        lowest_free = text_y + 14
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            'stroke-dasharray="5 4" stroke-opacity=".55"/>'
            f'<text x="{WIDTH - RIGHT + 8}" y="{text_y:.1f}">{html.escape(name)} {loss:.3f}</text>'
        )
    return parts


def _legend(held_out: str, training: Points) -> list[str]:
    entries = [("#d1495b", held_out)] if held_out else []
    entries += [("#7a9cc6", "training text")] if training else []
    x, top = WIDTH - RIGHT + 8, HEIGHT - BOTTOM + 18  # below the names of the lines
    return [
        f'<line x1="{x}" x2="{x + 22}" y1="{top + 15 * n}" y2="{top + 15 * n}" '
        f'stroke="{colour}" stroke-width="2.4"/>'
        f'<text x="{x + 28}" y="{top + 4 + 15 * n}">{name}</text>'
        for n, (colour, name) in enumerate(entries)
    ]


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers between `low` and `high`, about `about` of them."""
    rough = max((high - low) / about, 1e-9)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]
