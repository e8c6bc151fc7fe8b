"""Checking source and target together, and training files against test files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from statistics import median

from budgerigar.errors import UserError
from budgerigar.text.findings import Finding, PairsReport, Places
from budgerigar.text.pair_files import PairCounts, holds_records, iter_lines
from budgerigar.text.pair_lengths import OUTLIER, SHORTEST, LineLengths
from budgerigar.text.pair_rows import json_rows, names_columns


def check_pairs(paths: Sequence[str | Path], encoding: str | None = None) -> PairsReport:
    """`paths`: a source and a target file, or one file that holds both sides."""
    report = PairsReport(str(paths[0]), str(paths[-1]))
    read = _read(paths, encoding)
    source, target = read.source, read.target
    report.findings += read.findings
    report.n_pairs = min(len(source), len(target))
    ratios = [
        (len(b) + 1) / (len(a) + 1)
        for a, b in zip(source, target, strict=False)
        if a.strip() and b.strip()
    ]
    report.ratio = median(ratios) if ratios else 0.0
    if len(source) != len(target):
        report.findings.append(_unequal(source, target))
    elif not ratios and not any(finding.level == "error" for finding in read.findings):
        report.findings.append(Finding("error", "there is no pair to learn from"))
    report.findings += _about_pairs(read, report.ratio)
    return report


@dataclass
class _Read:
    """Lines of both sides, the number of the first, and findings about rows that are no pairs."""

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    first: int = 1
    findings: list[Finding] = field(default_factory=list)


def _read(paths: Sequence[str | Path], encoding: str | None) -> _Read:
    if len(paths) == 2:
        return _Read(_lines(paths[0], encoding), _lines(paths[1], encoding))
    if holds_records(Path(paths[0])):
        return _read_records(paths[0], encoding)
    return _read_table(paths[0], encoding)


def _read_records(path: str | Path, encoding: str | None) -> _Read:
    read, counts = _Read(), PairCounts()
    try:
        for _, source, target in json_rows(iter_lines(path, encoding), str(path), None, counts.add):
            read.source.append(source)
            read.target.append(target)
    except UserError as error:
        read.findings.append(Finding("error", str(error)))
    read.findings += [Finding("note", words) for words in counts.notes()]
    return read


def _read_table(path: str | Path, encoding: str | None) -> _Read:
    read, few, many = _Read(), Places(), Places()
    columns = (0, 1)
    for number, line in enumerate(iter_lines(path, encoding), 1):
        cells = line.split("\t")
        if number == 1 and (named := names_columns(cells)):
            columns, read.first = named, 2
            said = Finding("note", "the first row names the columns: it is no pair", lines=[1])
            read.findings.append(said)
            continue
        if len(cells) <= max(columns) and line.strip():
            few.add(number)
        elif len(cells) > 2:
            many.add(number)
        for side, column in zip((read.source, read.target), columns, strict=True):
            side.append(cells[column] if column < len(cells) else "")
    if few.count:
        advice = "A row is source, tab, target"
        read.findings.append(few.finding("error", "{n} rows have no tab", advice))
    if many.count:
        what = "{n} rows have over two columns"
        read.findings.append(many.finding("warning", what, "Two are read"))
    return read


def check_overlap(
    train: Sequence[str | Path],
    test: Sequence[str | Path],
    pairs: bool,
    encoding: str | None = None,
) -> list[Finding]:
    """Test lines that stand in the training files too: scores on them say nothing."""
    if pairs:
        a, b = _read(train, encoding), _read(test, encoding)
        sides, first = [("source", a.source, b.source), ("target", a.target, b.target)], b.first
    else:
        a_text = [line for path in train for line in _lines(path, encoding)]
        b_text = [line for path in test for line in _lines(path, encoding)]
        sides, first = [("", a_text, b_text)], 1
    found = []
    for side, seen, asked in sides:
        known = {line.strip() for line in seen}
        places = Places()
        for number, line in enumerate(asked, first):
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
    return list(iter_lines(path, encoding))


def _unequal(source: list[str], target: list[str]) -> Finding:
    what = f"the source has {len(source):,} lines, the target {len(target):,}"
    advice = "Pairs are lines of the same number"
    lengths = LineLengths()
    for pair in zip_longest(source, target):
        lengths.add(*pair)
    if line := lengths.suspicious_line():
        advice += f"; the first place that does not look like pairs is at about line {line:,}"
        return Finding("error", what, lines=[line], advice=advice)
    last = min(len(source), len(target)) + 1
    return Finding("error", what, lines=[last], advice=advice + "; all before look like pairs")


def _about_pairs(read: _Read, ratio: float) -> Iterator[Finding]:
    blank_source, blank_target, blank_both = Places(), Places(), Places()
    copies, outliers, repeats, tabs = Places(), Places(), Places(), Places()
    seen: set[tuple[str, str]] = set()
    for number, (a, b) in enumerate(zip(read.source, read.target, strict=False), read.first):
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
