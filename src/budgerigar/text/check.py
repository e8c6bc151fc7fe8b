"""Looking at files before training: `budgie check FILE…`.

Everything is read in blocks, so a large file needs little memory (but for the table of its lines,
of which the first two million are compared).
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.text.documents import read_documents
from budgerigar.text.findings import FileReport, Finding, Places, Report
from budgerigar.text.proposing import explain_split
from budgerigar.text.reading import detect_encoding, read_blocks

LONG_LINE = 10_000  # characters: longer than any line that somebody wrote as one
MOST_LINES = 2_000_000  # lines compared for duplicates
SHORTEST_DUPLICATE = 20  # characters: shorter lines repeat in any text

# Characters that are text to us, but end a line, or show nothing, elsewhere.
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd]")
_ODD_NAMES = {
    "\x00": ("NUL", "Is this a binary file, or UTF-16?"),
    "\x0b": ("vertical tab", "It stays in the text; other tools may end a line there."),
    "\x0c": ("form feed", "It stays in the text; other tools may end a line there."),
    "\x85": ("U+0085 (next line)", "It stays in the text; other tools may end a line there."),
    "\u2028": (
        "U+2028 (line separator)",
        "It stays in the text; other tools may end a line there.",
    ),
    "\u2029": ("U+2029 (paragraph separator)", "It stays; other tools may end a line there."),
    "\ufeff": ("U+FEFF (byte-order mark) inside", "Were files joined? Take it out."),
    "\ufffd": ("U+FFFD (replacement character)", "The text was damaged before; see the source."),
}
_CONTROL = ("other control characters", "Terminal colours or damage? They would be learnt.")


def check_files(
    paths: Sequence[str | Path],
    pairs: bool = False,
    encoding: str | None = None,
    test: Sequence[str | Path] | None = None,
) -> Report:
    """Look at `paths` and say what is remarkable.

    pairs: `paths` are a source and a target file of equal line counts, or one file with source and
        target parted by a tab. test: files of the same form that training must not have seen.
    Raises `UserError` only for a wrong number of files; what is wrong inside is a finding.
    """
    from budgerigar.text.check_pairs import check_overlap, check_pairs

    if not paths:
        raise UserError("there is no file to check; name one or more")
    if pairs and len(paths) > 2:
        raise UserError(f"pairs are in one file (with tabs) or two, not in {len(paths)}")
    if pairs and test and len(test) != len(paths):
        raise UserError(f"{len(paths)} training file(s) need as many test files, not {len(test)}")
    everything = [*paths, *(test or ())]
    report = Report([check_file(path, encoding) for path in everything])
    if pairs and all(file.encoding for file in report.files[: len(paths)]):
        report.pairs = check_pairs(paths, encoding)
    if test and all(file.encoding for file in report.files):
        report.overlap = check_overlap(paths, test, pairs, encoding)
    return report


def check_file(path: str | Path, encoding: str | None = None) -> FileReport:
    """One file by itself. An unreadable or undecodable one gives a report with that error."""
    report = FileReport(str(path))
    try:
        report.n_bytes = Path(path).stat().st_size if Path(path).exists() else 0
        detected = detect_encoding(path, encoding)
        scan = _Scan()
        with progress.track(f"checking {Path(path).name}", None, "characters") as job:
            for block in read_blocks(path, encoding):
                scan.block(block)
                job.advance(len(block))
        scan.end()
        report.documents, report.documents_reason = explain_split(path, encoding)
        report.n_documents = _count_documents(path, report.documents, encoding)
        ends = _line_ends(path, detected.encoding)
    except UserError as error:
        report.findings.append(Finding("error", str(error)))
        return report
    report.encoding, report.encoding_reason = detected.encoding, detected.reason
    report.has_bom = detected.bom > 0
    report.n_characters, report.n_lines = scan.n_characters, scan.n_lines
    report.n_distinct = len(scan.counts)
    report.findings = [*_about_encoding(report), *ends, *scan.findings()]
    return report


class _Scan:
    """One pass over the text of a file, block by block."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first_line: dict[str, int] = {}  # of each character
        self.n_characters = self.n_lines = self.longest = 0
        self._rest = ""  # of the line that the block ended in
        self._odd: dict[str, Places] = defaultdict(Places)
        self._long, self._repeated, self._blank = Places(), Places(), Places()
        self._seen: dict[int, int] = {}  # a line's hash -> the line it was first seen in
        self._first_of: Counter[int] = Counter()

    def block(self, text: str) -> None:
        """Take in the next part of the text."""
        self.n_characters += len(text)
        for character in set(text) - self.counts.keys():
            at = text.index(character)
            self.first_line[character] = self.n_lines + 1 + text.count("\n", 0, at)
        self.counts.update(text)
        lines = text.split("\n")
        lines[0] = self._rest + lines[0]
        self._rest = lines.pop()
        for line in lines:
            self._line(line)

    def end(self) -> None:
        """The text is over; a last line without a newline counts too."""
        if self._rest:
            self._line(self._rest)
            self._rest = ""

    def _line(self, line: str) -> None:
        self.n_lines += 1
        number = self.n_lines
        for odd in _ODD.findall(line):
            self._odd[odd if odd in _ODD_NAMES else ""].add(number)
        self.longest = max(self.longest, len(line))
        if len(line) > LONG_LINE:
            self._long.add(number)
        if not line.strip():
            self._blank.add(number)
        elif len(line) >= SHORTEST_DUPLICATE and len(self._seen) < MOST_LINES:
            key = hash(line)
            first = self._seen.setdefault(key, number)
            if first != number:
                self._repeated.add(number)
                self._first_of[first] += 1

    def findings(self) -> Iterator[Finding]:
        """What is remarkable in the text."""
        if self.n_characters < 2:
            what = "a single character" if self.n_characters else "no text"
            yield Finding(
                "error", f"there is {what} in it", advice="Two are the least to learn from"
            )
        elif self._blank.count == self.n_lines:
            yield Finding(
                "warning",
                "there are only blanks and line ends in it",
                advice="It trains; is it the text you meant?",
            )
        for odd, places in self._odd.items():
            name, advice = _ODD_NAMES.get(odd, _CONTROL)
            yield places.finding("warning", f"{name}: {{n}} times", advice)
        if self._long.count:
            yield self._long.finding(
                "warning",
                f"{{n}} lines hold over {LONG_LINE:,} characters, the longest {self.longest:,}",
                "They train; is it the text you meant?",
            )
        if self._repeated.count:
            most, times = self._first_of.most_common(1)[0]
            yield self._repeated.finding(
                "note",
                f"{{n}} lines repeat an earlier one; line {most:,} occurs {times + 1:,} times",
                "Many repeats are learnt by heart.",
            )
        if len(self._seen) >= MOST_LINES:
            yield Finding("note", f"only the first {MOST_LINES:,} lines were compared")
        yield from self._rare()

    def _rare(self) -> Iterator[Finding]:
        once = sorted(
            (self.first_line[character], character)
            for character, count in self.counts.items()
            if count == 1 and character != "\n"
        )
        if once and self.n_characters > 1000:
            places = Places()
            for line, _ in once:
                places.add(line)
            shown = ", ".join(_shown(character) for _, character in once[:8])
            more = ", …" if len(once) > 8 else ""
            yield places.finding("note", f"{{n}} characters are seen once: {shown}{more}")


