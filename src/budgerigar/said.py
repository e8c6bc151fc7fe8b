"""Words for a reader that know what they were made of, so that a page can say them in its language.

`said("the text has {n:,} tokens", n=1024)` is the text "the text has 1,024 tokens" and carries the
template and the value "1,024" with it. Where words leave for a page, `told` sends all three; the page
looks the template up among its translations and shows the English words where it finds none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from string import Formatter
from typing import Any


class Said(str):
    """English words, their template, and the values in it as they are written: a `str` otherwise."""

    template: str
    values: Mapping[str, str]

    def __new__(
        cls, words: str, template: str = "", values: Mapping[str, str] | None = None
    ) -> Said:
        """The three as they are; `said` makes the words from the other two."""
        made = super().__new__(cls, words)
        made.template, made.values = template or words, dict(values or {})
        return made


def said(template: str, /, **values: Any) -> Said:
    """`template.format(**values)`; a value that is `Said` keeps its own template.

    A template is one text in the source (translations are found by it), and each of its names stands
    in it with one format.
    """
    words, written = "", {}
    for text, name, form, conversion in Formatter().parse(template):
        words += text
        if name is None:
            continue
        value = repr(values[name]) if conversion == "r" else values[name]
        written[name] = value if isinstance(value, Said) else format(value, form or "")
        words += written[name]
    return Said(words, template, written)


def listed(words: Iterable[str], apart: bool = False) -> str:
    """Several in a row, with commas between; apart: semicolons, where they have commas themselves."""

    def both(first: str, then: str) -> str:
        if apart:
            return said("{first}; {then}", first=first, then=then)
        return said("{first}, {then}", first=first, then=then)

    return reduce(both, words)


def told(words: str) -> Any:
    """For JSON: plain text as it is, `Said` with its template and values."""
    if not isinstance(words, Said):
        return words
    values = {name: told(value) for name, value in words.values.items()}
    return {"$said": str(words), "template": words.template, "values": values}


def heard(value: Any) -> Any:
    """What `told` made, as it was."""
    if not isinstance(value, dict):
        return value
    values = {name: heard(part) for name, part in value["values"].items()}
    return Said(value["$said"], value["template"], values)
