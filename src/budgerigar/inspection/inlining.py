"""The page's modules as one classic script, for files: a browser imports no modules from a disk.

`explorer/page/` holds plain modules under a few rules (see `views.js`): one import a line, only
`import { a, b } from "./x.js";`, and `export` only before a function, a constant or a class. So each
becomes a function that returns what it exports, in an order in which every module stands after those
that it imports:

    const m_payload = (() => { "use strict"; … return { unpack, fromBase64 }; })();
    const m_source = (() => { "use strict"; const { unpack } = m_payload; … return { liveSource }; })();

The files are read as data of the package; no module of `explorer` is imported.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

LANGUAGES = ("en", "zh")
_IMPORT = re.compile(r'import \{ (\w+(?:, \w+)*) \} from "\./(\w+\.js)";')
_EXPORT = re.compile(r"export ((?:async )?function\*?|const|class) (\w+)")
_SUSPECT = re.compile(r"\s*(?:import|export)\b")
_COMMENT = ("//", "/*", "*")
_FORBIDDEN = ("</script", "<!--", "import(", "import.meta")


class ModuleError(Exception):
    """A module of the page breaks the rules by which modules are joined: a fault of the package."""


def page_folder() -> Traversable:
    """Where the page's files lie."""
    return files("budgerigar") / "explorer" / "page"


@cache
def page_text(*path: str) -> str:
    """One file of the page as text."""
    return page_folder().joinpath(*path).read_text(encoding="utf-8")


@cache
def page_script() -> str:
    """All modules that main.js needs, as one script."""
    names = [one.name for one in page_folder().iterdir() if one.name.endswith(".js")]
    return joined({name: page_text(name) for name in names}, "main.js")


@cache
def page_style() -> str:
    """The style sheets that index.html names, in its order."""
    names = re.findall(r'<link rel="stylesheet" href="([\w.]+)">', page_text("index.html"))
    style = "\n".join(page_text(name) for name in names)
    if "</style" in style:
        raise ModuleError("a style sheet of the page holds </style")
    return style


@cache
def page_words() -> dict[str, Any]:
    """language -> key -> words; beside them what the library says, by its templates."""
    names = (*LANGUAGES, "said.zh")
    return {name: json.loads(page_text("i18n", f"{name}.json")) for name in names}


def whole_page(title: str, blocks: Mapping[str, Any]) -> str:
    """The page as one HTML text that asks nothing of any host.

    blocks: id -> JSON-able value, read by the script. Only this very script may run: the page's
    Content-Security-Policy names its hash.
    """
    script, style = page_script(), page_style()
    head = f'<link rel="icon" href="data:,">\n<style>{style}</style>\n'
    last = f"{json_block('words', page_words())}\n<script>{script}</script>"
    return document(title, policy([script], [style]), blocks, last, head)


def document(title: str, allowed: str, blocks: Mapping[str, Any], last: str, head: str = "") -> str:
    """A page around what index.html shows. allowed: its policy; last: what follows the blocks."""
    data = "\n".join(json_block(name, value) for name, value in blocks.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{allowed}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
{head}</head>
<body>
{_body()}
{data}
{last}
</body>
</html>
"""


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """A Content-Security-Policy: these very scripts and styles count, and nothing is fetched."""
    script, style = (" ".join(f"'{_hash(each)}'" for each in texts) for texts in (scripts, styles))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _body() -> str:
    """What index.html shows before its script runs."""
    found = re.search(r"<body>\n(.*?)\n</body>", page_text("index.html"), re.DOTALL)
    if not found:
        raise ModuleError("index.html has no body on lines of its own")
    return found[1]


def json_block(name: str, value: Any) -> str:
    """A value as a block of data of a page. No sentence in it can end the block or begin another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _hash(text: str) -> str:
    """As a Content-Security-Policy names the content of an element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


# -- joining ---------------------------------------------------------------------------------------


def joined(modules: Mapping[str, str], first: str) -> str:
    """The modules that `first` needs and itself, as one script.

    Raises:
        ModuleError: a module breaks a rule; the words say which, where, and how it must be.
    """
    read = {name: _Module(name, text) for name, text in modules.items()}
    parts = []
    for name in _in_order(read, first):
        module = read[name]
        for wanted, source in module.imports:
            missing = set(wanted) - set(read[source].exports)
            if missing:
                raise ModuleError(
                    f"{name} imports {sorted(missing)} which {source} does not export"
                )
        parts.append(module.wrapped())
    return "\n".join(parts)


def _in_order(modules: Mapping[str, _Module], first: str) -> list[str]:
    """Names from those that import nothing to `first`."""
    done: list[str] = []
    open_ones: list[str] = []

    def visit(name: str, by: str) -> None:
        if name in done:
            return
        if name not in modules:
            raise ModuleError(f"{by} imports {name}, which is not there")
        if name in open_ones:
            circle = " -> ".join([*open_ones[open_ones.index(name) :], name])
            raise ModuleError(f"modules import each other in a circle: {circle}")
        open_ones.append(name)
        for _, source in modules[name].imports:
            visit(source, name)
        done.append(open_ones.pop())

    visit(first, "the page")
    return done


class _Module:
    """One module: what it imports and exports, and its other lines."""

    def __init__(self, name: str, text: str) -> None:
        if not re.fullmatch(r"\w+\.js", name):
            raise ModuleError(f"{name}: a module's name is letters, digits and _, then .js")
        self.name, self.imports, self.exports = name, list[tuple[list[str], str]](), list[str]()
        self._lines = [self._line(number, line) for number, line in enumerate(text.split("\n"), 1)]

    def _line(self, number: int, line: str) -> str:
        """The line as it stands inside the function."""
        for wrong in _FORBIDDEN:
            if wrong in line and not (wrong.startswith("import") and _is_comment(line)):
                raise ModuleError(
                    f"{self.name}:{number}: {wrong} cannot stand in a page of one file"
                )
        if re.match(r"(?:const \w+ = )?await ", line):
            raise ModuleError(f"{self.name}:{number}: await outside a function cannot be joined")
        if found := _IMPORT.fullmatch(line):
            self.imports.append((found[1].split(", "), found[2]))
            return f"const {{ {found[1]} }} = {_variable(found[2])};"
        if found := _EXPORT.match(line):
            self.exports.append(found[2])
            return line.removeprefix("export ")
        if _SUSPECT.match(line) and not _is_comment(line):
            raise ModuleError(
                f"{self.name}:{number}: {line.strip()!r} is neither "
                '`import { a, b } from "./x.js";` nor `export function`, `const` or `class NAME`'
            )
        return line

    def wrapped(self) -> str:
        """A constant that holds what the module exports."""
        text = "\n".join(self._lines).strip("\n")
        names = ", ".join(self.exports)
        return (
            f'const {_variable(self.name)} = (() => {{\n"use strict";\n{text}\n'
            f"return {{ {names} }};\n}})();"
        )


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(_COMMENT)


def _variable(name: str) -> str:
    return "m_" + name.removesuffix(".js")
