"""Fonts for labels in any script: found by the characters they have, not by their names.

matplotlib's own DejaVu Sans has no Chinese. `families_for` returns the families to draw a text with
(matplotlib falls back from one to the next character by character) and what nobody here can draw.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from budgerigar.inspection.labels import is_wide
from budgerigar.progress import note

FONT_PACKAGES = ("pylopdf_fonts_zh_cn",)
"""Packages of `pip install budgerigar[cjk]`: folders of font files, nothing of them is imported."""
MISSING = "▯"
"""Drawn instead of a character that no font here has."""
HINT = (
    "install one with `pip install budgerigar[cjk]` (Noto Sans SC, 17 MB), or on Debian and Ubuntu "
    "`sudo apt install fonts-noto-cjk`; an SVG keeps the characters as text and needs none here"
)

# Sans-serif faces with Chinese, Japanese and Korean that systems bring along, best first. Only the
# order comes from here: any font with the characters will do.
_PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "WenQuanYi Micro Hei",
    "Noto Sans CJK JP",
    "Arial Unicode MS",
)
_BASE = "DejaVu Sans"
_noted: set[str] = set()


def families_for(text: Iterable[str]) -> tuple[list[str], set[str]]:
    """Font families that draw `text` together, the base family first; and what none of them has."""
    wanted = {ord(c) for c in set("".join(text)) if not c.isspace() and c.isprintable()}
    families = [_BASE]
    wanted -= _covered(_BASE)
    if not wanted:
        return families, set()
    for family in _candidates():
        has = wanted & _covered(family)
        if has:
            families.append(family)
            wanted -= has
        if not wanted:
            break
    return families, {chr(code) for code in wanted}


def readable(text: str, missing: set[str]) -> str:
    """`text` with what no font has replaced by `MISSING`, so that nothing is drawn as an error."""
    return "".join(MISSING if character in missing else character for character in text)


def note_missing(missing: set[str]) -> None:
    """Say once for each character that no font has it, and what to do."""
    new = sorted(missing - _noted)
    if not new:
        return
    _noted.update(new)
    shown = "".join(new[:12]) + ("…" if len(new) > 12 else "")
    chinese = any(is_wide(character) for character in new)
    what = HINT if chinese else "an SVG keeps the characters as text"
    note(f"no font here has {shown} (drawn as {MISSING}); {what}")


@lru_cache(maxsize=1)
def _candidates() -> list[str]:
    """Families to look in: the package's, then known ones, then all others by name."""
    from matplotlib.font_manager import fontManager

    _add_packages()
    normal = {
        entry.name
        for entry in fontManager.ttflist
        if entry.style == "normal" and "LastResort" not in entry.fname
    }
    rest = sorted(normal - set(_PREFERRED) - {_BASE}, key=lambda name: (_rank(name), name))
    return [name for name in _PREFERRED if name in normal] + rest


def _rank(name: str) -> int:
    """Sans-serif before the rest, symbols and emoji last."""
    lower = name.lower()
    if "emoji" in lower or "symbol" in lower:
        return 2
    return 0 if "sans" in lower or "gothic" in lower else 1


def _add_packages() -> None:
    """Register the font files of installed font packages with matplotlib."""
    from matplotlib.font_manager import fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for package in FONT_PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            for path in sorted(Path(folder).rglob("*Sans*.[ot]tf")):
                if str(path) not in known:
                    fontManager.addfont(str(path))


@lru_cache(maxsize=64)
def _covered(family: str) -> frozenset[int]:
    """Code points that the regular face of `family` has; empty when it cannot be read."""
    from matplotlib.font_manager import fontManager, get_font

    faces = [e for e in fontManager.ttflist if e.name == family and e.style == "normal"]
    if not faces:
        return frozenset()
    regular = min(faces, key=lambda e: abs((e.weight if isinstance(e.weight, int) else 400) - 400))
    try:
        return frozenset(get_font(regular.fname).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