def _shown(character: str) -> str:
    code = f"U+{ord(character):04X}"
    visible = unicodedata.category(character)[0] in "LNPS"
    return f"{character} ({code})" if visible else code


def _about_encoding(report: FileReport) -> Iterator[Finding]:
    if report.has_bom:
        yield Finding("note", "it begins with a byte-order mark, which is not part of the text")
    if report.encoding not in ("utf-8", "ascii"):
        yield Finding("note", f"it is read as {report.encoding} ({report.encoding_reason})")


def _count_documents(path: str | Path, how: str, encoding: str | None) -> int:
    if how == "none":
        return 1
    return sum(piece.ends for piece in read_documents([path], how, encoding))


def _line_ends(path: str | Path, encoding: str) -> list[Finding]:
    """CRLF and CR, as they stand in the file; they are read as LF."""
    crlf, cr, line, held = Places(), Places(), 1, False
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            text = decoder.decode(data)
            if "\r" not in text and not held:
                line += text.count("\n")
                continue
            # A CR at the end of a block may be half of a CRLF.
            text, held = ("\r" if held else "") + text, text.endswith("\r")
            text = text[:-1] if held else text
            for end in re.findall("\r\n|\r|\n", text):
                if end != "\n":
                    (crlf if end == "\r\n" else cr).add(line)
                line += 1
    if held:
        cr.add(line)
    mixed = (crlf.count and cr.count) or (crlf.count or cr.count) < line - 2
    advice = "They become LF." + (" Line ends are mixed." if mixed else "")
    found = [(crlf, "{n} line ends are CRLF (Windows)"), (cr, "{n} line ends are CR (old Mac)")]
    return [places.finding("note", what, advice) for places, what in found if places.count]
