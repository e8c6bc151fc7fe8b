"""What a tokenizer loses of a text, tried out and said in words."""

from __future__ import annotations

from collections.abc import Callable

# What may be lost, and a text that shows it.
_TRIALS = (
    ("upper case", "The Cat"),
    ("accents", "café naïve"),
    ("runs of spaces", "a  b"),
    ("line ends", "a\nb"),
    ("spaces at the beginning", " a"),
    ("spaces at the end", "a "),
    ("tabs", "a\tb"),
    ("Chinese characters", "轩辕的鹦鹉"),
    ("emoji", "a 🦜 b"),
    ("compatibility forms (ﬁ, Ａ)", "ﬁn Ａ"),
    ("decomposed letters (e + ́)", "e\u0301"),
    ("the sign ▁", "a▁b"),
    ("spaces around punctuation", "a , b ( c ) don ' t"),
)


def losses(there_and_back: Callable[[str], str]) -> str | None:
    """ "loses upper case, accents …", or None where every trial comes back as it was."""
    lost = [name for name, text in _TRIALS if there_and_back(text) != text]
    return f"loses {', '.join(lost)}" if lost else None
