"""Markdown plays in the layout of the classic file."""

from __future__ import annotations

from budgerigar.text.plays import plays_text

# A "~" at a line's end stands for the two spaces with which Markdown breaks a line.
PLAY = """# A Play

## ACT I

### SCENE I. A street.

_Enter a company of Citizens, with staves, clubs, and other
weapons_

**First Citizen**~
Before we go,~
hear me\\--speak.

_Shouts within_

What shouts are these — ours?

**All**~
_\\[Aside]_~
Speak, _\\[to him]_ speak.

**Nobody**~
_Exit_

__\\[Awaking]_~
**LUCIUS & CO**~
Sing, & c. 'tis   well.

1\\. A flourish of trumpets.~
2\\. Then, two judges.

EPILOGUE

*Spoken by a Dancer*

First my fear.
""".replace("~", "  ")


def test_layout() -> None:
    assert plays_text([PLAY]) == (
        "First Citizen:\nBefore we go,\nhear me--speak.\nWhat shouts are these -- ours?\n\n"
        "All:\nSpeak, speak.\n\n"
        "LUCIUS & CO:\nSing, &c. 'tis well.\n\n"
        "Epilogue:\nFirst my fear.\n"
    )


def test_several_plays_and_windows_line_ends() -> None:
    assert plays_text(["**A**  \r\nx  \r\n", "**B**  \ny"]) == "A:\nx\n\nB:\ny\n"
