"""Plays written in Markdown, turned into the layout of the classic character-level file:

    FIRST CITIZEN'S NAME:
    the lines of the speech

one blank line between speeches. Headings, stage directions and the signs of Markdown go; a speech
that a stage direction interrupts stays one speech, as it does in that file.
"""

from __future__ import annotations

import html
import re

_SPEAKER = re.compile(r"\*\*([^*\n]+)\*\*")
_ASIDE = re.compile(r"[_*]*\\?\[[^\]]*\][_*]*")  # _\[Aside]_, *[Reads.]*, [Within]_
_DIRECTION = re.compile(r"(?<![_*])([_*])(?!\1).*?\1(?=\s|$)", re.DOTALL)  # _Enter X_, *Exeunt.*
_LISTED = re.compile(r"\d+\\?\. ")  # the numbered order of a procession
_UNMARKED = re.compile(r"([A-Z][a-z]+), & C (.+)")  # "Senators, & C We'll surety him."
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!'\"-])")


def plays_text(plays: list[str]) -> str:
    """The speeches of all plays (Markdown), in order, ending in one newline."""
    speeches = [speech for play in plays for speech in _speeches(play)]
    return "\n\n".join(f"{name}:\n" + "\n".join(lines) for name, lines in speeches) + "\n"


def _speeches(play: str) -> list[tuple[str, list[str]]]:
    """(name, lines) for every speech that has a line, one after the other."""
    speeches: list[tuple[str, list[str]]] = []
    for paragraph in re.split(r"\n\s*\n", play.replace("\r\n", "\n")):
        paragraph = paragraph.strip()
        if paragraph.startswith("#") or _LISTED.match(paragraph):
            continue
        for line in _without_directions(paragraph).split("\n"):
            line = line.strip()
            if speaker := _SPEAKER.fullmatch(line):
                speeches.append((_plain(speaker[1]), []))
                continue
            line = _plain(line)
            if line in ("EPILOGUE", "PROLOGUE"):
                speeches.append((line.title(), []))
            elif unmarked := _UNMARKED.fullmatch(line):
                speeches.append((unmarked[1], [unmarked[2]]))
            # What stands before the first speech is spoken by nobody.
            elif line and speeches and not line.startswith("SPOKEN BY"):
                speeches[-1][1].append(line)
    return [(name, lines) for name, lines in speeches if lines]


def _without_directions(paragraph: str) -> str:
    return _DIRECTION.sub("", _ASIDE.sub("", paragraph))


def _plain(line: str) -> str:
    line = html.unescape(_ESCAPED.sub(r"\1", line)).replace("—", "--").replace("& c", "&c")
    return re.sub(r" {2,}", " ", line).strip()
