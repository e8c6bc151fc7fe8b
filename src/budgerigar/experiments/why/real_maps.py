"""Maps that have a rule, between words that people use: a few pairs may be enough to go on with."""

from __future__ import annotations

_OPPOSITES = """\
hot-cold big-small up-down good-bad light-dark day-night open-closed fast-slow old-new rich-poor
hard-soft high-low long-short wet-dry full-empty happy-sad strong-weak early-late left-right
north-south east-west first-last true-false black-white love-hate win-lose push-pull buy-sell
start-stop begin-end inside-outside above-below before-after clean-dirty thick-thin loud-quiet
near-far wide-narrow safe-dangerous young-old"""

_CAPITALS = """\
France-Paris Germany-Berlin Italy-Rome Spain-Madrid Portugal-Lisbon Japan-Tokyo China-Beijing
Russia-Moscow Egypt-Cairo Greece-Athens Poland-Warsaw Austria-Vienna Hungary-Budapest
Sweden-Stockholm Norway-Oslo Denmark-Copenhagen Finland-Helsinki Ireland-Dublin England-London
Belgium-Brussels Turkey-Ankara Iran-Tehran Iraq-Baghdad Canada-Ottawa Cuba-Havana Peru-Lima
Chile-Santiago Kenya-Nairobi Ukraine-Kyiv Romania-Bucharest Bulgaria-Sofia Serbia-Belgrade
Thailand-Bangkok Vietnam-Hanoi Indonesia-Jakarta Australia-Canberra India-Delhi Syria-Damascus
Lebanon-Beirut Czechia-Prague"""

_WORDS = """\
cat dog god bird fish tree house river stone bread milk water fire snow rain wind star moon king
ship boat road bridge door wall lamp book song horse sheep cow pig hand foot head eye ear nose
tooth hair gold iron wood glass paper cloth ring sword hat shoe coat cup plate knife spoon salt
sugar apple pear grape bean corn rice seed leaf root flower grass hill lake sea sand cloud night"""

_TURNED = """\
cat pot bus map net top dog lip nap rat tip war bat gas saw bag pan fin car sun box leg arm bed
hen cup hat jam key log mud pen red sad ten van wet yes zip fox"""


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(first, second) for first, _, second in (word.partition("-") for word in text.split())]


RULES: dict[str, list[tuple[str, str]]] = {
    "opposites": _pairs(_OPPOSITES),
    "capitals": _pairs(_CAPITALS),
    "words turned round": [(word, word[::-1]) for word in _TURNED.split()],
}
"""40 pairs each"""

WORDS = _WORDS.split()
"""what random maps are drawn from"""
