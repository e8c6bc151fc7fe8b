"""Tours: the parser's words and pages, mistakes with their line, a little noise; the lesson's files."""

from __future__ import annotations

import random
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import budgerigar
from budgerigar.cli.flags import parse
from budgerigar.cli.table import COMMANDS
from budgerigar.errors import UserError
from budgerigar.explorer.lessons import lesson, sentences, tours
from budgerigar.explorer.site import _doors
from budgerigar.explorer.tour import commands, parse_tour, read_tour
from budgerigar.explorer.tour_grammar import DIRECTIVES, NUMBERS

PAGE = Path(budgerigar.__file__).parent / "explorer" / "page"
ROOT = PAGE.parents[3]
HEAD = "---\ntitle: T\nsentence: it\n---\n"


def blocks(text: str) -> list[dict[str, Any]]:
    (page,) = parse_tour(HEAD + text)
    found: list[dict[str, Any]] = page["blocks"]
    return found


def test_a_page_with_everything() -> None:
    (page,) = parse_tour(
        "\n---\ntitle: Who?\nlevel: advanced\nminutes: 3\nmodel: decoder encoder\n"
        'sentence: a <b> : c\n---\n\nOne *two*\n`three` {weight query=it key="a b" head=L0.H1} {{.\n\n'
        "# Four\n- five\n  six\n- seven\n:: heat query=it\n"
        ":: question Why *so*?\n因为\n这样。\n:: end\n"
    )
    assert page["title"] == "Who?"
    assert (page["level"], page["minutes"]) == ("advanced", 3)
    assert page["model"] == ["decoder", "encoder"]
    assert page["sentence"] == "a <b> : c"
    number = {"number": "weight", "params": {"query": "it", "key": "a b", "head": "L0.H1"}}
    assert page["blocks"] == [
        {
            "kind": "text",
            "parts": [
                "One ",
                {"strong": "two"},
                " ",
                {"code": "three"},
                " ",
                number,
                " ",
                "{",
                ".",
            ],
        },
        {"kind": "heading", "parts": ["Four"]},
        {"kind": "list", "items": [["five six"], ["seven"]]},
        {"kind": "heat", "rest": "", "params": {"query": "it"}},
        {
            "kind": "question",
            "rest": "Why *so*?",
            "params": {},
            "parts": ["Why ", {"strong": "so"}, "?"],
            "blocks": [{"kind": "text", "parts": ["因为这样。"]}],
        },
    ]


def test_several_pages_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "my.md"
    file.write_bytes(f"\ufeff{HEAD}a\r\n---\r\ntitle: U\r\n---\r\nb".encode())
    assert [page["title"] for page in read_tour(file)] == ["T", "U"]
    assert [tour["id"] for tour in tours([file])] == ["my", "lesson"]
    with pytest.raises(UserError, match="already"):
        tours([file, file])


def test_html_is_text() -> None:
    assert blocks("<script>alert(1)</script>")[0]["parts"] == ["<script>alert(1)</script>"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("---\ntitle: a\n---\n:: row query=it", 1, "`:: row` needs a `sentence"),
        ("---\ntitle: a\n---\n- {p word=b}", 1, "{p} needs a `sentence"),
        ("", 1, "at least one page"),
        ("hello", 1, "begins with a line"),
        ("---\ntitle: a", 1, "no end"),
        ("---\ntitle a\n---", 2, "name: value"),
        ("---\ntopic: a\n---", 2, "'topic'"),
        ("---\nlevel: beginner\n---", 1, "needs a title"),
        ("---\ntitle: a\nlevel: easy\n---", 1, "'easy'"),
        ("---\ntitle: a\nminutes: 0\n---", 1, "'0'"),
        ("---\ntitle: a\nmodel: gpt\n---", 1, "'gpt'"),
        (HEAD + "a\n:: haet", 6, "`:: haet`"),
        (HEAD + ":: row", 5, "query"),
        (HEAD + ":: row query=", 5, "name=value"),
        (HEAD + ":: row query=it colour=red", 5, "'colour'"),
        (HEAD + ":: row query=it top=many", 5, "a number"),
        (HEAD + ":: heat head=2.3", 5, "L2.H3"),
        (HEAD + ":: heat of=both", 5, "encoder or decoder"),
        (HEAD + ":: worked pear", 5, "it or apple"),
        (HEAD + ":: why colours", 5, "'colours'"),
        (HEAD + ":: end", 5, "ends nothing"),
        (HEAD + ":: question why\nso", 5, "no `:: end`"),
        (HEAD + ":: question a\n:: question b\n:: end", 6, "must end before"),
        (HEAD + "a\nb {weigth}", 5, "{weigth}"),
        (HEAD + "{weight query=it}", 5, "key"),
        (HEAD + "{cells}", 5, "length"),
        (HEAD + "- a\n- {p wrod=b}", 6, "'wrod'"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)) as told:
        parse_tour(text, "my.md")
    assert str(told.value).startswith(f"my.md:{line}: "), told.value


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_tour(tmp_path / "none.md")
    (tmp_path / "odd.md").write_bytes(b"---\ntitle: \xff")
    with pytest.raises(UserError, match="byte 11 is no UTF-8"):
        read_tour(tmp_path / "odd.md")


