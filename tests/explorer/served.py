"""A server of the page in a thread, and ways to talk to it: as a browser does, and as nobody should."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from budgerigar.explorer.server import bind, make_server
from budgerigar.explorer.sessions import Sessions
from budgerigar.inspection.views import unpack


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def words(self) -> str:
        """Of an error."""
        words = json.loads(self.body)["error"]
        assert isinstance(words, str)
        assert words
        return words

    @property
    def value(self) -> Any:
        """Of a payload."""
        assert self.status == 200, self.body[:300]
        return unpack(self.body)


@dataclass
class Served:
    """A running server; `said`: the lines that it logged."""

    port: int
    sessions: Sessions
    said: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Answer:
        """One well-formed HTTP request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}), **settings)
            found = connection.getresponse()
            named = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, named, found.read())
        finally:
            connection.close()

    def ask(self, question: Any, name: Any, params: Any = None, **headers: str) -> Answer:
        """A view, as the page asks for it."""
        body = json.dumps({"question": question, "name": name, "params": params or {}})
        return self.post(body.encode(), **headers)

    def post(self, body: bytes, **headers: str) -> Answer:
        """Bytes as the body of a question."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", "/api/ask", body, {"content-type": "application/json", **given})

    def raw(self, data: bytes, seconds: float = 10.0) -> bytes:
        """Bytes as they are, and all that comes back until the server closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            found = b""
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    found += part
            except OSError:  # too slow, or cut off
                pass
            return found


@contextmanager
def serving(sessions: Sessions, port: int = 0, **settings: Any) -> Iterator[Served]:
    """A server at a port of this machine (0: a free one), until the block ends."""
    with bind("127.0.0.1", port) as listening:
        served = Served(listening.getsockname()[1], sessions)
        settings = {"pause": 0.0, **settings}  # every line is said
        server = make_server(sessions, listening, say=served.said.append, **settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        try:
            yield served
        finally:
            server.should_exit = True
            thread.join(10)
            sessions.close()


SENTENCE = "the dog sat on the mat ."


def asked(**more: Any) -> dict[str, Any]:
    """A question about the little model."""
    return {"model": "little", "text": SENTENCE, **more}


def refused(served: Served, answer: Answer, status: int, *words: str) -> None:
    """The answer is an error in words, and one line of the log says so."""
    assert answer.status == status, answer.body[:200]
    for word in words:
        assert word in answer.words
    assert len(served.said) == 1
    (line,) = served.said
    assert line.startswith("refused: ")
    assert str(status) in line
    assert line.isprintable()
    assert len(line) < 400
