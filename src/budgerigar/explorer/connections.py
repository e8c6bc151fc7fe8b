"""A connection to the page's server, which may not be held open by somebody who says nothing.

Any program of this machine can open connections and send half a request, or a body that never comes.
uvicorn waits for the rest for ever, and refuses everybody where it has many connections. Here who is
waited for has some seconds (not some after each byte), who takes none of an answer as well, and where
there are too many connections the one that was waited for the longest makes room.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

KEPT_OPEN = 30.0
"""seconds that a connection lasts on which nothing comes, and that a request's head may take"""
MOST = 256
"""connections at the same time; a browser opens six"""


class Connection(H11Protocol):
    """uvicorn's, with those bounds."""

    _waited: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As asyncio says."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) >= MOST:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """As asyncio says."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """From here on the next request is waited for, or the rest of a body that nobody read."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio says."""
        self._waited = _ended(self._waited)
        self._unread = _ended(self._unread)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The other end takes no more of an answer."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(KEPT_OPEN, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._unread = _ended(self._unread)

    @property
    def _is_waited_for(self) -> bool:
        """For a request, or for a body after its answer; one that is read has a time of its own."""
        theirs, ours = self.conn.their_state, self.conn.our_state
        return theirs is h11.IDLE or (theirs is h11.SEND_BODY and ours is h11.DONE)

    def _watch(self) -> None:
        """One timer from when it is waited for until it no longer is, whatever comes meanwhile."""
        if not self._is_waited_for:
            self._waited = _ended(self._waited)
        elif self._waited is None:
            self._waited = self.loop.call_later(KEPT_OPEN, self.transport.close)

    def _make_room(self) -> None:
        waited = [one for one in self.connections if isinstance(one, Connection) and one._waited]
        longest = min(waited, key=lambda one: one._waited.when())  # type: ignore[union-attr]
        if longest is not self:  # all others are answered: it is refused in words
            self.connections.discard(longest)
            longest.transport.close()


def _ended(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancelled: no timer any more."""
    if timer is not None:
        timer.cancel()
    return None


class Sparing:
    """Says a line, but no more than one in `pause` seconds; the next one tells how many were not said.

    A program that asks in a loop would else fill the terminal and keep the server busy with it.
    """

    def __init__(self, say: Callable[[str], Any], pause: float = 1.0) -> None:
        self.say, self.pause = say, pause
        self._again_at, self._unsaid = 0.0, 0

    def __call__(self, line: str) -> None:
        """Say it, or count it."""
        now = time.monotonic()
        if now < self._again_at:
            self._unsaid += 1
            return
        more = f" (before it {self._unsaid} more)" if self._unsaid else ""
        self._again_at, self._unsaid = now + self.pause, 0
        self.say(line + more)
