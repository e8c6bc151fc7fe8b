"""The parts of report.html that only a translator has: BLEU, translations, cross-attention."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from budgerigar.training.curve import curve_svg

MOST_TOKENS = 40  # of a source and a translation whose attention is drawn


def bleu_curve(entries: Sequence[dict[str, Any]]) -> str:
    """BLEU of the greedy translations along the way; empty where there were none."""
    points = [
        (e["step"], float(e["bleu"]))
        for e in entries
        if e["kind"] == "evaluation" and e.get("bleu") is not None
    ]
    if len(points) < 2:
        return ""
    picture = curve_svg([], points, {}, "BLEU", "held-out pairs")
    words = (
        "greedy translations of the first held-out sentences; a beam and a test set score higher"
    )
    return f"<h2>BLEU</h2>\n{picture}\n<p>Of {words}.</p>"


def translations_table(entries: Sequence[dict[str, Any]]) -> str:
    """Each sentence with its reference, and what was made of it as training went on."""
    samples = [e for e in entries if e["kind"] == "sample" and e.get("translations")]
    if not samples:
        return ""
    shown = samples if len(samples) <= 6 else [*samples[:2], *samples[-4:]]
    parts = []
    for number, sentence in enumerate(samples[-1]["translations"]):
        rows = [("source", sentence["source"]), ("reference", sentence["reference"])]
        rows += [(f"step {e['step']:,}", e["translations"][number]["hypothesis"]) for e in shown]
        cells = "\n".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in rows
        )
        parts.append(f"<table>{cells}</table>")
    return "<h2>What it translated</h2>\n" + "\n<br>\n".join(parts)


def alignment_map(
    network: Any, tokenizer: Any, source_tokenizer: Any, entries: Sequence[dict[str, Any]]
) -> str:
    """Every head's cross-attention while it wrote a short one of the last translations."""
    samples = [e for e in entries if e["kind"] == "sample" and e.get("translations")]
    if network is None or not samples or not _attends(network.config):
        return ""
    from budgerigar.inspection.export import frame, look_of, page_of
    from budgerigar.inspection.traces import trace

    reader = source_tokenizer or tokenizer
    most = min(MOST_TOKENS, network.context_length - 1)  # and `<end>`
    encoded = [
        (reader.encode(one["source"]), tokenizer.encode(one["hypothesis"]))
        for one in samples[-1]["translations"]
    ]
    read, written = next(
        (p for p in encoded if p[0] and p[1] and max(map(len, p)) <= most), ([], [])
    )
    if not written:
        return ""
    found = trace(network, tokenizer, written, source=read, source_tokenizer=reader)
    state = {"view": "grid", "selection": {"of": "decoder", "kind": "cross"}}
    html_page = page_of(look_of(found), steps=False, state=state)
    return (
        "<h2>What it looks at while it translates</h2>\n<p>A row is the token being written, a column "
        f"a token of the source.</p>\n{frame(html_page)}"
    )


def _attends(config: Any) -> bool:
    return bool(getattr(config, "attends", True))
