"""Stop texts, matched on text and not on tokens, without ever showing a part of one.

"STOP" may arrive as "ST" + "OP!": whatever could still become a stop text is held back until it is
known. The result does not depend on how the text was cut into pieces.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Passes text through until one of `stops` is complete, then cuts it off before its start.

    Whichever stop text is complete first wins; of two that end at the same place, the longer.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that can be shown after `text` arrived; sets `stopped` at a stop text."""
        if self.stopped:
            return ""
        if not self._stops:
            return text
        text = self._held + text
        found = [(at + len(s), at) for s in self._stops if (at := text.find(s)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        n_held = self._possible_start(text)
        self._held = text[len(text) - n_held :]
        return text[: len(text) - n_held]

    def flush(self) -> str:
        """What was held back and turned out not to be a stop text, once nothing more comes."""
        text, self._held = self._held, ""
        return text

    def _possible_start(self, text: str) -> int:
        """Length of the longest end of `text` with which some stop text begins."""
        longest = max(len(s) for s in self._stops) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(s.startswith(text[-length:]) for s in self._stops):
                return length
        return 0
