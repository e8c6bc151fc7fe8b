"""A tour: pages of text with places for numbers and pictures that the model shown computes.

A tour is a text file that anybody can write; the lesson is one. It has pages, each of which begins
with a head between two lines `---`:

    ---
    title: Who is "it"?
    level: beginner
    minutes: 3
    model: decoder
    sentence: Xuanyuan has a budgerigar ; it has green feathers .
    ---

    The word *it* looks at *budgerigar* with a weight of {weight query=it key=budgerigar}.

    :: heat query=it key=budgerigar

    ## What happens inside

    - a list

    :: question Why does it look there?
    - (x) Because of this.
    - ( ) Because of that.

    And this is why.
    :: end

In the text `*word*` stands out, `` `code` `` is code, [words](https://…) is a link, and {name …} is a
number of the model. A question may offer answers to choose from; (x) marks the right ones. A line
that begins with `::` shows something; `tour_grammar.py` lists both. Everything else is text and is
shown as text: there is no HTML in a tour. `model` says what kind the page needs (any by default).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from budgerigar.errors import UserError
from budgerigar.explorer.tour_grammar import (
    ASKING,
    CHECKS,
    DIRECTIVES,
    FIELDS,
    LEVELS,
    NUMBERS,
    Directive,
)
from budgerigar.inspection.views.look import KINDS

MOST_BYTES = 512 * 1024
Blocks = list[dict[str, Any]]

_DIRECTIVE = re.compile(r"::\s*([\w-]*)\s*(.*)")
_PARAM = re.compile(r'\s*([\w-]+)=(?:"([^"]*)"|(\S+))')
_INLINE = re.compile(
    r"\{(\{|[^{}\n]*\})|\*([^*\n]+)\*|`([^`\n]+)`|\[([^\[\]\n]+)\]\((https://[^\s()]+)\)"
)
_OFFER = re.compile(r"- \(([ x])\) ")
_HEAD = re.compile(r"([\w-]+)\s*:\s*(.*)")


class _Error(UserError):
    """A mistake in a tour, with file and line."""


def read_tour(path: str | Path) -> Blocks:
    """The pages of a file.

    Raises:
        UserError: the file cannot be read, or has a mistake; the words name file and line.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UserError(f"{file} is too long for a tour: at most {MOST_BYTES // 1024} KB")
        data = file.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UserError(f"the tour {file} cannot be read: {reason}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: byte {error.start} is no UTF-8; save it as UTF-8") from None
    return parse_tour(text, str(file))


def parse_tour(text: str, name: str = "tour") -> Blocks:
    """The pages of a tour, as JSON: {"title", "level", "minutes", "model", "sentence", "source",
    "blocks": [BLOCK]}.

    BLOCK: {"kind": "text"|"heading", "parts": PARTS}, {"kind": "list", "items": [PARTS]},
    {"kind": "choices", "items": [PARTS], "right": [bool]} (answers that a question offers),
    {"kind": directive, "rest": str, "params": {…}, "parts": PARTS of the rest, "blocks": [BLOCK]}
    PARTS: a list of str, {"strong": str}, {"code": str}, {"link": address, "words": str},
    {"number": name, "params": {…}}

    Raises:
        UserError: a mistake, with `name` and its line.
    """
    return _Reader(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), name).pages()


