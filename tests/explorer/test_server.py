"""The page's server on real sockets: what it answers, what it refuses, that it lives on after it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import Answer, Served, serving

import budgerigar as bg
from budgerigar.errors import UserError
from budgerigar.explorer import sessions as sessions_module
from budgerigar.explorer.asking import MOST_BYTES
from budgerigar.explorer.server import address, bind
from budgerigar.explorer.sessions import Sessions
from budgerigar.inspection.views import VIEWS, View, look_at, value_of

SENTENCE = "the dog sat on the mat ."


@pytest.fixture(scope="module")
def model(little_run: Path) -> bg.Model:
    return bg.load(little_run, device="cpu")


@pytest.fixture(scope="module")
def server(model: bg.Model) -> Iterator[Served]:
    with serving(Sessions({"little": model, "other": model})) as served:
        yield served


@pytest.fixture
def served(server: Served) -> Iterator[Served]:
    """The server, with an empty log; afterwards it must still answer."""
    server.said.clear()
    yield server
    assert server.request("GET", "/api/models").status == 200


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "little", "text": SENTENCE, **more}


# -- what it answers -------------------------------------------------------------------------------


def test_the_page_and_its_files(served: Served) -> None:
    page = served.request("GET", "/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.body.lower().startswith(b"<!doctype html>")
    assert served.request("GET", "/index.html").body == page.body
    head = served.request("HEAD", "/")
    assert head.status == 200
    assert head.body == b""
    assert not served.said


def test_every_answer_has_the_headers(served: Served) -> None:
    answers = [
        served.request("GET", "/"),
        served.request("GET", "/nothing.js"),
        served.request("GET", "/api/models"),
        served.post(b"{"),
        served.ask(asked(), "nothing"),
        served.request("GET", "/", headers={"Host": "evil.example"}),
    ]
    assert [answer.status for answer in answers] == [200, 404, 200, 400, 422, 421]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        for part in (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "frame-ancestors 'none'",
        ):
            assert part in policy.split("; ")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
    for answer in answers[2:5]:
        assert answer.headers["cache-control"] == "no-store"


def test_the_models_and_what_they_can(served: Served, model: bg.Model) -> None:
    models = served.request("GET", "/api/models").value["models"]
    assert [one["id"] for one in models] == ["little", "other"]
    assert models[0]["kind"] == "decoder"
    assert models[0]["checkpoints"] == ["step-00000000", "step-00000002", "step-00000004"]
    assert {"about", "read", "head"} <= set(models[0]["views"])
    assert "alignment" not in models[0]["views"]


def test_a_view_is_that_of_the_library(served: Served, model: bg.Model) -> None:
    answer = served.ask(asked(), "row", {"layer": 1, "head": 0, "query": 5})
    assert answer.headers["content-type"] == "application/octet-stream"
    weights = answer.value["weights"]
    expected = model.trace(SENTENCE).attention("L1.H0").weights[5]
    np.testing.assert_array_equal(weights, expected.astype(np.float32))


def test_a_checkpoint_is_another_model(served: Served, model: bg.Model) -> None:
    def weights(**more: Any) -> np.ndarray:
        found = served.ask(asked(**more), "row", {"layer": 0, "head": 0, "query": 5}).value
        return np.asarray(found["weights"])

    early = weights(checkpoint="step-00000002")
    expected = model.at_checkpoint("step-00000002").trace(SENTENCE).attention("L0.H0").weights[5]
    np.testing.assert_array_equal(early, expected.astype(np.float32))
    assert not np.array_equal(early, weights())
    assert model.checkpoints == ["step-00000000", "step-00000002", "step-00000004"]
    for name in ("step-00000003", "../../little", "", "latest"):
        assert served.ask(asked(checkpoint=name), "about").status == 422


# -- what it refuses -------------------------------------------------------------------------------


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


# -- many at once ----------------------------------------------------------------------------------


def test_eight_clients_at_once(served: Served, model: bg.Model) -> None:
    texts = [
        f"the {word} sat on the {place} ." for word in ("cat", "dog") for place in ("mat", "log")
    ]
    expected = {text: _nats(model, text) for text in texts}

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        for turn in range(6):
            text = texts[(number + turn) % len(texts)]
            question = {"model": ("little", "other")[number % 2], "text": text}
            body = json.dumps({"question": question, "name": "read", "params": {}})
            connection.request("POST", "/api/ask", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            found = Answer(answer.status, {}, answer.read()).value
            np.testing.assert_array_equal(found["surprise"]["nats"], expected[text])
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client, range(8)))
    assert not served.said


def _nats(model: bg.Model, text: str) -> np.ndarray:
    look = look_at(model, {"model": "little", "text": text})
    nats = value_of(look, "read")["surprise"]["nats"]
    return np.asarray(nats, dtype=np.float32)


def test_too_many_that_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MOST_WAITING", 0)
    refused(served, served.ask(asked(), "about"), 503, "wait for little")


# -- where it listens ------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "", "example.org", "127.0.0.2", "::", "192.168.0.1"])
def test_it_listens_to_this_machine_alone(host: str) -> None:
    with pytest.raises(UserError, match="this machine alone"):
        bind(host, 0)


def test_a_taken_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} .* cannot be used: Address already"):
            bind("127.0.0.1", port)
        monkeypatch.setattr("budgerigar.explorer.server.PORT", port)
        with bind("127.0.0.1", None) as second:
            assert second.getsockname()[1] != port
            assert second.getsockname()[0] == "127.0.0.1"
    for wrong in (-1, 65536):
        with pytest.raises(UserError, match="cannot be used"):
            bind("localhost", wrong)


def test_answers_wait_for_no_acknowledgement() -> None:
    """asyncio sets TCP_NODELAY only on sockets whose protocol is named."""
    with bind("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_the_address_is_that_of_the_socket() -> None:
    with bind("localhost", 0) as listening:
        port = listening.getsockname()[1]
        assert address("localhost", listening) == f"http://localhost:{port}/"
        assert address("::1", listening) == f"http://[::1]:{port}/"
