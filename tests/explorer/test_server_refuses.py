"""What the page's server refuses on real sockets: in words, with a line in its log, and lives on."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from served import Served, asked, refused

from budgerigar.explorer import sessions as sessions_module
from budgerigar.explorer.asking import MOST_BYTES
from budgerigar.inspection.views import VIEWS, View


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "localhost.evil.example:{port}",
        "0.0.0.0:{port}",
        "127.1:{port}",
        "[::]:{port}",
        "user@127.0.0.1:{port}",
        "127.0.0.1:{port},evil.example",
        "",
    ],
)
def test_a_wrong_host(served: Served, host: str) -> None:
    answer = served.request("GET", "/", headers={"Host": host.format(port=served.port)})
    refused(served, answer, 421)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"])
def test_a_name_of_this_machine(served: Served, host: str) -> None:
    assert served.request("GET", "/", headers={"Host": f"{host}:{served.port}"}).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:{port}.evil.example",
        "http://localhost:{port}",  # the same server, but not the page that was opened
        "file://",
        "",
    ],
)
def test_a_wrong_origin(served: Served, origin: str) -> None:
    answer = served.ask(asked(), "about", Origin=origin.format(port=served.port))
    refused(served, answer, 403, "may not ask here")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_another_sites_page(served: Served, site: str) -> None:
    refused(served, served.ask(asked(), "about", Sec_Fetch_Site=site), 403)
    served.said.clear()
    embedded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    refused(served, served.request("GET", "/index.html", headers=embedded), 403)


def test_our_own_page_and_a_link_to_it(served: Served) -> None:
    own = {"Origin": f"http://{served.host}", "Sec_Fetch_Site": "same-origin"}
    row = {"layer": 0, "head": 0, "query": 1}
    assert served.ask(asked(), "row", row, **own).status == 200
    link = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert served.request("GET", "/", headers=link).status == 200
    assert served.request("GET", "/api/models", headers=link).status == 403
    framed = {**link, "Sec-Fetch-Dest": "iframe"}
    assert served.request("GET", "/", headers=framed).status == 403


def test_a_preflight_is_refused(served: Served) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    refused(served, served.request("OPTIONS", "/api/ask", headers=headers), 403)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/ask"), ("PUT", "/api/ask"), ("POST", "/"), ("DELETE", "/api/models")],
)
def test_a_wrong_method(served: Served, method: str, path: str) -> None:
    refused(served, served.request(method, path), 405)


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/json; charset=utf-16",
        "application/jsonp",
    ],
)
def test_a_wrong_kind_of_body(served: Served, kind: str) -> None:
    refused(served, served.post(b"{}", content_type=kind), 415, "application/json")


def test_a_compressed_body(served: Served) -> None:
    refused(served, served.post(b"{}", content_encoding="gzip"), 415)


BROKEN = [
    b"",
    b"{",
    b"nothing",
    b"[]",
    b"null",
    b"5",
    b"{} {}",
    b'{"question": {"model": "little"}, "name": "about", "params": {}, }',
    b"\xff\xfe{\x00}\x00",
    b'\xef\xbb\xbf{"question": {}, "name": "about"}',
    b'{"question": {"model": "\xc3\x28"}, "name": "about"}',
    b'{"question": {"model": "\\ud800"}, "name": "about"}',
    b'{"question": {"\\udc00": 1}, "name": "about"}',
    b'{"question": [], "name": "about"}',
    b'{"question": {}, "name": 5}',
    b'{"question": {}, "name": "about", "params": []}',
    b'{"question": {}, "name": "about", "params": null}',
    b'{"question": {}}',
    b'{"name": "about"}',
    b'{"question": {}, "name": "about", "more": 1}',
    b'{"question": {}, "name": "about", "name": "read"}',
    b'{"question": {"model": NaN}, "name": "about"}',
    b'{"question": {"model": -Infinity}, "name": "about"}',
    b'{"question": {"model": 1e999}, "name": "about"}',
    b'{"question": {"model": ' + b"9" * 5000 + b'}, "name": "about"}',
    b'{"question": {"model": 9007199254740993}, "name": "about"}',
    b'{"question": ' + b"[" * 100_000,
    b'{"question": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b', "name": "about"}',
    b'{"question": {"a": ' + b"[" * 900 + b"]" * 900 + b'}, "name": "about"}',
]


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_body(served: Served, body: bytes) -> None:
    refused(served, served.post(body), 400)


WRONG: list[tuple[Any, Any, Any]] = [
    ({}, "about", {}),
    ({"model": "unknown"}, "about", {}),
    ({"model": None}, "about", {}),
    ({"model": ["little"]}, "about", {}),
    ({"model": {"little": 1}}, "about", {}),
    (asked(), "unknown", {}),
    (asked(), "__class__", {}),
    (asked(), "", {}),
    (asked(), "read", {"unknown": 1}),
    (asked(), "read", {"top": "many"}),
    (asked(), "read", {"top": 1.5}),
    (asked(), "read", {"top": 10**9}),
    (asked(), "read", {"top": -1}),
    (asked(), "row", {"layer": 0}),
    (asked(), "row", {"layer": 99, "head": 0, "query": 0}),
    (asked(), "row", {"layer": 0, "head": 99, "query": 0}),
    (asked(), "row", {"layer": 0, "head": 0, "query": 10**6}),
    (asked(), "row", {"layer": [0], "head": {}, "query": True}),
    (asked(), "alignment", {}),
    (asked(), "generate", {"temperature": -1}),
    (asked(), "generate", {"count": 10**9}),
    (asked(text=""), "read", {}),
    (asked(text=5), "read", {}),
    (asked(text=["a"]), "read", {}),
    (asked(text="the cat " * 2000), "read", {}),
    (asked(text="x" * 200_000), "read", {}),
    (asked(unknown=1), "read", {}),
    (asked(source="a"), "read", {}),
    (asked(off="L0.H0"), "read", {}),
    (asked(off=["L9.H9"]), "read", {}),
    (asked(off=[5]), "read", {}),
    (asked(off=["L0.H0"], how="burn"), "read", {}),
    (asked(off=["L0.H0"], of=7), "read", {}),
    (asked(mask=[0]), "read", {}),
    (asked(mask=[-1, "a"]), "read", {}),
    (asked(checkpoint=5), "read", {}),
    ({"model": "little", "ids": [10**6]}, "read", {}),
    ({"model": "little", "ids": [-1]}, "read", {}),
    ({"model": "little", "ids": [True]}, "read", {}),
    ({"model": "little", "ids": []}, "read", {}),
]


@pytest.mark.parametrize(("question", "name", "params"), WRONG, ids=range(len(WRONG)))
def test_a_question_that_makes_no_sense(
    served: Served, question: Any, name: Any, params: Any
) -> None:
    refused(served, served.ask(question, name, params), 422)


def test_a_body_that_is_too_long(served: Served) -> None:
    body = json.dumps({"question": asked(text="x" * MOST_BYTES), "name": "read"}).encode()
    refused(served, served.post(body), 413, "256 KB")
    served.said.clear()
    just = json.dumps({"question": asked(), "name": "unknown"}).encode()
    answer = served.post(just + b" " * (MOST_BYTES - len(just)))
    assert answer.status == 422  # it was read
    served.said.clear()
    refused(served, served.post(just + b" " * (MOST_BYTES - len(just) + 1)), 413)


def test_a_long_body_in_chunks(served: Served) -> None:
    chunks = (b" " * 10_000 for _ in range(100))
    headers = {"content-type": "application/json", "Transfer-Encoding": "chunked"}
    answer = served.request("POST", "/api/ask", chunks, headers, encode_chunked=True)
    refused(served, answer, 413)


def test_a_length_that_is_a_lie(served: Served) -> None:
    head = f"POST /api/ask HTTP/1.1\r\nHost: {served.host}\r\ncontent-type: application/json\r\n"
    told = served.raw(f"{head}content-length: 100000000000\r\n\r\n{{".encode())
    assert told.startswith(b"HTTP/1.1 413")
    assert served.raw(f"{head}content-length: 20\r\n\r\n{{}}".encode()) == b""  # it never came
    for length in ("-1", "abc", "1, 2", "99999999999999999999999"):
        answer = served.raw(f"{head}content-length: {length}\r\n\r\n{{}}".encode())
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413")), answer
    both = f"{head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{{}}"
    assert served.raw(both.encode()).startswith(b"HTTP/1.1 400")


def test_a_body_that_never_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgerigar.explorer.asking._SECONDS", 0.1)
    head = f"POST /api/ask HTTP/1.1\r\nHost: {served.host}\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")
    assert len(served.said) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/server.py",
        "/%252e%252e/server.py",
        "/..\\server.py",
        "/..%5cserver.py",
        "/....//server.py",
        "/./index.html",
        "//index.html",
        "/index.html/",
        "/index.html%00.js",
        "/index.html%0a",
        "/index",
        "/i18n",
        "/.git/config.json",
        "/C:/x.js",
        "/index.html::$DATA.js",
        "/" + "a" * 3000 + ".js",
        "/%ff%fe.js",
        "/etc/passwd",
        "//etc/passwd",
        "http://127.0.0.1/index.html",
        "/api",
        "/api/",
        "/api/../index.html",
        "/api/unknown",
        "/server.py",
        "/__init__.py",
    ],
)
def test_what_is_no_file_of_the_page(served: Served, path: str) -> None:
    answer = served.raw(f"GET {path} HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404"), answer[:200]
    assert b"import" not in answer
    assert len(served.said) == 1
    assert served.said[0].isprintable()


def test_the_log_cannot_be_written_by_strangers(served: Served) -> None:
    served.request("GET", "/%1b%5b31mred%0d%0arefused:%20nothing%e2%80%ae")
    (line,) = served.said
    assert "\x1b" not in line
    assert "\n" not in line
    assert line.isprintable()


RAW = [
    b"\r\n\r\n\r\n",
    b"hello\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # TLS
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",  # no Host
    b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nbad header\r\n\r\n",
    b"G\x00T / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: {host}\r\n\r\n",
]


@pytest.mark.parametrize("data", RAW, ids=range(len(RAW)))
def test_what_is_no_request(served: Served, data: bytes) -> None:
    answer = served.raw(data.replace(b"{host}", served.host.encode()))
    assert answer == b"" or answer.split(b" ")[1][:1] == b"4", answer[:200]
    assert all(line.startswith("refused: ") and line.isprintable() for line in served.said)
    assert bool(answer) <= len(served.said) <= 1  # a reset may overtake the answer


def test_an_old_request_without_host_is_refused(served: Served) -> None:
    assert served.raw(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421")


def test_a_web_socket_is_not_opened(served: Served) -> None:
    head = f"GET /api/ask HTTP/1.1\r\nHost: {served.host}\r\nConnection: Upgrade\r\n"
    more = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    answer = served.raw((head + more).encode())
    assert not answer.startswith(b"HTTP/1.1 101")


def test_somebody_who_goes_away(served: Served) -> None:
    body = json.dumps({"question": asked(), "name": "read"}).encode()
    head = f"POST /api/ask HTTP/1.1\r\nHost: {served.host}\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    for end in (20, len(request) - 5, len(request)):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(request[:end])


def test_a_fault_of_ours_is_said_and_survived(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(look: Any) -> None:
        raise RuntimeError("something\x1b[31m is wrong\nhere")

    monkeypatch.setitem(VIEWS, "broken", View(broken))
    answer = served.ask(asked(), "broken")
    assert answer.status == 500
    assert "RuntimeError" in answer.words
    (line,) = served.said
    assert "500" in line
    assert line.isprintable()


def test_too_many_that_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MOST_WAITING", 0)
    refused(served, served.ask(asked(), "about"), 503, "wait for little")