class _Reader:
    """Reads lines one after the other; `at` is the number of the current one, from 0."""

    def __init__(self, lines: list[str], name: str) -> None:
        self.lines, self.name, self.at = lines, name, 0

    def fail(self, words: str, line: int | None = None) -> NoReturn:
        raise _Error(f"{self.name}:{1 + (self.at if line is None else line)}: {words}")

    def pages(self) -> Blocks:
        found = []
        while self._more():
            if self.lines[self.at].strip():
                self._begins_page() or self.fail("a page begins with a line `---` and its title")
                begun = self.at
                found.append({**self._head(), "blocks": self._blocks(None)})
                if missing := _without_sentence(found[-1]):
                    self.fail(f"{missing} needs a `sentence: …` (or `source: …`) above", begun)
            else:
                self.at += 1
        if not found:
            self.at = 0
            self.fail("a tour has at least one page: `---`, `title: …`, `---`, then text")
        return found

    def _more(self) -> bool:
        return self.at < len(self.lines)

    def _begins_page(self) -> bool:
        return self.lines[self.at].strip() == "---"

    def _head(self) -> dict[str, Any]:
        begun = self.at
        found = dict(FIELDS)
        self.at += 1
        while self._more() and not self._begins_page():
            line = self.lines[self.at].strip()
            if line:
                match = _HEAD.fullmatch(line) or self.fail(
                    "a line of a page's head is `name: value`"
                )
                if match[1] not in FIELDS:
                    self.fail(f"a page's head has no {match[1]!r}; it has {', '.join(FIELDS)}")
                found[match[1]] = match[2].strip()
            self.at += 1
        if not self._more():
            self.fail("the head of this page has no end: a second line `---`", begun)
        self.at += 1
        return self._checked(found, begun)

    def _checked(self, found: dict[str, Any], line: int) -> dict[str, Any]:
        if not found["title"]:
            self.fail("the page needs a title: `title: …`", line)
        if found["level"] not in LEVELS:
            self.fail(f"level: {found['level']!r} is none of {', '.join(LEVELS)}", line)
        minutes = found["minutes"]
        if minutes and not (re.fullmatch(r"[0-9]{1,3}", minutes) and int(minutes)):
            self.fail(f"minutes: {minutes!r} must be a whole number from 1 to 999", line)
        kinds = found["model"].split()
        if wrong := [kind for kind in kinds if kind not in (*KINDS, "any")]:
            self.fail(f"model: {wrong[0]!r} is none of any, {', '.join(KINDS)}", line)
        return {**found, "minutes": int(minutes) if minutes else None, "model": kinds or ["any"]}

    def _blocks(self, closing: str | None) -> Blocks:
        """Until the next page, or until `:: end` where `closing` (a directive) is open."""
        begun, found = self.at - 1, list[dict[str, Any]]()
        while self._more() and not self._begins_page():
            line = self.lines[self.at].strip()
            if not line:
                self.at += 1
            elif line.startswith("::"):
                block = self._directive(line, closing)
                if block is None:
                    return found
                found.append(block)
            elif line.startswith("#"):
                found.append({"kind": "heading", "parts": self.parts(line.lstrip("#").strip())})
                self.at += 1
            elif _OFFER.match(line):
                found.append(self._choices(closing))
            elif line.startswith("- "):
                found.append({"kind": "list", "items": self._items()})
            else:
                found.append({"kind": "text", "parts": self._paragraph()})
        if closing:
            self.fail(f"`:: {closing}` has no `:: end`", begun)
        return found

    def _goes_on(self) -> str:
        """The line, where it goes on with a paragraph; else ""."""
        line = self.lines[self.at].strip() if self._more() else ""
        ends = line.startswith(("::", "- ", "#")) or line == "---"
        return "" if ends else line

    def _paragraph(self) -> list[Any]:
        begun, lines = self.at, [self.lines[self.at].strip()]
        self.at += 1
        while line := self._goes_on():
            lines.append(line)
            self.at += 1
        return self.parts(_joined(lines), begun)

    def _items(self) -> list[list[Any]]:
        found = []
        while self._more() and self.lines[self.at].strip().startswith("- "):
            begun, lines = self.at, [self.lines[self.at].strip()[2:].strip()]
            self.at += 1
            while line := self._goes_on():
                lines.append(line)
                self.at += 1
            found.append(self.parts(_joined(lines), begun))
        return found

    def _choices(self, closing: str | None) -> dict[str, Any]:
        """Answers to choose from: `- (x) a right one`, `- ( ) a wrong one`."""
        if closing != "question":
            self.fail("answers to choose from, `- ( ) …`, stand in a `:: question`")
        begun, right = self.at, list[bool]()
        at = self.at
        while at < len(self.lines) and self.lines[at].strip().startswith("- "):
            match = _OFFER.match(self.lines[at].strip()) or self.fail(
                "an answer to choose from is `- ( ) …` or `- (x) …`, all of a list or none", at
            )
            right.append(match[1] == "x")
            self.lines[at] = "- " + self.lines[at].strip()[match.end() :]
            at += 1
        if not any(right):
            self.fail("none of these answers is right: mark one with `- (x) …`", begun)
        return {"kind": "choices", "items": self._items(), "right": right}

    def _directive(self, line: str, closing: str | None) -> dict[str, Any] | None:
        match = _DIRECTIVE.fullmatch(line)
        assert match is not None  # it begins with ::
        name, rest = match[1], match[2].strip()
        known = DIRECTIVES.get(name)
        if known is None:
            self.fail(f"there is no `:: {name}`; there are {', '.join(DIRECTIVES)}")
        if name == "end":
            closing or self.fail("`:: end` ends nothing here")
            self.at += 1
            return None
        if known.closes and closing:
            self.fail(f"`:: {closing}` must end before another one begins: `:: end`")
        params, rest = self._params(name, rest, known)
        if known.choices and rest not in known.choices:
            self.fail(f"`:: {name}` needs {' or '.join(known.choices)}, not {rest!r}")
        if name == "why":
            rest = self._part(rest)
        block = {"kind": name, "rest": rest, "params": params}
        if known.closes:
            block["parts"] = self.parts(rest)
        self.at += 1
        if known.closes:
            block["blocks"] = self._blocks(name)
        return block

    def _params(self, name: str, rest: str, known: Directive) -> tuple[dict[str, Any], str]:
        """The parameters, and what of the line is none."""
        if known.rest and not known.params:
            rest or self.fail(f"`:: {name}` needs {known.rest} after it")
            return {}, rest
        first = ""
        if known.rest:
            first, _, rest = rest.partition(" ")
            first or self.fail(f"`:: {name}` needs {known.rest} after it")
        params = self._given(f"`:: {name}`", rest, known.params)
        for missing in [each for each in known.needed if each not in params]:
            self.fail(f"`:: {name}` needs {missing}=…, {known.params[missing]}")
        return params, first

    def _given(
        self, what: str, text: str, known: Mapping[str, str], line: int | None = None
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        at = 0
        while at < len(text.rstrip()):
            match = _PARAM.match(text, at)
            if match is None:
                self.fail(f"{what}: {text[at:].strip()[:40]!r} is not name=value", line)
            name, value = match[1], match[2] if match[2] is not None else match[3]
            if name not in known:
                self.fail(f"{what} takes no {name!r}; {_known(known)}", line)
            check = CHECKS.get(known[name])
            if not value or (check and not check(value)):
                self.fail(f"{what}: {name}={value!r} must be {known[name]}", line)
            found[name] = int(value) if known[name] == "a number" else value
            at = match.end()
        return found

    def _part(self, name: str) -> str:
        from budgerigar.experiments.why import checked

        try:
            return checked(name)
        except UserError as error:
            self.fail(str(error))

    def parts(self, text: str, line: int | None = None) -> list[Any]:
        """A text's pieces: plain, strong, code, links and numbers."""
        found: list[Any] = []
        at = 0
        for match in _INLINE.finditer(text):
            found.append(text[at : match.start()])
            at = match.end()
            if match[1] == "{":
                found.append("{")
            elif match[1] is not None:
                found.append(self._number(match[1][:-1].strip(), line))
            elif match[5]:
                found.append({"link": match[5], "words": match[4]})
            else:
                found.append({"strong": match[2]} if match[2] else {"code": match[3]})
        found.append(text[at:])
        return [part for part in found if part]

    def _number(self, text: str, line: int | None) -> dict[str, Any]:
        name, _, rest = text.partition(" ")
        if name not in NUMBERS:
            self.fail(f"there is no number {{{name}}}; there are {', '.join(NUMBERS)}", line)
        params = self._given(f"{{{name}}}", rest, NUMBERS[name], line)
        if "query" in NUMBERS[name] and not {"query", "key"} <= params.keys():
            self.fail(f"{{{name}}} needs query=… and key=…", line)
        if "length" in NUMBERS[name] and "length" not in params:
            self.fail(f"{{{name}}} needs length=…", line)
        return {"number": name, "params": params}


def _known(params: Mapping[str, str]) -> str:
    return f"it takes {', '.join(params)}" if params else "it takes nothing"


def _joined(lines: list[str]) -> str:
    """Lines of a paragraph as one; no blank where Chinese goes on in the next line."""
    found = lines[0]
    for line in lines[1:]:
        wide = found[-1:] > "\u2e7f" or line[:1] > "\u2e7f"
        found += line if wide else f" {line}"
    return found


def _without_sentence(page: Mapping[str, Any]) -> str:
    """What on a page asks a model about a sentence that is not there; "" where nothing does."""
    if page["sentence"] or page["source"]:
        return ""
    for block in page["blocks"]:
        if block["kind"] == "sentence":
            return ""
        if block["kind"] in ASKING:
            return f"`:: {block['kind']}`"
        for parts in (block.get("parts", []), *block.get("items", [])):
            for part in parts:
                if isinstance(part, dict) and "number" in part:
                    return f"{{{part['number']}}}"
        if inner := _without_sentence({**page, "blocks": block.get("blocks", [])}):
            return inner
    return ""


def commands(pages: Blocks) -> Iterator[str]:
    """Every command line that pages name: `:: command`, `:: why`, and code that begins so."""
    for page in pages:
        yield from _commands(page["blocks"])


def _commands(blocks: Blocks) -> Iterator[str]:
    for block in blocks:
        if block["kind"] == "command":
            yield block["rest"]
        elif block["kind"] == "why":
            yield f"budgie why {block['rest']}"
        for parts in (block.get("parts", []), *block.get("items", [])):
            for part in parts:
                if isinstance(part, dict) and part.get("code", "").startswith("budgie "):
                    yield part["code"]
        yield from _commands(block.get("blocks", []))
