"""Of the tests in this folder: a little GPT as a run on the disk; three models, a server, a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import KeptVisit, Visit, opened_browser, visit
from served import Served, serving
from toy import network, one_text

import budgerigar as bg
from budgerigar.api.model import Model
from budgerigar.explorer.sessions import Sessions


@pytest.fixture(scope="session")
def little_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of two heads after four steps, with the checkpoints of steps 0, 2 and 4."""
    folder = tmp_path_factory.mktemp("explorer")
    file = folder / "text.txt"
    file.write_text("the cat sat on the mat . the dog sat on the log . " * 40, encoding="utf-8")
    small = {"n_layers": 2, "n_heads": 2, "d_model": 16, "context_length": 64, "steps": 4}
    quick = {"batch_size": 2, "baselines": False, "threads": 1, "sample_every": 0}
    kept = {"checkpoint_every": 2, "evaluate_every": 2, "keep_checkpoints": 9}
    out = folder / "runs" / "little"
    return bg.train(file, recipe=bg.Recipe(), out=out, **small, **quick, **kept).folder


@pytest.fixture(scope="session")
def models(little_run: Path, translator_folder: Path) -> dict[str, Model]:
    """A little GPT and LSTM whose heads and places differ, and a translator after its training."""
    tokenizer = bg.load(little_run, device="cpu").tokenizer
    return {
        "gpt": Model(network(tokenizer.vocab_size), tokenizer),
        "translator": bg.load(translator_folder, device="cpu"),
        "lstm": Model(one_text("lstm", tokenizer.vocab_size), tokenizer),
    }


@pytest.fixture(scope="module")
def page_server(models: dict[str, Model]) -> Iterator[Served]:
    """The real server of those models."""
    with serving(Sessions(models)) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium. Of one module: while it runs, its thread can run no other event loop."""
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def tab(browser: Any, page_server: Served) -> Iterator[Visit]:
    """A tab; afterwards nothing went wrong in it and no other host was asked."""
    with visit(browser, page_server.host) as shown:
        yield shown
        assert not shown.wrong
        assert shown.asked
        assert all(each.startswith(f"http://{page_server.host}/") for each in shown.asked)


@pytest.fixture(scope="module")
def kept_tab(browser: Any, page_server: Served) -> Iterator[Visit]:
    """The one tab of a module's `kept`."""
    with visit(browser, page_server.host, KeptVisit) as shown:
        yield shown


@pytest.fixture
def kept(kept_tab: Visit) -> Iterator[Visit]:
    """The same tab for all tests of a module; of each the same holds as of `tab`."""
    kept_tab.wrong.clear()
    kept_tab.asked.clear()
    yield kept_tab
    assert not kept_tab.wrong
    assert all(each.startswith(f"http://{kept_tab.host}/") for each in kept_tab.asked)


@pytest.fixture(scope="module")
def little(little_run: Path) -> bg.Model:
    """That run, loaded."""
    return bg.load(little_run, device="cpu")


@pytest.fixture(scope="module")
def little_server(little: bg.Model) -> Iterator[Served]:
    """The real server of that model under two names."""
    with serving(Sessions({"little": little, "other": little})) as served:
        yield served


@pytest.fixture
def served(little_server: Served) -> Iterator[Served]:
    """The same with an empty log; afterwards it must still answer."""
    little_server.said.clear()
    yield little_server
    assert little_server.request("GET", "/api/models").status == 200
