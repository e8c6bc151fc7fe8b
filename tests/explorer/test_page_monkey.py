"""What nobody means to do to the page: addresses full of nonsense, mashed keys, clicks everywhere.

Nothing of it may end in an error of its scripts or in an empty page.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import viewed
from pages import Visit, hash_of
from served import Served, serving

import budgerigar.explorer
from budgerigar.api.model import Model
from budgerigar.explorer import sessions
from budgerigar.explorer.sessions import Sessions

PAGE = Path(budgerigar.explorer.__file__).parent / "page"
TEXT = "Xuanyuan had a budgerigar . It had green feathers ."
# of settings, one a line
VALUES = r"""null
"abc"
-1
1e999
99999999
1.5
true
[]
{}
[1,null]
{"a":1}
"__proto__"
no JSON
""
["L9.H9"]
{"model":5,"text":7}
{"topP":-5}""".splitlines()
VIEW_OF = {
    "born": "off",
    "dla": "lens",
    "gates": "gates",
    "part": "gates",
    "unit": "gates",
    "slide": "positions",
    "shuffle": "positions",
    "blind": "positions",
    "dials": "positions",
    "reach": "reach",
    "steps": "steps",
    "step": "steps",
    "tour": "lesson",
    "page": "lesson",
    "sort": "grid",
    "arcs": "head",
    "align": "translation",
    "links": "links",
    "untrained": "links",
    "block": "block",
    "lens": "lens",
    "off": "off",
    "other": "compare",
    "compare": "compare",
    "moment": "off",
    "sampling": "sentence",
}
MODEL_OF = {"gates": "lstm", "translation": "translator"}


def settings() -> list[str]:
    """Names of what views keep in the address."""
    found: set[str] = set()
    for module in PAGE.glob("*.js"):
        text = module.read_text(encoding="utf-8")
        code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
        found |= set(re.findall(r'app\.set(?:ting)?\("([\w.]+)"', code))
    return sorted(found)


@pytest.fixture(scope="module")
def page_server() -> Iterator[Served]:
    """A model of each kind, of one size."""
    models: dict[str, Model] = {
        "gpt": viewed.decoder(),
        "translator": viewed.translator(),
        "bahdanau": viewed.recurrent_translator(),
        "encoder": viewed.encoder(),
        "lstm": viewed.recurrent(),
        "ngram": viewed.ngram(),
        "feed-forward": viewed.feed_forward(),
    }
    with serving(Sessions(models)) as served:
        yield served


def asked(model: str, **state: Any) -> str:
    """The address of a model's example."""
    pair = {"q__source": viewed.SOURCE, "q__target": viewed.TARGET}
    text = pair if model in ("translator", "bahdanau") else {"q__text": TEXT}
    return hash_of({"q__model": model, **text, **state})


def alive(tab: Visit) -> None:
    """Something is shown, in words, and no script failed."""
    tab.until(
        "document.querySelector('.view-body > *, main .failure, main .note') && "
        "!document.querySelector('[aria-busy=true], .waiting, .stale')"
    )
    words = tab.page.locator("#app").inner_text()
    assert len(words) > 200
    strange = re.search(r".{0,40}(\bNaN\b|\bundefined\b|\[object |Infinity).{0,40}", words)
    assert not strange, (tab.page.url, strange)
    # a browser's own line about an answer that was refused
    tab.wrong[:] = [each for each in tab.wrong if "Failed to load resource" not in each]
    assert not tab.wrong, (tab.page.url[-200:], tab.wrong)


def show(tab: Visit, address: str) -> None:
    """Another address in the open page, by way of another view, so that it is drawn."""
    view = re.search(r"view=(\w+)", address)
    between = "sentence" if view is None or view[1] != "sentence" else "lesson"
    model = re.search(r"q\.model=([\w-]+)", address)
    for each in (asked(model[1] if model else "gpt", view=between), address):
        tab.page.evaluate("address => { location.hash = address; }", each)
        alive(tab)


# -- addresses -----------------------------------------------------------------------------------------


