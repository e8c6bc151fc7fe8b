"""The page's local server: its files, the list of models, and the answers of views as bytes.

    GET /, /NAME     the page's files
    GET /api/models  what can be asked about, a payload (see `inspection.views.payload`)
    GET /api/tours   the lesson and the reader's own tours, JSON (see `lessons.tours`)
    POST /api/ask    {"question", "name", "params"} -> the payload of that view, or, where it takes
                     a while and the request accepts them, frames (see `streaming`)

An error is {"error": words}, beside them "template" and "values" where they have them (see
`budgerigar.said`), with a status: 422 what the user can mend (`UserError`), 4xx a request
that was refused, 500 a fault of ours. Each is one line of the log, and the server goes on.

uvicorn and starlette do the HTTP (h11 for its grammar, so that broken requests end there): both are
small and pure Python, and a server of models is to use the same two. The standard library's
`http.server` reads no chunked bodies and takes a thread per connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.explorer.asking import RefusedError, read_asked
from budgerigar.explorer.connections import KEPT_OPEN, MOST, Connection, Sparing
from budgerigar.explorer.files import page_file
from budgerigar.explorer.guard import HEADERS, check, our_hosts, short
from budgerigar.explorer.jobs import BusyError
from budgerigar.explorer.lessons import tours
from budgerigar.explorer.sessions import Sessions
from budgerigar.explorer.streaming import FRAMES, Frames, News
from budgerigar.inspection.views.payload import pack
from budgerigar.said import Said, said, told

HOSTS = ("127.0.0.1", "localhost", "::1")
PORT = 7007  # tried first
PAYLOAD = "application/octet-stream"


class Explorer:
    """The ASGI application.

    port: the one it is reached at; say, refuse: where the lines of faults and of refusals go.
    """

    def __init__(
        self,
        sessions: Sessions,
        port: int,
        say: Callable[[str], None] = progress.note,
        debug: bool = False,
        own_tours: Sequence[str | Path] = (),
        refuse: Callable[[str], None] | None = None,
    ) -> None:
        self.sessions, self.hosts, self.say, self.debug = sessions, our_hosts(port), say, debug
        self.own_tours, self.refuse = own_tours, refuse or say
        self.started = secrets.token_hex(8)  # another one after a restart: see recovery.js

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request: checked, answered, and its refusal said."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        method, path = scope["method"], scope["path"]
        try:
            check(method, path, request.headers, self.hosts)
            response = await self._answer(request, method, path)
        except Exception as error:
            response = self._failed(scope, error)
        response.headers["Cache-Control"] = "no-store" if path.startswith("/api/") else "no-cache"
        response.headers["X-Started"] = self.started
        for name, value in HEADERS.items():
            response.headers[name] = value
        await response(scope, receive, send)

    async def _answer(self, request: Request, method: str, path: str) -> Response:
        if path == "/api/ask":
            _need(method, "POST")
            return await self._ask(request)
        _need(method, "GET", "HEAD")
        if path == "/api/models":
            return Response(pack({"models": self.sessions.models()}), media_type=PAYLOAD)
        if path == "/api/tours":  # read each time: who writes one reloads the page
            found_tours = await asyncio.to_thread(tours, self.own_tours)
            return Response(json.dumps({"tours": found_tours}), media_type="application/json")
        if path == "/favicon.ico":  # browsers ask for it by themselves
            return Response(status_code=204)
        found = page_file(path)
        if found is None:
            raise RefusedError(404, "there is no such page")
        content, kind = found
        return Response(content, headers={"Content-Type": kind})

    async def _ask(self, request: Request) -> Response:
        """The payload; in frames, where it takes a while and the page can read them."""
        asked = await read_asked(request)
        news = None
        while news is None or not news.joined:  # a job that is just being stopped is asked for anew
            news = News(self.sessions.job(asked.question, asked.name, asked.params))
        job = news.job
        if FRAMES not in request.headers.get("accept", "") or await news.prompt():
            return Response(await asyncio.wrap_future(job.answer), media_type=PAYLOAD)
        return Frames(news, lambda error: self._failed(request.scope, error))

    def _failed(self, scope: Scope, error: Exception) -> Response:
        """An error as an answer, and one line for who runs the server."""
        if isinstance(error, RefusedError):
            return self._refusal(scope, error.status, error.words)
        if isinstance(error, BusyError):
            return self._refusal(scope, 503, _words(error))
        if isinstance(error, UserError):
            return self._refusal(scope, 422, _words(error))
        return self._fault(scope, error)

    def _refusal(self, scope: Scope, status: int, words: str) -> Response:
        """What whoever asked is told, and one line for who runs the server."""
        self.refuse(f"refused: {_asked_for(scope)}: {status} {short(words, 200)}")
        # What may come of a body that was not read is no next request.
        closing = {"Connection": "close"} if status not in (400, 404, 422, 503) else None
        return _error(words, status, closing)

    def _fault(self, scope: Scope, error: Exception) -> Response:
        words = said(
            "a fault of the program, not of yours: {kind}: {error}",
            kind=type(error).__name__,
            error=error,
        )
        if self.debug:
            import traceback

            traceback.print_exception(error)
        self.say(f"failed: {_asked_for(scope)}: 500 {short(words, 400)}")
        return _error(words, 500)


def _error(words: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Words as JSON in ASCII, whatever characters they hold."""
    parts = told(words) if isinstance(words, Said) else {"$said": words}
    found = {"error": parts.pop("$said"), **parts}
    return Response(json.dumps(found), status, headers, "application/json")


