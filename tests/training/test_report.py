"""The report: one offline page that says what the folder says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from budgerigar.training.curve import curve_svg, ticks
from budgerigar.training.report import reproduce, warnings_of

LINES = {"uniform": 4.0, "bigram": 2.5, "order-5 n-gram": 1.9, "order-5 n-gram, streaming": 1.8}


def evaluations(*losses: float) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = [{"kind": "baselines", "losses": LINES}]
    entries += [{"kind": "evaluation", "step": 10 * n, "loss": v} for n, v in enumerate(losses, 1)]
    return entries


def test_warnings_say_what_a_reader_should_know() -> None:
    assert warnings_of(evaluations(3.0, 2.0, 1.5)) == []
    (late,) = warnings_of(evaluations(3.0, 2.6, 2.2))
    assert "order-5 n-gram's 1.900" in late
    (heart,) = warnings_of(evaluations(2.0, 1.5, 1.6, 1.7, 1.8))
    assert "by heart" in heart
    changed = {"kind": "threads", "step": 5, "from": 2, "to": 1}
    assert "step 5" in warnings_of([*evaluations(1.5), changed])[0]


def test_the_curve_is_well_formed_and_names_its_lines() -> None:
    training = [(n, 4.0 / n) for n in range(1, 2000)]
    svg = curve_svg(training, [(500, 1.0), (1999, 0.5)], {**LINES, 'odd "<name>"': 3.0})
    root = ElementTree.fromstring(svg)
    words = " ".join(t.text or "" for t in root.iter("text"))
    assert "bigram 2.500" in words
    assert "streaming" not in words
    points = re.findall(r'points="([^"]*)"', svg)
    assert max(len(p.split()) for p in points) <= 1001


def test_ticks_are_round() -> None:
    assert ticks(0, 2000) == [0, 500, 1000, 1500, 2000]
    assert ticks(1.43, 4.2) == [1.5, 2.0, 2.5, 3.0, 3.5, 4.0]


def test_the_command_quotes_names(tmp_path: object) -> None:
    config = {"text": {"files": ["/a b/诗.txt"]}, "started_from": None}
    from pathlib import Path

    command = reproduce(config, Path("runs/x-1"))
    assert command == "budgie train '/a b/诗.txt' --config runs/x-1/recipe.toml"
