"""An answer that takes a while, as it comes: frames of one HTTP response.

    frame = u32 kind | u32 length (little-endian) | bytes

    kind 0   how far it is: JSON {"description", "done", "total": number|null, "unit"}
         1   what is known so far: the view's payload, not whole yet
         2   the answer: the view's payload; the last frame
         400 and more: an HTTP status, and the JSON of that error; the last frame

A page that goes away, or stops, closes the connection: then nobody waits for the job any more.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from budgerigar.explorer.jobs import Job

FRAMES = "application/x-budgerigar-frames"
"""what a request's Accept names, where its sender can read frames"""
PROMPT = 0.25
"""seconds within which an answer comes whole"""
_PAUSE = 0.1  # between two reports
_SIGN_OF_LIFE = 2.0  # seconds without news, after which the last report is sent again
_PROGRESS, _PART, _ANSWER = 0, 1, 2


class News:
    """One who waits for a job, in an event loop: `async with News(job) as news`."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        self.joined = job.join(self._hear)

    def _hear(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the server has ended
            return

    async def wait(self, seconds: float) -> bool:
        """Until there is news, but not longer; whether there is."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    async def prompt(self) -> bool:
        """Whether the answer comes at once."""
        end = self._loop.time() + PROMPT
        while not self.job.answer.done() and (left := end - self._loop.time()) > 0:
            await self.wait(left)
        return self.job.answer.done()

    def leave(self) -> None:
        """Wait no more."""
        if self.joined:
            self.job.leave(self._hear)
            self.joined = False


class Frames(StreamingResponse):
    """The answer of a job in frames. failed: an error -> its response, which gives the last frame."""

    def __init__(self, news: News, failed: Callable[[Exception], Response]) -> None:
        self.news, self.failed = news, failed
        super().__init__(self._frames(), media_type=FRAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send, until it is whole or nobody receives."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.news.leave()

    async def _frames(self) -> AsyncIterator[bytes]:
        job, sent = self.news.job, None
        while True:
            done = job.answer.done()
            if job.part is not None and job.part is not sent and not done:
                sent = job.part
                yield frame(_PART, sent)
            if done:
                break
            report = None if job.report is None else asdict(job.report)
            yield frame(_PROGRESS, json.dumps(report).encode())
            await self.news.wait(_SIGN_OF_LIFE)
            await asyncio.sleep(0 if job.answer.done() else _PAUSE)
        yield self._last(job)

    def _last(self, job: Job) -> bytes:
        error = job.answer.exception()
        if error is None:
            return frame(_ANSWER, job.answer.result())
        if not isinstance(error, Exception):
            raise error
        response = self.failed(error)
        return frame(response.status_code, bytes(response.body))


def frame(kind: int, content: bytes) -> bytes:
    """One frame."""
    return struct.pack("<II", kind, len(content)) + content
