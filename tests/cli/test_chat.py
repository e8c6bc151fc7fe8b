"""`budgie chat`: lines of stdin, a terminal, Ctrl-C, and the refusals."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgerigar.cli import main
from budgerigar.cli.commands import chat

CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LINES = "<|user|>Who sat?\n<|assistant|>The cat sat.\n" * 60
TINY = [
    *("--n-layers", "1", "--n-heads", "2", "--d-model", "32", "--context-length", "64"),
    *("--steps", "8", "--batch-size", "4", "--no-baselines", "--threads", "1", "--quiet"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    (folder / "text.txt").write_text(LINES)
    (folder / "chat.jinja").write_text(CHATML)
    out = ["--out", str(folder / "runs" / "chat-1")]
    assert main(["train", str(folder / "text.txt"), *TINY, *out]) == 0
    return folder


@pytest.fixture(autouse=True)
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def run(monkeypatch: pytest.MonkeyPatch, text: str, *flags: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    shape = ["--template", "chat.jinja", "--max-new-tokens", "6", "--temperature", "0"]
    return main(["chat", "last", *shape, *flags])


def test_each_line_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "Who sat?\n\nWho sat?\n/quit\nnot read\n", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [m["role"] for m in told["messages"]] == ["user", "assistant"] * 2
    assert run(monkeypatch, "Who sat?\n/reset\nWho sat?\n") == 0
    first, second = capsys.readouterr().out.removesuffix("\n").split("\n")[:2]
    assert first == second == told["messages"][1]["content"].split("\n")[0]
    assert run(monkeypatch, "", "--system", "Be kind.") == 0
    assert capsys.readouterr().out == ""


def test_a_model_without_a_template_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
    assert main(["chat", "last"]) == 2
    told = capsys.readouterr().err
    assert "has no chat template" in told
    assert "budgie generate" in told
    assert "--template FILE" in told


class Talk:
    """A conversation that counts up, and gets a Ctrl-C when it is told to."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.finish: str | None = "end"
        self.resets = 0

    def say(self, text: str) -> Iterator[str]:
        self.messages.append(text)
        for number in range(5):
            if text == "stop" and number == 2:
                os.kill(os.getpid(), signal.SIGINT)
            yield f"{number} "

    def reset(self) -> None:
        self.resets += 1


def test_ctrl_c_stops_an_answer_and_not_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed: list[Any] = ["stop", KeyboardInterrupt, "go", "", "/help", "/reset", EOFError]

    def answer(prompt: str) -> str:
        given = typed.pop(0)
        if isinstance(given, str):
            return given
        raise given

    monkeypatch.setattr("builtins.input", answer)
    usual = signal.getsignal(signal.SIGINT)
    talk = Talk()
    chat._interactive(talk)
    told = capsys.readouterr()
    assert told.out.split("\n")[0] == "0 1 2 "
    assert "(stopped)" in told.err
    assert "0 1 2 3 4 " in told.out
    assert talk.messages == ["stop", "go"]
    assert talk.resets == 1
    assert signal.getsignal(signal.SIGINT) is usual
