"""What report.html says of word vectors: their losses, and neighbours of some words."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


def losses_table(entries: Sequence[dict[str, Any]]) -> str:
    """The held-out loss of the kept vectors beside what needs none."""
    final = [e for e in entries if e["kind"] == "final"]
    if not final:
        return ""
    lines: dict[str, Any] = next(
        (e["losses"] for e in reversed(entries) if e["kind"] == "baselines"), {}
    )
    rows = [(f"these vectors, pass {final[-1]['epoch']}", float(final[-1]["loss"]))]
    rows += [(name, float(loss)) for name, loss in lines.items()]
    cells = "\n".join(
        f'<tr><td>{html.escape(name)}</td><td class="number">{loss:.4f}</td></tr>'
        for name, loss in sorted(rows, key=lambda row: row[1])
    )
    return (
        "<h2>Held-out loss</h2>\n<table><tr><th>what is known of a word</th><th>nats per pair of "
        f"words near each other</th></tr>\n{cells}</table>"
    )


def neighbours_table(entries: Sequence[dict[str, Any]]) -> str:
    """Some words, from frequent to rare, with those whose vectors are nearest."""
    found: dict[str, list[str]] = next(
        (e["words"] for e in reversed(entries) if e["kind"] == "neighbours"), {}
    )
    if not found:
        return ""
    rows = "\n".join(
        f"<tr><td><b>{html.escape(word)}</b></td><td>{html.escape(', '.join(near))}</td></tr>"
        for word, near in found.items()
    )
    return f"<h2>Nearest words</h2>\n<table>{rows}</table>"
