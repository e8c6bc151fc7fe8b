"""Stop texts: the same result however the text is cut, and no part of one ever shown."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from budgerigar.generation.stopping import StopMatcher


def character_by_character(text: str, stops: list[str]) -> tuple[str, bool]:
    """The rule itself: grow the text by one character until it ends with a stop text."""
    for end in range(1, len(text) + 1):
        ending = [s for s in stops if text[:end].endswith(s)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


def run(pieces: list[str], stops: list[str]) -> tuple[list[str], bool]:
    matcher = StopMatcher(stops)
    shown = []
    for piece in pieces:
        shown.append(matcher.push(piece))
        if matcher.stopped:
            break
    return [*shown, matcher.flush()], matcher.stopped


@settings(max_examples=300, deadline=None)
@given(
    st.text("abc", max_size=20),
    st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
    st.randoms(use_true_random=False),
)
def test_any_cutting_gives_the_rule(text: str, stops: list[str], chance: random.Random) -> None:
    pieces, rest = [], text
    while rest:
        n = chance.randint(0, 4)
        pieces.append(rest[:n])
        rest = rest[n:]
    shown, stopped = run(pieces, stops)
    expected, should_stop = character_by_character(text, stops)
    assert "".join(shown) == expected
    assert stopped == should_stop
    for i in range(len(shown)):  # nothing is shown that must be taken back
        assert expected.startswith("".join(shown[: i + 1]))


def test_a_held_start_comes_out_when_it_was_none() -> None:
    assert run(["abST", "AR"], ["STOP"]) == (["ab", "STAR", ""], False)
    assert run(["abST"], ["STOP"]) == (["ab", "ST"], False)


def test_after_a_stop_nothing_leaks() -> None:
    matcher = StopMatcher(["\n\n"])
    assert matcher.push("line\n") == "line"
    assert matcher.push("\nmore") == ""
    assert matcher.stopped
    assert matcher.push("more") == ""
    assert matcher.flush() == ""