def test_an_address_can_hold_every_setting_and_no_nonsense(tab: Visit) -> None:
    tab.go(view="lesson")
    script = (
        "async parts => { const m = await import('/state.js'); "
        "return parts.map(part => m.fromHash('#' + part)); }"
    )
    names = settings()
    assert set(names) == {each for each in names if each.split(".")[0] in VIEW_OF}
    listed = (PAGE / "allowed.js").read_text(encoding="utf-8").split("const SETTINGS")[1]
    for name in names:
        assert re.search(rf'(?<![\w."]){re.escape(name)}:|"{re.escape(name)}":', listed), name
    nonsense = [f"v.{name}={quote(value)}" for name in names for value in ('{"a":[1]}', "[[]]")]
    nonsense += [f"v.{name}=5" for name in ("__proto__", "toString", "unknown")]
    nonsense += [
        f"q.{name}={value}" for name in ("off", "mask", "ids", "blank") for value in ("5", '"a"')
    ]
    nonsense += [
        "theme=purple",
        "scale=5",
        "range=",
        "picks=me",
        "language=__proto__",
        "pinned=a,__proto__",
    ]
    nonsense += [
        "s.of=nobody",
        "s.kind=__proto__",
        "s.layer=-1",
        "s.query=1.5",
        "s.toString=1",
        "q.__proto__={}",
    ]
    start = tab.page.evaluate(script, [""])[0]
    for part, found in zip(nonsense, tab.page.evaluate(script, nonsense), strict=True):
        assert found == start, part
    (kept,) = tab.page.evaluate(script, ["q.text=null&q.source=5&q.target=%5BMASK%5D"])
    assert kept["question"] == {"text": "null", "source": "5", "target": "[MASK]"}


@pytest.mark.slow
@pytest.mark.parametrize("name", settings())
def test_a_setting_of_nonsense(tab: Visit, name: str) -> None:
    view = VIEW_OF[name.split(".")[0]]
    model = MODEL_OF.get(view, "gpt")
    tab.page.goto(f"http://{tab.host}/{asked(model)}")
    alive(tab)
    for value in [*VALUES, '"' + "x" * 3000 + '"']:
        show(tab, asked(model, view=view, s__query=2, **{f"v.{name}": value}))


PARTS = r"""
view=nothing view=__proto__ theme=purple language=xx scale=x range=x picks=x
hideSink=x&transpose=1 pinned=,,, pinned=__proto__,L0.H0,L99.H99
s.of=x&s.kind=__proto__ s.kind=cross s.of=encoder
s.layer=9999999&s.head=9999999&s.query=9999999&s.key=9999999
s.layer=-1&s.head=1.5&s.query=x&s.key=%00 s.query=0&s.query=1
s.__proto__=5&v.__proto__={%22sort%22:5}&q.__proto__={%22text%22:5}
q.text=null q.text= q.ids=[1,2] q.ids=x q.ids={} q.off=5 q.off=x q.off=[5] q.off=[%22L9.H9%22]
q.how=x q.of=x&q.kind=x q.checkpoint=x q.blank=5 q.blank=true q.mask={} q.mask=[99] q.mask=[0]
q.model=nobody q.model=__proto__ q.source=x q.target=[1,2] q.unknown=5 q.prefix=5
"""
VIEWS = """sentence links grid head steps positions block lens translation mask gates reach backoff
roles off born compare lesson"""


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS.split())
def test_an_address_of_nonsense(tab: Visit, view: str) -> None:
    model = {**MODEL_OF, "mask": "encoder", "backoff": "ngram"}.get(view, "gpt")
    tab.page.goto(f"http://{tab.host}/{asked(model)}")
    alive(tab)
    for part in [*PARTS.split(), "q.text=" + "x" * 20000]:
        show(tab, f"{asked(model, view=view)}&{part}")
        if part.startswith("q."):  # everything is built anew, whatever was asked
            for language in ("zh", "en"):
                tab.page.locator(".switches select").first.select_option(language)
                alive(tab)


# -- answers that come late ----------------------------------------------------------------------------


def test_a_step_may_change_the_language_and_the_question(tab: Visit) -> None:
    tab.go(view="grid", q__model="gpt", q__text=TEXT)
    before = tab.text(".stickybar .strip")
    address = hash_of({"view": "grid", "q__model": "gpt", "q__text": "it", "language": "zh"})
    tab.page.evaluate("address => { location.hash = address; }", address)
    tab.until("document.documentElement.lang === 'zh-Hans'")
    tab.until("document.querySelector('#ask-text').value === 'it'")
    tab.drawn()
    assert tab.text(".stickybar .strip") != before


