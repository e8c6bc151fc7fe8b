"""Modules joined into one script: their order, what breaks a rule, and what no sentence can break."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from budgerigar.inspection.inlining import (
    ModuleError,
    joined,
    json_block,
    page_script,
    page_words,
    whole_page,
)

EVIL = [
    "</script><b>x</b>",
    "<!--",
    "]]>",
    '"><img src=x>',
    "\u2028\u2029",
    "&lt;b&gt;",
    "__DATA__",
]
MODULES = {
    "main.js": 'import { twice, One } from "./b.js";\nimport { zero } from "./a.js";\n\n'
    "out(twice(new One().value) + zero);\n",
    "b.js": 'import { zero } from "./a.js";\n\n// export default is what we never write\n'
    "const hidden = 1;\n\nexport class One {\n  value = hidden;\n}\n\n"
    "export async function later() {\n  await null;\n}\n\n"
    "export const twice = (n) => 2 * n + zero;\n",
    "a.js": "export const zero = 40;\n\nconst hidden = 7;\n",
    "alone.js": "this is not even JavaScript",
}


def test_each_module_stands_after_those_that_it_imports() -> None:
    script = joined(MODULES, "main.js")
    assert re.findall(r"^const (m_\w+) =", script, re.MULTILINE) == ["m_a", "m_b", "m_main"]
    assert "alone" not in script
    assert "\nexport" not in script
    assert "\nimport" not in script
    assert "return { One, later, twice };" in script


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
def test_the_joined_script_does_what_the_modules_do() -> None:
    script = "const out = console.log;\n" + joined(MODULES, "main.js")
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(2 * 1 + 40 + 40)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('import a from "./a.js";', "neither"),
        ('import { zero as one } from "./a.js";', "neither"),
        ('  import { zero } from "./a.js";', "neither"),
        ('import "./a.js";', "neither"),
        ("export default zero;", "neither"),
        ("export { zero };", "neither"),
        ("export let zero = 1;", "neither"),
        ('const a = await import("./a.js");', r"import\( cannot stand"),
        ('await fetch("x");', "await outside"),
        ("const here = import.meta.url;", "import.meta cannot stand"),
        ('const evil = "</script>";', "</script cannot stand"),
        ("// <!-- a comment", "<!-- cannot stand"),
        ('import { absent } from "./a.js";', r"imports \['absent'\] which a.js does not export"),
        ('import { zero } from "./absent.js";', "absent.js, which is not there"),
        ('import { twice } from "./b.js";', "in a circle: b.js -> c.js -> b.js"),
    ],
)
def test_what_breaks_a_rule_is_said(line: str, words: str) -> None:
    modules = {**MODULES, "c.js": f"\n{line}\n"}
    if "circle" in words:
        modules["b.js"] = 'import { x } from "./c.js";\nexport const twice = 1;\n'
        modules["c.js"] += "export const x = 1;\n"
    modules["main.js"] = 'import { x } from "./c.js";\nimport { twice } from "./b.js";\n'
    with pytest.raises(ModuleError, match=words) as raised:
        joined(modules, "b.js" if "circle" in words else "main.js")
    assert "c.js" in str(raised.value)


@pytest.mark.parametrize("evil", EVIL)
def test_no_sentence_ends_its_block(evil: str) -> None:
    block = json_block("recorded", {evil: [evil]})
    inner = block.removeprefix('<script type="application/json" id="recorded">')
    inner = inner.removesuffix("</script>")
    assert not re.search("[<>&\u2028\u2029]", inner)
    assert json.loads(inner) == {evil: [evil]}
    page = whole_page(evil, {"recorded": {"text": evil}})
    before = page.split("<script>")[0]
    assert before.count("<script") == 2
    assert "<img" not in before
    assert "<b>" not in before


def test_only_the_pages_own_script_and_style_may_run() -> None:
    page = whole_page("a title", {})
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert not re.search(r"<(?:script|img|link)[^>]* src=|@import|url\((?!data:)", page)
    assert set(page_words()) == {"en", "zh", "said.zh"}


def test_the_page_is_read_without_its_server() -> None:
    """A trace is written to a file where no web server is installed."""
    code = (
        "import sys; from budgerigar.inspection.inlining import page_script; page_script(); "
        "assert not [m for m in sys.modules if 'explorer' in m or m in ('torch', 'starlette')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "m_main" in page_script()


def test_every_style_sheet_and_module_of_the_page_is_in_the_file() -> None:
    import budgerigar.inspection.inlining as inlining

    folder = Path(str(inlining.page_folder()))
    page = whole_page("", {})
    for sheet in folder.glob("*.css"):
        assert sheet.read_text("utf-8").strip() in page
    wrapped = set(re.findall(r"^const m_(\w+) =", page_script(), re.MULTILINE))
    assert wrapped == {module.stem for module in folder.glob("*.js")}