def test_noise_gives_pages_or_a_mistake_in_words() -> None:
    draw = random.Random(3)
    pieces = ["---", "\n", ":: ", "row", " query=", '"', "{", "}", "*", "`", "- ", "# ", "title: a"]
    pieces += ["question x", "end", "why mask", "p word=", "weight", "鹦鹉", "\x00", "=", " ", HEAD]
    good, told = 0, []
    for _ in range(3000):
        text = "".join(draw.choices(pieces, k=draw.randrange(1, 24)))
        try:
            good += bool(parse_tour(draw.choice(["", HEAD]) + text))
        except UserError as error:
            told.append(str(error))
    assert good > 200
    assert all(re.match(r"tour:[0-9]+: .", words) for words in told)


# -- the lesson -------------------------------------------------------------------------------------


def shape(parts: list[dict[str, Any]]) -> list[Any]:
    """What a page shows, without its words."""
    shown: list[Any] = []
    for block in parts:
        if block["kind"] in ("question", "card"):
            shown.append((block["kind"], shape(block["blocks"])))
        elif block["kind"] in DIRECTIVES:
            shown.append((block["kind"], block["rest"], block["params"]))
        elif block["kind"] == "list":
            shown.append(("list", len(block["items"])))
        else:
            shown.append(block["kind"])
    return shown


def numbers(parts: list[dict[str, Any]]) -> list[str]:
    """The numbers of a page, in any order."""
    found = []
    for block in parts:
        for text in (block.get("parts", []), *block.get("items", [])):
            found += [str(part) for part in text if isinstance(part, dict) and "number" in part]
        found += numbers(block.get("blocks", []))
    return sorted(found)


def test_both_languages_have_the_same_pages() -> None:
    english, chinese = lesson("en"), lesson("zh")
    assert len(english) == 10
    for one, other in zip(english, chinese, strict=True):
        for name in ("level", "minutes", "model", "sentence", "source"):
            assert one[name] == other[name], (one["title"], name)
        assert shape(one["blocks"]) == shape(other["blocks"]), one["title"]
        assert numbers(one["blocks"]) == numbers(other["blocks"]), one["title"]
    assert all(re.search("[\u4e00-\u9fff]", page["title"]) for page in chinese)


def test_each_page_ends_with_a_problem_and_runs_its_experiment() -> None:
    asked = []
    for page in lesson("en")[:8]:
        headings = [block["parts"][0] for block in page["blocks"] if block["kind"] == "heading"]
        assert headings[-1] == "The next problem"
        assert page["minutes"]
        parts = [block["rest"] for block in page["blocks"] if block["kind"] == "why"]
        assert parts, page["title"]
        asked += parts
    from budgerigar.experiments.why import MORE, PARTS

    assert set(asked) == {*PARTS, *MORE}


