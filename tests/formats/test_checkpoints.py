"""Checkpoints and metrics: whatever dies, and wherever, the newest whole one is found."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.formats import atomic
from budgerigar.formats.checkpoints import read_latest_checkpoint, write_checkpoint
from budgerigar.formats.metrics import MetricsFile, append_metrics, cut_metrics, read_metrics


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def write(folder: Path, step: int, keep: int = 2) -> None:
    tensors = {"a": torch.full((3,), float(step))}
    write_checkpoint(
        folder, step, {"cursor": {"big": 2**100}}, tensors, {"b": tensors["a"] * 2}, keep
    )


def test_round_trip_and_pruning(tmp_path: Path) -> None:
    assert read_latest_checkpoint(tmp_path) is None
    for step in (5, 10, 100, 1000):
        write(tmp_path, step)
    found = read_latest_checkpoint(tmp_path)
    assert found is not None
    assert (found.step, found.state["cursor"]["big"]) == (1000, 2**100)
    assert torch.equal(found.training["b"], torch.full((3,), 2000.0))
    kept = sorted(p.name for p in (tmp_path / "checkpoints").glob("step-*"))
    assert kept == ["step-00000100", "step-00001000"]


def test_a_kill_at_any_system_call_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count the calls that reach the disk while writing step 2; then die at each in turn."""
    calls = {"n": 0, "die_at": -1}

    def counted(name: str) -> None:
        real = getattr(os, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls["n"] += 1
            if calls["n"] == calls["die_at"]:
                raise Killed(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, wrapper)

    for name in ("fsync", "replace", "rename"):
        counted(name)
    write(tmp_path / "count", 1)
    total = calls["n"]
    assert total >= 6
    for moment in range(1, total + 1):
        folder = tmp_path / str(moment)
        write(folder, 1)
        calls.update(n=0, die_at=moment)
        with monkeypatch.context() as dead:  # a killed process cleans nothing up
            dead.setattr(atomic.shutil, "rmtree", lambda *a, **k: None)
            dead.setattr(atomic.Path, "unlink", lambda *a, **k: None)
            with pytest.raises(Killed):
                write(folder, 2)
        calls["die_at"] = -1
        found = read_latest_checkpoint(folder)
        assert found is not None
        assert found.step in (1, 2)
        assert torch.equal(found.weights["a"], torch.full((3,), float(found.step)))
        write(folder, 2)  # and the next attempt succeeds over the remains
        again = read_latest_checkpoint(folder)
        assert again is not None
        assert again.step == 2


def test_remains_of_a_kill_are_swept(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / "checkpoints" / ".step-00000002.77.partial").mkdir()
    read_latest_checkpoint(tmp_path)
    assert not list((tmp_path / "checkpoints").glob(".*partial"))


@pytest.mark.parametrize(
    ("number", "words"), [(28, "disk is full"), (30, "read-only"), (13, "may not write")]
)
def test_a_refusing_disk_is_explained_and_the_state_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    write(tmp_path, 1)

    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic, "fsync_file", refuse)
    with pytest.raises(UserError, match=words):
        write(tmp_path, 2)
    monkeypatch.undo()
    found = read_latest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 1
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [
        "latest",
        "step-00000001",
    ]


def test_a_pointer_to_nothing_is_explained(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 9)
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000009")
    assert read_latest_checkpoint(tmp_path).step == 1  # type: ignore[union-attr]
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000001")
    with pytest.raises(UserError, match="step-00000009"):
        read_latest_checkpoint(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", "nonsense", '{"step": "x"}'])
def test_a_damaged_state_is_named(tmp_path: Path, content: str) -> None:
    write(tmp_path, 1)
    (tmp_path / "checkpoints" / "step-00000001" / "state.json").write_text(content)
    with pytest.raises(UserError, match=r"state\.json"):
        read_latest_checkpoint(tmp_path)


def test_metrics_are_cut_back_and_half_lines_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, {"kind": "step", "step": 1, "loss": float("nan")})
    file = MetricsFile(path)
    file.append({"kind": "step", "step": 2, "text": "诗"})
    length = file.flush(sync=True)
    file.append({"kind": "step", "step": 3})
    file.close()
    with open(path, "ab") as end:
        end.write(b'{"kind": "st')
    assert [e["step"] for e in read_metrics(path)] == [1, 2, 3]
    assert read_metrics(path)[0]["loss"] == "nan"
    cut_metrics(path, length)
    assert [e["step"] for e in read_metrics(path, "step")] == [1, 2]