def _words(error: UserError) -> str:
    """Of an error, with the template that they know."""
    known = error.args[0] if error.args else None
    return known if isinstance(known, Said) else str(error)


def _asked_for(scope: Scope) -> str:
    return f"{short(scope['method'])} {short(scope['path'])}"


def _need(method: str, *methods: str) -> None:
    if method not in methods:
        raise RefusedError(405, f"{short(method)} is not possible here; {methods[0]} is")


# -- running it ------------------------------------------------------------------------------------


def bind(host: str, port: int | None) -> socket.socket:
    """A listening socket. port: 0 any free one; None: PORT, or any free one where that is taken.

    Raises:
        UserError: `host` is not this machine alone, or the port is taken or not allowed.
    """
    if host not in HOSTS:
        raise UserError(
            f"the page is served to this machine alone, so the host is one of {', '.join(HOSTS)}, "
            f"not {host!r}. From another machine: ssh -L {port or PORT}:127.0.0.1:{port or PORT}"
        )
    if port is not None and not 0 <= port < 65536:
        raise UserError(f"a port is a number from 0 to 65535, not {port}; 0 is any that is free")
    for number in (PORT, 0) if port is None else (port,):
        try:
            return _listen(host, number)
        except OSError as error:
            if number in (port, 0):
                reason = error.strerror or str(error)
                raise UserError(
                    f"port {number} of {host} cannot be used: {reason}. Another one: --port N, or "
                    "--port 0 for any that is free"
                ) from None
    raise AssertionError("the last port that is tried ends the loop")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    # told that it is TCP, asyncio sends each answer at once; else one takes 40 ms more
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere this would let two servers share the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("::1" if host == "::1" else "127.0.0.1", port))
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def address(host: str, listening: socket.socket) -> str:
    """What to type into a browser."""
    name = "[::1]" if host == "::1" else host
    return f"http://{name}:{listening.getsockname()[1]}/"


def make_server(
    sessions: Sessions,
    listening: socket.socket,
    say: Callable[[str], None] = progress.note,
    debug: bool = False,
    own_tours: Sequence[str | Path] = (),
    pause: float = 1.0,
) -> uvicorn.Server:
    """A server for one listening socket; `.run(sockets=[listening])` serves until it is stopped.

    pause: seconds between two lines about refusals.
    """
    refuse = Sparing(say, pause)
    app = Explorer(sessions, listening.getsockname()[1], say, debug, own_tours, refuse)
    log = logging.getLogger("uvicorn.error")
    log.handlers, log.propagate = [_Remarks(refuse)], False
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST,
        timeout_keep_alive=int(KEPT_OPEN),
        timeout_graceful_shutdown=2,
    )
    return _Server(config, sessions)


class _Server(uvicorn.Server):
    """uvicorn's, which waits for its answers to end: those of a model that computes end first."""

    def __init__(self, config: uvicorn.Config, sessions: Sessions) -> None:
        super().__init__(config)
        self.sessions = sessions

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's."""
        self.sessions.close()
        await super().shutdown(sockets)


class _Remarks(logging.Handler):
    """uvicorn's warnings (a request that is no HTTP) as lines of ours."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.say = say

    def emit(self, record: logging.LogRecord) -> None:
        ended = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
        if not ended and "graceful shutdown" not in record.getMessage():
            self.say(f"refused: {short(record.getMessage().strip(), 200)}")
