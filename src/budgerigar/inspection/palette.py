"""Colours without matplotlib: viridis (van der Walt & Smith 2015), and what a terminal can show.

Viridis is perceptually uniform and readable with colour-blind eyes; 17 anchors reproduce it to
within 6 of 255 per channel. Colours are (red, green, blue), each 0 to 255.
"""

from __future__ import annotations

import os
from typing import IO, Any, Literal

Colour = tuple[int, int, int]
Depth = Literal["truecolor", "256", "none"]

_VIRIDIS: tuple[Colour, ...] = (
    (68, 1, 84),
    (72, 24, 106),
    (71, 45, 123),
    (66, 64, 134),
    (59, 82, 139),
    (51, 99, 141),
    (44, 114, 142),
    (38, 130, 142),
    (33, 145, 140),
    (31, 160, 136),
    (40, 174, 128),
    (63, 188, 115),
    (94, 201, 98),
    (132, 212, 75),
    (173, 220, 48),
    (216, 226, 25),
    (253, 231, 37),
)
# The same way through the 6 x 6 x 6 colour cube of 256-colour terminals, ever lighter.
_CUBE: tuple[Colour, ...] = (
    (95, 0, 95),
    (95, 0, 135),
    (95, 95, 135),
    (0, 135, 135),
    (0, 175, 135),
    (95, 175, 95),
    (95, 215, 95),
    (135, 215, 95),
    (175, 215, 95),
    (215, 215, 0),
    (255, 215, 0),
)
# The ends of matplotlib's RdBu, which colour-blind eyes tell apart.
_RED: Colour = (178, 24, 43)
_BLUE: Colour = (33, 102, 172)
GREY: Colour = (128, 128, 128)
RESET = "\x1b[0m"


def viridis(share: float, depth: Depth = "truecolor") -> Colour:
    """The colour of `share` in 0..1 (what lies outside is clipped), as far as `depth` has it."""
    share = min(max(share, 0.0), 1.0)
    if depth == "256":
        return _CUBE[round(share * (len(_CUBE) - 1))]
    at = share * (len(_VIRIDIS) - 1)
    low = min(int(at), len(_VIRIDIS) - 2)
    part = at - low
    red, green, blue = (
        round(a + (b - a) * part) for a, b in zip(_VIRIDIS[low], _VIRIDIS[low + 1], strict=True)
    )
    return red, green, blue


def diverging(value: float, depth: Depth = "truecolor") -> Colour:
    """The colour of `value` in -1..1 (what lies outside is clipped): blue, white at 0, red."""
    value = min(max(value, -1.0), 1.0)
    end = _RED if value > 0 else _BLUE
    if depth == "256":
        value = round(value * 4) / 4  # few enough steps for the colour cube
    red, green, blue = (round(255 + (c - 255) * abs(value)) for c in end)
    return red, green, blue


def ink(background: Colour) -> Colour:
    """Black or white, whichever reads better on `background` (relative luminance, WCAG 2)."""
    red, green, blue = ((c / 255) ** 2.2 for c in background)
    return (0, 0, 0) if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else (255, 255, 255)


def depth_of(stream: IO[Any]) -> Depth:
    """How many colours `stream` shows, by NO_COLOR, FORCE_COLOR, TERM and COLORTERM."""
    environment = os.environ
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return "none"
    if not environment.get("FORCE_COLOR") and not stream.isatty():
        return "none"
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    if "WT_SESSION" in environment or "direct" in environment.get("TERM", ""):
        return "truecolor"
    return "256" if "256" in environment.get("TERM", "") or os.name == "nt" else "none"


def paint(
    text: str, depth: Depth, background: Colour | None = None, foreground: Colour | None = None
) -> str:
    """`text` with ANSI colours, or as it is when `depth` is "none"."""
    if depth == "none" or (background is None and foreground is None):
        return text
    codes = []
    if foreground is not None:
        codes.append("38;" + _code(foreground, depth))
    if background is not None:
        codes.append("48;" + _code(background, depth))
    return f"\x1b[{';'.join(codes)}m{text}{RESET}"


def _code(colour: Colour, depth: Depth) -> str:
    if depth == "truecolor":
        return "2;{};{};{}".format(*colour)
    # The 6 x 6 x 6 cube of the 256 colours has the levels 0, 95, 135, 175, 215, 255.
    red, green, blue = (0 if c < 48 else 1 if c < 115 else (c - 35) // 40 for c in colour)
    return f"5;{16 + 36 * red + 6 * green + blue}"
