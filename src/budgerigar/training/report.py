"""report.html: one offline page about a run: the curve, samples, a heat map, the card, the command.

Written at the end of each run and again by `write_report(folder)` from what the folder holds, so
it says nothing that the files beside it do not.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgerigar.formats.atomic import write_text
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.run import RunFolder
from budgerigar.models.card import card
from budgerigar.models.configs import config_from_dict
from budgerigar.training.curve import curve_svg
from budgerigar.training.fill_in import UNITS, plain_line, plateau
from budgerigar.training.given import command_words
from budgerigar.training.objectives import SPAN_CORRUPTION
from budgerigar.training.report_pairs import alignment_map, bleu_curve, translations_table
from budgerigar.training.report_vectors import losses_table, neighbours_table

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .75rem; border: 1px solid #8886;
      border-radius: .3rem; font: 14px/1.45 ui-monospace, monospace }
table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto } .warning { border-left: .3rem solid #c60; padding-left: .7rem }
details { margin: .5rem 0 } iframe { border: 0; width: 100% }
"""


def write_report(
    folder: Path, network: Any = None, tokenizer: Any = None, source_tokenizer: Any = None
) -> Path:
    """Write report.html into a run folder; with a network, it has a heat map too."""
    page = report_html(folder, network, tokenizer, source_tokenizer)
    write_text(Path(folder) / "report.html", page)
    return Path(folder) / "report.html"


def report_html(
    folder: Path, network: Any = None, tokenizer: Any = None, source_tokenizer: Any = None
) -> str:
    """The page as text."""
    run = RunFolder.open(folder)
    config, recipe = run.config(), run.recipe() or {}
    entries = read_metrics(run.metrics_path)
    vectors = config["kind"] == "word-vectors"
    unit = unit_of(entries)
    if vectors:
        written = [neighbours_table(entries)]
    elif config["text"].get("pairs"):
        written = [
            translations_table(entries),
            alignment_map(network, tokenizer, source_tokenizer, entries),
        ]
    else:
        written = [_samples(entries), _heat_map(network, tokenizer, config, entries)]
    parts = [
        _head(folder, config, recipe),
        _warnings(entries),
        _curve(entries, "loss, nats per pair" if vectors else f"loss, {unit}"),
        bleu_curve(entries),
        losses_table(entries) if vectors else _numbers(entries),
        *written,
        _card(folder, config),
        _text_notes(config),
        _command(config, recipe, folder),
    ]
    title = html.escape(Path(folder).name)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n<style>{STYLE}</style>\n'
        + "\n".join(part for part in parts if part)
        + "\n</html>\n"
    )


def unit_of(entries: Sequence[dict[str, Any]]) -> str:
    """What losses are counted in."""
    return next((str(e["unit"]) for e in entries if "unit" in e), "nats per token")


def _head(folder: Path, config: dict[str, Any], recipe: dict[str, Any]) -> str:
    about = recipe.get("about", "")
    files = ", ".join(Path(f).name for f in _training_files(config["text"]))
    text = files or recipe.get("text", {}).get("corpus") or "text given by a program"
    return (
        f"<h1>{html.escape(Path(folder).name)}</h1>\n"
        f"<p>{html.escape(about)}. Text: {html.escape(str(text))}.</p>"
    )


def _training_files(text: dict[str, Any]) -> list[str]:
    """The files that were learnt from."""
    kinds = ("files", "source_files", "target_files", "pair_files")
    return [str(file) for kind in kinds for file in text.get(kind, ())]


def warnings_of(entries: Sequence[dict[str, Any]]) -> list[str]:
    """What a careful reader should know of a run, from its metrics."""
    found = []
    evaluations = [e for e in entries if e["kind"] == "evaluation"]
    losses = [float(e["loss"]) for e in evaluations]
    lines = _baselines(entries)
    if on_plateau := plateau(losses, lines, unit_of(entries)):
        found.append(on_plateau)
    elif losses:
        best = min(losses)
        rivals = {k: v for k, v in lines.items() if "streaming" not in k and k != "uniform"}
        better = [k for k, v in rivals.items() if v < best]
        if better:
            name = min(better, key=lambda k: rivals[k])
            found.append(
                f"The best loss, {best:.3f}, is not below the {name}'s {rivals[name]:.3f}: the model "
                "is too small, or trained too short, or the text is too short."
            )
        after = len(losses) - 1 - losses.index(best)
        if after >= 3 and losses[-1] > best + 0.02 and not _bleu_rises(evaluations):
            found.append(
                f"The loss on held-out text rose from {best:.3f} to {losses[-1]:.3f} over the last "
                f"{after} evaluations: from then on the model learnt the training text by heart. "
                "The best weights are the ones kept; more text or more dropout would help."
            )
    found += [
        f"At step {e['step']:,} the number of threads changed from {e['from']} to {e['to']}: from "
        "there on the run cannot be repeated bit by bit."
        for e in entries
        if e["kind"] == "threads"
    ]
    found += [
        f"Stopped at step {e['step']:,}: {e['reason']}." for e in entries if e["kind"] == "failed"
    ]
    return found


def _bleu_rises(evaluations: Sequence[dict[str, Any]]) -> bool:
    """Whether translations still became better at the end, as they do while losses rise a little."""
    scores = [float(e["bleu"]) for e in evaluations if e.get("bleu") is not None]
    return len(scores) > 1 and max(scores[-3:]) == max(scores)


def _warnings(entries: Sequence[dict[str, Any]]) -> str:
    return "\n".join(f'<p class="warning">{html.escape(w)}</p>' for w in warnings_of(entries))


