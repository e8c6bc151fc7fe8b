"""Connections that are held open by half a request, a body that never comes, or an answer unread."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from served import Served, asked, serving

from budgerigar.api.model import Model
from budgerigar.explorer import connections
from budgerigar.explorer.connections import MOST, Sparing
from budgerigar.explorer.sessions import Sessions


@contextmanager
def held(served: Served, data: bytes) -> Iterator[socket.socket]:
    """A connection on which these bytes were sent, and no more."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(data)
        yield connection


def is_open(connection: socket.socket) -> bool:
    """Whether the server still holds it."""
    connection.setblocking(False)
    try:
        return connection.recv(1 << 16) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "data", [b"GET / HT", b"", b"GET / HTTP/1.1\r\n", b"POST /api/ask HTTP/1.1\r\nHost: x\r\n"]
)
def test_many_that_say_half_a_request(served: Served, data: bytes) -> None:
    """All of them together keep nobody out; those that were there longest make room."""
    with ExitStack() as stack:
        many = [stack.enter_context(held(served, data)) for _ in range(MOST + 40)]
        for _ in range(3):
            assert served.ask(asked(), "about").status == 200
        assert is_open(many[-1])
        assert not is_open(many[0])
    assert not served.said


def dripping(connection: socket.socket, data: bytes, most: float = 20.0) -> float:
    """Seconds until the server closes a connection that gets a byte every now and then."""
    start, at = time.monotonic(), 0
    connection.settimeout(0.02)
    while time.monotonic() < start + most:
        try:
            connection.sendall(data[at : at + 1])
            at = min(at + 1, len(data) - 1)
            if not connection.recv(1 << 16):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - start


HEAD = b"Host: {host}\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b"GET /"),
        (b"", b"\r"),
        (b"GET / HTTP/1.1\r\n", b"x: " + b"a" * 5000),
        (b"GET /style.css HTTP/1.1\r\n" + HEAD, b"a" * 5000),  # answered, the body never whole
        (
            b"GET /style.css HTTP/1.1\r\nHost: {host}\r\n\r\n",
            b"GET /" + b"a" * 5000,
        ),  # a second one
    ],
)
def test_a_request_that_comes_byte_by_byte(
    served: Served, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    monkeypatch.setattr(connections, "KEPT_OPEN", 0.3)
    with held(served, first.replace(b"{host}", served.host.encode())) as connection:
        assert dripping(connection, then) < 15


def test_an_answer_that_nobody_takes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KEPT_OPEN", 0.3)
    request = f"GET /style.css HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode()
    with held(served, b"") as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.1)
        end, cut_off = time.monotonic() + 15, False
        while time.monotonic() < end and not cut_off:
            try:
                connection.sendall(request)
            except TimeoutError:
                continue
            except OSError:
                cut_off = True
        assert cut_off


def test_a_body_in_time_and_an_idle_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is slow but within its time is answered, and the connection then serves once more."""
    monkeypatch.setattr(connections, "KEPT_OPEN", 0.5)
    body = b'{"question": {"model": "little", "text": "the cat"}, "name": "about"}'
    head = f"POST /api/ask HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode()
    with held(served, request) as connection:
        for part in (body[:20], body[20:]):
            time.sleep(0.4)
            connection.sendall(part)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_refusals_are_said_sparingly(little: Model) -> None:
    with serving(Sessions({"little": little}), pause=600.0) as served:
        for _ in range(30):
            assert served.request("GET", "/nothing").status == 404
            assert served.raw(b"no request\r\n\r\n")
        (line,) = served.said
        assert "404" in line


def test_what_was_not_said_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    now = [10.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    say = Sparing(said.append)
    for at in (10.0, 10.1, 10.9, 11.1, 13.0):
        now[0] = at
        say(f"refused {at}")
    assert said == ["refused 10.0", "refused 11.1 (before it 2 more)", "refused 13.0"]
