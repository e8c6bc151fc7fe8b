"""Stop anywhere, lose nothing: real runs, real processes, real kills."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.formats.checkpoints import read_latest_checkpoint
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.tensors import read_tensors
from budgerigar.training.run import train

TEXT = "\n\n".join(f"The {n}th cat sat on mat number {n * 7 % 31}." for n in range(150)) + "\n"

# A small model with all that keeps state: dropout, momentum, averages, shuffled windows, documents.
SETTINGS: dict[str, Any] = {
    "model": {
        "d_model": 16, "n_layers": 1, "n_heads": 2, "context_length": 24, "dropout_residual": 0.1,
    },
    "text": {"tokenizer": "character", "documents": "blank-lines"},
    "training": {
        "steps": 30, "batch_size": 4, "evaluate_every": 6, "checkpoint_every": 3, "log_every": 1,
        "optimizer": "muon", "average": "ema", "threads": 1, "sample_tokens": 8, "seed": 5,
    },
}  # fmt: skip


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "cats.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def start(text: Path, out: Path, **training: Any) -> Any:
    from budgerigar.training.recipe import recipe_from_dict

    settings = {**SETTINGS, "training": {**SETTINGS["training"], **training}}
    return train(recipe_from_dict(settings), [text], out=out)


def history(folder: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in e.items() if k != "clock"} for e in read_metrics(folder / "metrics.jsonl")
    ]


def assert_same_run(one: Path, other: Path) -> None:
    assert history(one) == history(other)
    for name in ("weights.safetensors", "training.safetensors"):
        ends = [sorted((f / "checkpoints").glob("step-*"))[-1] for f in (one, other)]
        tensors = [read_tensors(end / name) for end in ends]
        assert tensors[0].keys() == tensors[1].keys()
        assert not [k for k in tensors[0] if not torch.equal(tensors[0][k], tensors[1][k])]
    best = [read_tensors(f / "model.safetensors") for f in (one, other)]
    assert all(torch.equal(best[0][k], best[1][k]) for k in best[0])


class StopAt:
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, event: Any) -> bool:
        return bool(event.step == self.step)


def test_resuming_twice_equals_never_stopping(tmp_path: Path, text: Path) -> None:
    from budgerigar.training.recipe import recipe_from_dict

    start(text, tmp_path / "whole")
    recipe = recipe_from_dict(SETTINGS)
    stopped = train(recipe, [text], out=tmp_path / "parts", callbacks=[StopAt(8)])
    assert not stopped.report["finished"]
    train(resume=tmp_path / "parts", callbacks=[StopAt(19)])
    ended = train(resume=tmp_path / "parts")
    assert ended.report["finished"]
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_changed_text_is_refused(tmp_path: Path, text: Path) -> None:
    start(text, tmp_path / "run", steps=3)
    text.write_text(TEXT.replace("cat", "dog"), encoding="utf-8")
    with pytest.raises(UserError, match=r"cats\.txt has changed"):
        train(resume=tmp_path / "run", settings={"steps": 6})
    text.unlink()
    with pytest.raises(UserError, match=r"cats\.txt"):
        train(resume=tmp_path / "run", settings={"steps": 6})


def test_what_would_make_it_another_run_is_refused(tmp_path: Path, text: Path) -> None:
    start(text, tmp_path / "run", steps=3)
    with pytest.raises(UserError, match="batch_size cannot change"):
        train(resume=tmp_path / "run", settings={"batch_size": 9})
    with pytest.raises(UserError, match="never overwrites"):
        start(text, tmp_path / "run")
    more = train(resume=tmp_path / "run", settings={"steps": 5})
    assert more.report["step"] == 5


@pytest.mark.parametrize(
    "rate",
    ["learning_rate", "muon_learning_rate", "embedding_learning_rate", "head_learning_rate"],
)
def test_every_rate_can_be_lowered(tmp_path: Path, text: Path, rate: str) -> None:
    """As the message about a failed run advises."""
    start(text, tmp_path / "run", steps=3)
    more = train(resume=tmp_path / "run", settings={"steps": 4, rate: 1e-6})
    assert more.report["step"] == 4
    stored = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text("utf-8"))
    assert stored["training"][rate] == 1e-6


def test_a_run_without_a_checkpoint_starts_from_its_beginning(tmp_path: Path, text: Path) -> None:
    start(text, tmp_path / "whole", steps=6)
    start(text, tmp_path / "run", steps=6)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    train(resume=tmp_path / "run")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def forked(text: Path, out: Path, resume: bool) -> int:
    """Train in a process of its own that has torch loaded already; returns its number.

    What it says on stderr goes to the file `said` beside the run.
    """
    number = os.fork()
    if number:
        return number
    try:
        sys.stderr = open(out.parent / "said", "a", buffering=1)  # noqa: SIM115
        if resume:
            train(resume=out)
        else:
            start(text, out)
        os._exit(0)
    finally:
        os._exit(1)


def half_written(out: Path, number: int) -> bool:
    """Whether process `number` is writing, or left something, under a temporary name."""
    places = (out / "checkpoints", out, out.parent)
    return any(f".{number}." in name for p in places if p.is_dir() for name in os.listdir(p))


def kill_at_random(number: int, out: Path, rng: random.Random) -> tuple[bool, bool]:
    """SIGKILL after a few more lines of metrics, or sooner; every other time amid a write.

    Returns (it was killed before its end, something was half-written when it died).
    """
    metrics = out / "metrics.jsonl"
    lines = rng.randint(0, 7)
    begun = time.monotonic()
    before = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
    wait_for_write = rng.random() < 0.5
    deadline = begun + (rng.uniform(0, 0.5) if rng.random() < 0.2 else 30)
    while time.monotonic() < deadline:
        ended, status = os.waitpid(number, os.WNOHANG)
        if ended:
            assert status == 0
            return False, False
        seen = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        if seen >= before + lines:
            break
    late = time.monotonic() + (1.0 if wait_for_write else rng.uniform(0, 0.02))
    while time.monotonic() < late and not (wait_for_write and half_written(out, number)):
        pass
    os.kill(number, signal.SIGKILL)
    _, status = os.waitpid(number, 0)
    return os.WIFSIGNALED(status), half_written(out, number)


def kill_until(text: Path, tmp_path: Path, least: int, seed: int) -> tuple[int, int]:
    """Runs of kills and resumptions, each compared with the one that was never killed."""
    start(text, tmp_path / "whole")
    rng, kills, in_write = random.Random(seed), 0, 0
    for attempt in range(20):
        out = tmp_path / f"attempt-{attempt}" / "run"
        out.parent.mkdir()
        number = forked(text, out, False)
        for _ in range(200):
            killed, written = kill_at_random(number, out, rng)
            if not killed:
                break
            kills, in_write = kills + 1, in_write + written
            number = forked(text, out, (out / "config.json").is_file())
        assert_same_run(tmp_path / "whole", out)
        if kills >= least and in_write:
            break
    print(f"{kills} kills, {in_write} of them while something was being written")
    return kills, in_write


@needs_fork
def test_sigterm_saves_and_says_how_to_go_on(tmp_path: Path, text: Path) -> None:
    start(text, tmp_path / "whole")
    out = tmp_path / "run"
    number = forked(text, out, resume=False)
    while not read_metrics(out / "metrics.jsonl", "evaluation"):
        time.sleep(0.005)
    os.kill(number, signal.SIGTERM)
    _, status = os.waitpid(number, 0)
    assert status == 0
    found = read_latest_checkpoint(out)
    assert found is not None
    if found.step < 30:  # else it was quicker than the signal
        assert f"--resume {out}" in (tmp_path / "said").read_text()
        train(resume=out)
    assert_same_run(tmp_path / "whole", out)


@needs_fork
def test_killed_a_few_times_equals_never_killed(tmp_path: Path, text: Path) -> None:
    kills, _ = kill_until(text, tmp_path, least=3, seed=2)
    assert kills >= 3


@needs_fork
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_random_moments_equals_never_killed(tmp_path: Path, text: Path) -> None:
    """At least 30 SIGKILLs at random moments of the run, also inside checkpoint writes."""
    kills, in_write = kill_until(text, tmp_path, least=30, seed=1)
    assert kills >= 30
    assert in_write >= 3
