"""What is kept of what was asked: within its bytes, in order, one question of a model at a time."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from budgerigar.api import Model, load
from budgerigar.errors import UserError
from budgerigar.explorer import sessions as module
from budgerigar.explorer.jobs import BusyError
from budgerigar.explorer.memory import held_bytes
from budgerigar.explorer.sessions import Kept, Sessions, canonical
from budgerigar.inspection.views import VIEWS, View


@pytest.fixture
def model(little_run: Path) -> Model:
    return load(little_run, device="cpu")


def test_the_longest_unused_goes_first() -> None:
    kept: Kept[str] = Kept(100)
    for key in "abc":
        kept.put(key, key.upper(), 30)
    assert kept.get("a") == "A"  # used now, so b is the oldest
    kept.put("d", "D", 30)
    assert kept.get("b") is None
    assert [kept.get(key) for key in "acd"] == ["A", "C", "D"]
    kept.put("a", "A", 60)  # grown
    assert kept.nbytes <= 100
    assert kept.get("a") == "A"
    kept.put("large", "L", 1000)
    assert len(kept) == 1
    assert kept.get("large") == "L"


def test_bytes_are_counted_once_each_and_not_those_of_others() -> None:
    shared = torch.zeros(1000)
    layer = torch.nn.Linear(10, 10)
    array = np.zeros(500, dtype=np.float64)
    thing = SimpleNamespace(
        a=shared[:10], b={"c": [shared, (shared[5:],)]}, d=array[1:], e=array, f=layer, text="text"
    )
    thing.itself = thing
    assert held_bytes(thing) == 4000 + 4000 + 440
    assert held_bytes(thing, but=[layer]) == 8000
    assert held_bytes(None) == 0


def test_a_look_holds_its_trace_and_not_the_model(model: Model) -> None:
    sessions = Sessions({"m": model})
    text = "the dog sat on the mat ."
    question = {"model": "m", "text": text}
    row = {"layer": 0, "head": 0, "query": 1}
    sessions.job(question, "row", row).answer.result(20)
    trace = model.trace(text)
    least = sum(value.nbytes for value in trace.values().values())
    most = least + 20 * len(trace) ** 2 * 4 * 8 + trace.logits.nbytes * 2
    assert least <= sessions.looks.nbytes <= most
    before = sessions.looks.nbytes
    sessions.job({**question, "target": None}, "row", {**row, "layer": 1}).answer.result(20)
    assert len(sessions.looks) == 1  # the same question
    assert sessions.looks.nbytes > before  # and another layer's steps
    sessions.job({**question, "off": ["L0.H0"]}, "row", row).answer.result(20)
    assert len(sessions.looks) == 2
    sessions.close()


def test_looks_stay_within_their_bytes(model: Model) -> None:
    def asked(sessions: Sessions, length: int) -> int:
        question = {"model": "m", "text": "t" * length}
        sessions.job(question, "row", {"layer": 0, "head": 0, "query": 0}).answer.result(20)
        return sessions.looks.nbytes

    largest = asked(Sessions({"m": model}), 60)
    sessions = Sessions({"m": model}, kept_bytes=3 * largest)
    seen = [asked(sessions, length) for length in range(1, 61)]
    assert 2 * largest < max(seen) <= 3 * largest
    assert 3 <= len(sessions.looks) < 60
    sessions.close()


def test_texts_that_were_never_read_count_too(model: Model) -> None:
    """`about` makes no pass over the text, but the question is kept."""
    sessions = Sessions({"m": model}, kept_bytes=2**20)
    for n in range(40):
        sessions.job({"model": "m", "text": str(n) + "文" * 60_000}, "about", {}).answer.result(20)
    assert 1 <= len(sessions.looks) <= 6
    for n in range(100):
        sessions.job({"model": "m", "text": str(n)}, "about", {}).answer.result(20)
    assert 10 <= len(sessions.looks) <= 64
    sessions.close()


def test_questions_have_one_text_however_they_are_written() -> None:
    assert canonical({"b": "ü", "a": 1, "c": None}) == '{"a":1,"b":"ü"}'
    assert canonical({"a": 1, "b": "ü"}) == canonical({"b": "ü", "a": 1, "target": None})


def test_one_at_a_time_and_in_order(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[int] = []
    running: list[int] = []
    gate = threading.Event()

    def slow(look: Any) -> int:
        running.append(1)
        gate.wait(10)
        time.sleep(0.001)
        assert len(running) == 1
        order.append(int(look.question["reference"]))
        running.pop()
        return 0

    monkeypatch.setitem(VIEWS, "slow", View(slow))
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    sessions = Sessions({"m": model, "free": model})
    answers = [
        sessions.job({"model": "m", "text": "the cat", "reference": str(n)}, "slow", {}).answer
        for n in range(10)
    ]
    with pytest.raises(BusyError, match="10 questions wait for m already"):
        sessions.job({"model": "m", "text": "the cat"}, "slow", {})
    row = {"layer": 0, "head": 0, "query": 0}
    sessions.job({"model": "free", "text": "the cat"}, "row", row).answer.result(10)  # others go on
    gate.set()
    for answer in answers:
        answer.result(10)
    assert order == list(range(10))
    sessions.job({"model": "m", "text": "the cat"}, "row", row).answer.result(10)
    sessions.close()


def test_who_cannot_be_asked(model: Model) -> None:
    sessions = Sessions({"m": model})
    for wrong in ({}, {"model": "n"}, {"model": 5}, {"model": ["m"]}):
        with pytest.raises(UserError, match=r"there is no model .* here; there are m"):
            sessions.job(wrong, "about", {})
    sessions.close()