def _baselines(entries: Sequence[dict[str, Any]]) -> dict[str, float]:
    return next((dict(e["losses"]) for e in entries if e["kind"] == "baselines"), {})


def _curve(entries: Sequence[dict[str, Any]], axis: str) -> str:
    training = [(e["step"], float(e["loss"])) for e in entries if e["kind"] == "step"]
    held_out = [(e["step"], float(e["loss"])) for e in entries if e["kind"] == "evaluation"]
    if len(training) + len(held_out) < 2:
        return ""
    return "<h2>Loss</h2>\n" + curve_svg(training, held_out, _baselines(entries), axis)


def _numbers(entries: Sequence[dict[str, Any]]) -> str:
    """The held-out losses beside those of simple models, best first."""
    evaluations = [e for e in entries if e["kind"] == "evaluation"]
    if not evaluations:
        return ""
    whole = [
        e for e in entries if e["kind"] == "final"
    ]  # over the whole split, where it was reached
    best = whole[-1] if whole else min(evaluations, key=lambda e: float(e["loss"]))
    name = f"this model, step {best['step']:,}" if best["step"] else "this model"
    rows = [(name, float(best["loss"])), *_baselines(entries).items()]
    rows.sort(key=lambda row: row[1])
    cells = "\n".join(
        f'<tr><td>{html.escape(name)}</td><td class="number">{loss:.4f}</td></tr>'
        for name, loss in rows
    )
    title = "Beside simple models" if _baselines(entries) else "Held-out loss"
    return (
        f"<h2>{title}</h2>\n<table><tr><th>model</th><th>{unit_of(entries)}, held-out text"
        f"</th></tr>\n{cells}</table>\n<p>{_best_in_words(best)}</p>"
    )


def _best_in_words(best: dict[str, Any]) -> str:
    """What was measured of the best weights beside their loss."""
    said = []
    if "bits_per_byte" in best:
        said.append(f"Best: {float(best['bits_per_byte']):.4f} bits per byte.")
    if best.get("bleu") is not None:
        said.append(f"BLEU {float(best['bleu']):.2f}, greedily.")
    if "accuracy" in best:
        said.append(
            f"{100 * float(best['accuracy']):.1f} % of the texts right, macro F1 "
            f"{100 * float(best['macro_f1']):.1f} %."
        )
    if best.get("unit") in UNITS:
        said.append(
            "Each token is told from both sides: not comparable with losses of next tokens."
        )
    return " ".join(said)


def _samples(entries: Sequence[dict[str, Any]]) -> str:
    samples = [e for e in entries if e["kind"] == "sample"]
    if not samples:
        return ""
    shown = [
        f"<details{' open' if e is samples[-1] or e is samples[0] else ''}><summary>step "
        f"{e['step']:,}</summary><pre>{html.escape(e['text'])}</pre></details>"
        for e in samples
    ]
    return "<h2>What it wrote</h2>\n" + "\n".join(shown)


def _heat_map(
    network: Any, tokenizer: Any, config: dict[str, Any], entries: Sequence[dict[str, Any]]
) -> str:
    """Every head's weights over the last sample's first words."""
    texts = [e["text"] for e in entries if e["kind"] == "sample" and e["text"].strip()]
    if network is None or not texts or config["kind"] != "transformer":
        return ""
    objective = config["text"].get("objective")
    if objective == SPAN_CORRUPTION:
        return ""
    if objective is not None:  # its first line is of the text itself
        texts = [plain_line(texts[-1])]
    from budgerigar.inspection.export import frame, look_of, page_of
    from budgerigar.inspection.traces import trace

    usual = config["text"].get("end_id")
    start = (
        next(iter(tokenizer.start_ids), usual) if config["text"].get("starts_documents") else None
    )
    most = min(40, network.context_length - 1)
    ids = tokenizer.encode(texts[-1])[:most]
    if len(ids) < 2:
        return ""
    found = trace(network, tokenizer, ids, start_id=start)
    return (
        "<h2>What its heads look at</h2>\n<p>A row is the token that looks, a column the token looked "
        "at.</p>\n" + frame(page_of(look_of(found), steps=False, state={"view": "grid"}))
    )


def _card(folder: Path, config: dict[str, Any]) -> str:
    found = card(config_from_dict(config["model"]), Path(folder).name)
    return f"<h2>Card</h2>\n<pre>{html.escape(found.text())}</pre>"


def _text_notes(config: dict[str, Any]) -> str:
    notes = config["text"].get("notes", [])
    sources = [f"{s['path']}: SHA-256 {s['sha256']}" for s in config["text"].get("sources", [])]
    items = "\n".join(f"<li>{html.escape(line)}</li>" for line in [*notes, *sources])
    return f"<h2>Text</h2>\n<ul>{items}</ul>" if items else ""


def reproduce(config: dict[str, Any], folder: Path) -> str:
    """The command that does the same again; recipe.toml holds every setting."""
    files = [shlex.quote(word) for word in command_words(config["text"])]
    words = ["budgie", "train", *files, "--config", shlex.quote(str(Path(folder) / "recipe.toml"))]
    if config.get("started_from"):
        words += ["--from", shlex.quote(config["started_from"])]
    return " ".join(words)


def _command(config: dict[str, Any], recipe: dict[str, Any], folder: Path) -> str:
    seed = recipe.get("training", {}).get("seed")
    note = f" (seed {seed})" if seed is not None else ""
    return f"<h2>To do it again{note}</h2>\n<pre>{html.escape(reproduce(config, folder))}</pre>"