def test_every_number_and_figure_is_known_to_the_page() -> None:
    figures = (PAGE / "lesson_figures.js").read_text(encoding="utf-8")
    (named,) = re.findall(r"export const FIGURES = \{ ([\w, ]+) \}", figures)
    elsewhere = {"sentence", "worked", "why", "command", "open", "question", "card", "end"}
    assert set(named.split(", ")) | elsewhere == DIRECTIVES.keys()
    text = (PAGE / "lesson_numbers.js").read_text(encoding="utf-8")
    body = text.split("const NUMBERS = {")[1].split("\n};")[0]
    assert set(re.findall(r"^  (\w+): ", body, re.MULTILINE)) == NUMBERS.keys()


VIEW_IDS = {
    re.findall(r'^  id: "(\w+)"', file.read_text(encoding="utf-8"), re.MULTILINE)[0]
    for file in PAGE.glob("view_*.js")
}


def all_blocks(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for b in parts for each in (b, *all_blocks(b.get("blocks", [])))]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_the_lesson_names_exists(language: str) -> None:
    pages = lesson(language)
    named = sorted(set(commands(pages)))
    assert len(named) > 12
    for command in named:
        _, verb, *rest = shlex.split(command)
        assert parse(COMMANDS[verb], import_module(f"budgerigar.cli.commands.{verb}"), rest)
    recipes = {p.stem for p in (PAGE.parents[1] / "training" / "recipes").glob("*.toml")}
    cards = 0
    for block in all_blocks([b for page in pages for b in page["blocks"]]):
        if block["kind"] == "open":
            assert block["rest"] in VIEW_IDS
        if block["kind"] != "card":
            continue
        cards += 1
        (facts,) = [each["items"] for each in block["blocks"] if each["kind"] == "list"]
        file, recipe = (item[-1]["code"] for item in facts[2:4])
        assert (ROOT / file).is_file(), file
        assert recipe in recipes
        assert block["blocks"][-1]["kind"] == "command"
    assert cards == 6


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_answer_ends_in_a_command(language: str) -> None:
    page = lesson(language)[8]
    questions = [block for block in page["blocks"] if block["kind"] == "question"]
    assert len(questions) == 7
    assert all(block["blocks"][-1]["kind"] == "command" for block in questions)


def test_what_the_lesson_speaks_of_to_each_kind() -> None:
    told = tours()
    decoder, pair = sentences(told, "decoder"), sentences(told, "encoder-decoder")
    assert "Xuanyuan has a budgerigar ; it has green feathers ." in decoder
    assert any(text.endswith("But he always remembered that") for text in decoder)
    assert pair == ["轩辕有一只虎皮鹦鹉"]
    assert sentences(told, "ngram") == []


def test_each_page_has_an_address_in_a_site() -> None:
    doors = _doors()
    assert len(doors) == 20
    assert "index.html#view=lesson&amp;language=zh&amp;v.page=3" in doors["lesson-3-zh.html"]


def test_a_question_offers_answers_and_a_card_links_to_its_paper() -> None:
    text = HEAD + ":: question *Why?*\n- ( ) a\n- (x) {tokens}\n  more\n\nbecause\n:: end\n"
    (page,) = parse_tour(text + "See [the *paper*](https://a.org/b?c=1). [x](http://a.org)")
    offered, why = page["blocks"][0]["blocks"]
    assert offered["kind"] == "choices"
    assert offered["right"] == [False, True]
    assert offered["items"] == [["a"], [{"number": "tokens", "params": {}}, " more"]]
    assert why == {"kind": "text", "parts": ["because"]}
    parts = page["blocks"][1]["parts"]
    assert parts == [
        "See ",
        {"link": "https://a.org/b?c=1", "words": "the *paper*"},
        ". [x](http://a.org)",  # a link to nothing that is read safely stays text
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- ( ) a\n- (x) b", "stand in a `:: question`"),
        (":: question q\n- ( ) a\n- ( ) b\n:: end", "none of these answers is right"),
        (":: question q\n- (x) a\n- b\n:: end", "all of a list or none"),
    ],
)
def test_answers_that_cannot_be_offered(text: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        parse_tour(HEAD + text)
