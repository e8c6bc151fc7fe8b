"""Checking source and target together, and training files against test files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from budgerigar.text.findings import Finding, PairsReport, Places
from budgerigar.text.reading import read_text

OUTLIER = 4.0  # times the usual ratio of lengths
SHORTEST = 10  # characters: the lengths of shorter lines say little


def check_pairs(paths: Sequence[str | Path], encoding: str | None = None) -> PairsReport:
    """`paths`: a source and a target file, or one file with a tab between them."""
    report = PairsReport(str(paths[0]), str(paths[-1]))
    source, target, ragged = read_pairs(paths, encoding)
    report.findings += ragged
    report.n_pairs = min(len(source), len(target))
    ratios = [
        (len(b) + 1) / (len(a) + 1)
        for a, b in zip(source, target, strict=False)
        if a.strip() and b.strip()
    ]
    report.ratio = median(ratios) if ratios else 0.0
    if len(source) != len(target):
        report.findings.append(_unequal(source, target, report.ratio))
    report.findings += _about_pairs(source, target, report.ratio)
    return report


def read_pairs(
    paths: Sequence[str | Path], encoding: str | None = None
) -> tuple[list[str], list[str], list[Finding]]:
    """(source lines, target lines, findings about rows without two columns)."""
    if len(paths) == 2:
        return _lines(paths[0], encoding), _lines(paths[1], encoding), []
    few, many = Places(), Places()
    source, target = [], []
    for number, line in enumerate(_lines(paths[0], encoding), 1):
        columns = line.split("\t")
        if len(columns) < 2 and line.strip():
            few.add(number)
        elif len(columns) > 2:
            many.add(number)
        source.append(columns[0])
        target.append(columns[1] if len(columns) > 1 else "")
    found = []
    if few.count:
        found.append(few.finding("error", "{n} rows have no tab", "A row is source, tab, target"))
    if many.count:
        found.append(many.finding("warning", "{n} rows have over two columns", "Two are read"))
    return source, target, found


def check_overlap(
    train: Sequence[str | Path],
    test: Sequence[str | Path],
    pairs: bool,
    encoding: str | None = None,
) -> list[Finding]:
    """Test lines that stand in the training files too: scores on them say nothing."""
    if pairs:
        a_source, a_target, _ = read_pairs(train, encoding)
        b_source, b_target, _ = read_pairs(test, encoding)
        sides = [("source", a_source, b_source), ("target", a_target, b_target)]
    else:
        a_text = [line for path in train for line in _lines(path, encoding)]
        b_text = [line for path in test for line in _lines(path, encoding)]
        sides = [("", a_text, b_text)]
    found = []
    for side, seen, asked in sides:
        known = {line.strip() for line in seen}
        places = Places()
        for number, line in enumerate(asked, 1):
            # Short lines of running text ("Exeunt.") recur anywhere; whole sentences do not.
            if line.strip() in known and (pairs or len(line) >= 2 * SHORTEST) and line.strip():
                places.add(number)
        if places.count:
            share = 100 * places.count / max(1, len(asked))
            what = f"{{n}} of {len(asked):,} test {side} lines ({share:.1f} %) are in training too"
            advice = "Take them out of the training files, or scores are too good"
            found.append(places.finding("warning", what.replace("  ", " "), advice))
    return found


def _lines(path: str | Path, encoding: str | None) -> list[str]:
    """Lines end at LF only; U+2028 and form feed are text."""
    lines = read_text(path, encoding).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _unequal(source: list[str], target: list[str], ratio: float) -> Finding:
    what = f"the source has {len(source):,} lines, the target {len(target):,}"
    advice = "Pairs are lines of the same number"
    for number, (a, b) in enumerate(zip(source, target, strict=False), 1):
        if bool(a.strip()) != bool(b.strip()) or _is_outlier(a, b, ratio):
            advice += f"; the first that does not look like a pair is line {number:,}"
            return Finding("error", what, lines=[number], advice=advice)
    last = min(len(source), len(target)) + 1
    return Finding("error", what, lines=[last], advice=advice + "; all before look like pairs")


def _about_pairs(source: list[str], target: list[str], ratio: float) -> Iterator[Finding]:
    blank_source, blank_target, blank_both = Places(), Places(), Places()
    copies, outliers, repeats, tabs = Places(), Places(), Places(), Places()
    seen: set[tuple[str, str]] = set()
    for number, (a, b) in enumerate(zip(source, target, strict=False), 1):
        has_a, has_b = bool(a.strip()), bool(b.strip())
        if not (has_a and has_b):
            (blank_both if has_a == has_b else blank_target if has_a else blank_source).add(number)
            continue
        if a.strip() == b.strip():
            copies.add(number)
        if _is_outlier(a, b, ratio):
            outliers.add(number)
        if "\t" in a or "\t" in b:
            tabs.add(number)
        if (a, b) in seen:
            repeats.add(number)
        seen.add((a, b))
    dropped = "Such pairs are dropped, nothing is shifted"
    odd = f"{{n}} pairs are of lengths over {OUTLIER:g} times off the usual {ratio:.2f}"
    for places, level, what, advice in (
        (blank_source, "warning", "{n} lines are blank in the source only", dropped),
        (blank_target, "warning", "{n} lines are blank in the target only", dropped),
        (blank_both, "note", "{n} lines are blank on both sides", ""),
        (copies, "warning", "{n} targets are copies of their source", "Were they translated?"),
        (outliers, "warning", odd, "Are they translations of each other?"),
        (tabs, "note", "{n} pairs hold a tab", "In two files it is text"),
        (repeats, "note", "{n} pairs repeat an earlier one", ""),
    ):
        if places.count:
            yield places.finding(level, what, advice)


def _is_outlier(a: str, b: str, ratio: float) -> bool:
    if not ratio or max(len(a), len(b)) < SHORTEST:
        return False
    relative = (len(b) + 1) / (len(a) + 1) / ratio
    return relative > OUTLIER or relative < 1 / OUTLIER
