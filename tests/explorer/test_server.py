"""The page's server on real sockets: what it answers, to many at once, and where it listens."""

from __future__ import annotations

import copy
import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from served import SENTENCE, Answer, Served, asked, serving

import budgerigar as bg
from budgerigar.errors import UserError
from budgerigar.explorer.server import address, bind
from budgerigar.explorer.sessions import Sessions
from budgerigar.inspection.views import look_at, value_of


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


def test_the_models_and_what_they_can(served: Served, little: bg.Model) -> None:
    models = served.request("GET", "/api/models").value["models"]
    assert [one["id"] for one in models] == ["little", "other"]
    assert models[0]["kind"] == "decoder"
    assert models[0]["checkpoints"] == ["step-00000000", "step-00000002", "step-00000004"]
    assert {"about", "read", "head"} <= set(models[0]["views"])
    assert (models[0]["context_length"], models[0]["most_tokens"]) == (64, 64)
    assert "alignment" not in models[0]["views"]


def test_a_view_is_that_of_the_library(served: Served, little: bg.Model) -> None:
    answer = served.ask(asked(), "row", {"layer": 1, "head": 0, "query": 5})
    assert answer.headers["content-type"] == "application/octet-stream"
    weights = answer.value["weights"]
    expected = little.trace(SENTENCE).attention("L1.H0").weights[5]
    np.testing.assert_array_equal(weights, expected.astype(np.float32))


def test_a_checkpoint_is_another_model(served: Served, little: bg.Model) -> None:
    def weights(**more: Any) -> np.ndarray:
        found = served.ask(asked(**more), "row", {"layer": 0, "head": 0, "query": 5}).value
        return np.asarray(found["weights"])

    early = weights(checkpoint="step-00000002")
    expected = little.at_checkpoint("step-00000002").trace(SENTENCE).attention("L0.H0").weights[5]
    np.testing.assert_array_equal(early, expected.astype(np.float32))
    assert not np.array_equal(early, weights())
    assert little.checkpoints == ["step-00000000", "step-00000002", "step-00000004"]
    for name in ("step-00000003", "../../little", "", "latest"):
        assert served.ask(asked(checkpoint=name), "about").status == 422


# -- many at once ----------------------------------------------------------------------------------


def test_eight_clients_at_once(served: Served, little: bg.Model) -> None:
    texts = [
        f"the {word} sat on the {place} ." for word in ("cat", "dog") for place in ("mat", "log")
    ]
    expected = {text: _nats(little, text) for text in texts}

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


def test_a_model_gone_astray_is_told(little: bg.Model) -> None:
    """Of weights that are no numbers, nothing is shown, and it is no fault of the program."""
    for value, where in ((float("nan"), -1), (float("inf"), 0)):
        network = copy.deepcopy(little.network)
        with torch.no_grad():
            list(network.parameters())[where].fill_(value)
        with serving(Sessions({"little": bg.Model(network, little.tokenizer)})) as served:
            for name, params in (("read", {}), ("head", {"layer": 0, "head": 0}), ("lens", {})):
                answer = served.ask(asked(), name, params)
                assert answer.status == 422, (name, value)
                assert "is no number (NaN)" in answer.words
            assert served.ask({"model": "little"}, "about").status == 200


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
        with pytest.raises(UserError, match=f"from 0 to 65535, not {wrong};"):
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