def test_what_is_shown_while_another_text_is_read_is_of_the_text_before(
    tab: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old view can still be used, and its numbers stay those of its own labels."""
    held, asked_of, real = threading.Event(), [], sessions.ask

    def slow(look: Any, name: str, params: Any) -> bytes:
        asked_of.append((name, look.question["text"]))
        if look.question["text"] == "it" and name == "read":
            assert held.wait(60)
        return real(look, name, params)

    monkeypatch.setattr(sessions, "ask", slow)
    tab.go(view="steps", q__model="gpt", q__text=TEXT, s__query=9)
    tab.page.locator("#ask-text").fill("it")
    tab.page.keyboard.press("Enter")
    tab.until("document.querySelector('main[aria-busy=true]')")
    tab.page.evaluate("document.querySelectorAll('.stickybar .strip button')[5].click()")
    held.set()
    tab.until("document.querySelectorAll('.stickybar .strip button').length < 4")
    tab.drawn()
    assert [text for name, text in asked_of if name == "steps"] == [TEXT, TEXT, "it"]
    tokens = tab.page.locator(".stickybar .strip button").count()
    assert tab.page.locator(".view-steps tr[data-at]").count() == tokens


def test_a_table_that_is_opened_before_its_numbers_came(
    tab: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, real = threading.Event(), sessions.ask

    def slow(look: Any, name: str, params: Any) -> bytes:
        assert name != "head" or held.wait(60)
        return real(look, name, params)

    monkeypatch.setattr(sessions, "ask", slow)
    tab.page.goto(f"http://{tab.host}/{asked('gpt', view='head')}")
    tab.until("document.querySelector('.map .twin > summary')")
    tab.page.evaluate("document.querySelector('.map .twin > summary').click()")
    tab.until("document.querySelector('.map .twin .waiting')")
    held.set()
    tab.until("document.querySelector('.map .twin tbody')")


# -- a monkey ------------------------------------------------------------------------------------------

KEYS = """ArrowLeft ArrowRight ArrowUp ArrowDown Enter Escape [ ] { } x n p ? Space Tab Shift+Tab
Home End PageDown a 1 + - 0 Delete Backspace"""
PLACES = """main button;main button;main input;main select;main summary;main td;nav.menu button
nav.menu button;.stickybar button;.stickybar input;form.ask select;form.ask textarea;form.ask button
.switches select;.about button;dialog button"""
PRESS = """([part, kind]) => {
  const all = [...document.querySelectorAll(kind)].filter(e => e.checkVisibility() && !e.disabled);
  if (!all.length) return;
  const one = all[Math.floor(part * all.length)];
  const say = name => one.dispatchEvent(new Event(name, { bubbles: true }));
  const texts = ['', 'it', 'the cat sat', '\\u8f69\\u8f95\\u6709\\u4e00\\u53ea\\u732b', '\\n\\n'];
  one.focus();
  if (one.tagName === 'SELECT') one.selectedIndex = Math.floor(part * 997) % one.options.length;
  else if (one.tagName === 'TEXTAREA') one.value = texts[Math.floor(part * 991) % texts.length];
  else if (one.type === 'range') one.value = Number(one.min) + (one.max - one.min) * (part * 991 % 1);
  else return one.click();
  say('input'); say('change');
}"""


def play(tab: Visit, chance: random.Random) -> None:
    """One thing that a monkey does."""
    what = chance.random()
    if what < 0.4:
        tab.page.keyboard.press(chance.choice(KEYS.split()))
    elif what < 0.92:
        kind = chance.choice(re.split(r"[;\n]", PLACES))
        tab.page.evaluate(PRESS, [chance.random(), kind])
    elif what < 0.96:
        way = chance.choice(("Back", "Forward"))  # within the page
        tab.page.evaluate(f"navigation.canGo{way} && history.{way.lower()}()")
    else:
        wide, tall = chance.choice((320, 700, 1100, 2400)), chance.choice((400, 800))
        tab.page.set_viewport_size({"width": wide, "height": tall})


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt", "translator", "bahdanau", "encoder", "lstm", "ngram"])
def test_a_monkey(tab: Visit, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    """Answers take their time, so that most of what it does comes before the last one is there."""
    chance, real = random.Random(model), sessions.ask

    def slow(look: Any, name: str, params: Any) -> bytes:
        time.sleep(0.2 * chance.random())
        return real(look, name, params)

    monkeypatch.setattr(sessions, "ask", slow)
    home = f"http://{tab.host}/{asked(model)}"
    tab.page.goto(home)
    alive(tab)
    for turn in range(1, 401):
        play(tab, chance)
        if turn % 40 == 0:
            alive(tab)
