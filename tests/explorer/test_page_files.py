"""The page's files: rules by which Python joins the modules into one script; words in two languages."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import budgerigar.explorer
from budgerigar.inspection import behaviours

PAGE = Path(budgerigar.explorer.__file__).parent / "page"
MODULES = sorted(PAGE.glob("*.js"))
IMPORT = re.compile(r'import \{ (\w+(?:, \w+)*) \} from "\./(\w+\.js)";')
EXPORT = re.compile(r"export (?:async )?(?:function|const|class) (\w+)")
LANGUAGES = ("en", "zh")


def words(language: str) -> dict[str, str]:
    found = json.loads((PAGE / "i18n" / f"{language}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def code(module: Path) -> str:
    """Without comments that fill a line, which may say anything."""
    lines = module.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("//", "*", "/*")))


def imports(module: Path) -> dict[str, list[str]]:
    return {m[2]: m[1].split(", ") for m in IMPORT.finditer(code(module))}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_module_can_be_joined_into_one_script(module: Path) -> None:
    text = code(module)
    for line in text.splitlines():
        if re.match(r"\s*import\b", line):
            assert IMPORT.fullmatch(line), line
        if re.match(r"\s*export\b", line):
            assert EXPORT.match(line), line
    for banned in ("import(", "export default", "export {", "innerHTML", "outerHTML", "eval("):
        assert banned not in text
    for banned in ("insertAdjacentHTML", "document.write", "new Function", 'setAttribute("style"'):
        assert banned not in text
    assert not re.search(r"^(?:const \w+ = )?await ", text, re.MULTILINE), "top-level await"
    for name, wanted in imports(module).items():
        assert set(wanted) <= set(EXPORT.findall(code(PAGE / name))), (module.name, name)
        for each in wanted:
            assert len(re.findall(rf"\b{each}\b", text)) > 1, f"{each} is imported and not used"
    assert len(text.splitlines()) < 400


def test_modules_import_in_one_direction() -> None:
    rest = {module.name: set(imports(module)) for module in MODULES}
    while free := [name for name, needs in rest.items() if not needs & rest.keys()]:
        for name in free:
            del rest[name]
    assert not rest, f"in a circle: {sorted(rest)}"


def test_the_page_asks_nothing_of_another_host() -> None:
    files = [*MODULES, *PAGE.glob("*.css"), *PAGE.glob("*.html"), *PAGE.glob("i18n/*.json")]
    for file in files:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//[a-z0-9.-]+\.[a-z]{2,}/", text), file.name
        assert "@import" not in text


def test_every_view_is_listed_and_has_its_words() -> None:
    listed = (PAGE / "views.js").read_text(encoding="utf-8")
    for module in PAGE.glob("view_*.js"):
        text = module.read_text(encoding="utf-8")
        (name,) = re.findall(r"export const (\w+View) = \{", text)
        assert re.search(rf"export const VIEWS = \[[^\]]*\b{name}\b", listed), name
        for part in ("id", "titleKey", "leadKey", "group"):
            assert re.search(rf'^  {part}: "[\w.]+",', text, re.MULTILINE), (module.name, part)


def test_both_languages_say_the_same_things() -> None:
    english, chinese = (words(language) for language in LANGUAGES)
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        gaps = [sorted(re.findall(r"\{(\w+)\}", each)) for each in (text, chinese[key])]
        assert gaps[0] == gaps[1], key
        if key != "mark.gap":  # what stands between words: a space, or nothing
            assert text.strip() and chinese[key].strip(), key  # noqa: PT018


def test_every_word_that_is_asked_for_is_there_and_used() -> None:
    known = words("en")
    text = "\n".join(code(module) for module in MODULES)
    asked = set(re.findall(r'\bt\(\s*"([^"]+)"', text)) | set(re.findall(r'Key: "([^"]+)"', text))
    assert asked <= known.keys(), asked - known.keys()
    beginnings = set(re.findall(r"\bt\(`([\w.]+\.)\$\{", text))
    for beginning in beginnings:
        assert any(key.startswith(beginning) for key in known), beginning
    quoted = set(re.findall(r'"([\w-]+(?:\.[\w-]+)*)"', text))
    unused = [k for k in known if k not in quoted and not k.startswith(tuple(beginnings))]
    assert not unused


def test_abilities_are_named_as_in_the_library() -> None:
    named = set(re.findall(r'_Task\(\s*"\w+",\s*"([^"]+)"', inspect.getsource(behaviours)))
    assert named == {text for key, text in words("en").items() if key.startswith("ability.")}
