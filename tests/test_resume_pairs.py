"""Stop anywhere, lose nothing, with sentence pairs; and runs of two lengths that share a start."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from budgerigar.errors import UserError
from budgerigar.training.recipe import recipe_from_dict
from budgerigar.training.run import train


def _helpers() -> ModuleType:
    """The kills and comparisons of test_resume.py."""
    spec = importlib.util.spec_from_file_location(
        "resume_helpers", Path(__file__).with_name("test_resume.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


resume = _helpers()

SETTINGS: dict[str, Any] = {
    "text": {"tokenizer": "word"},
    "model": {
        "assembly": "encoder-decoder", "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 32,
        "context_length": 16, "positions": "sinusoidal", "dropout_residual": 0.1,
    },
    "training": {
        "steps": 18, "batch_tokens": 48, "accumulate": 2, "evaluate_every": 5, "log_every": 1,
        "checkpoint_every": 4, "sample_every": 9, "optimizer": "muon", "average": "ema",
        "label_smoothing": 0.1,
        "schedule": "warmup-stable-decay", "decay_fraction": 0.25, "warmup_steps": 3, "seed": 5,
        "best_by": "bleu", "bleu_sentences": 3, "threads": 1, "precision": "float32",
    },
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    lines = [f"cat {n % 7} sat on {n}" for n in range(60)]
    (tmp_path / "a.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    turned = [" ".join(reversed(line.split())) for line in lines]
    (tmp_path / "a.xx").write_text("\n".join(turned) + "\n", encoding="utf-8")
    return {"source": tmp_path / "a.en", "target": tmp_path / "a.xx"}


def start(files: dict[str, Path], out: Path, model: dict[str, Any], **training: Any) -> Any:
    settings = {**SETTINGS, "training": {**SETTINGS["training"], **training}}
    if model:
        settings["model"] = model
    callbacks = [resume.StopAt(training.pop("stop"))] if "stop" in training else []
    settings["training"].pop("stop", None)
    return train(recipe_from_dict(settings), **files, out=out, callbacks=callbacks)


RNN = {"kind": "rnn-encoder-decoder", "d_embedding": 12, "d_hidden": 12, "dropout": 0.1}


@pytest.mark.parametrize("model", [{}, RNN], ids=["transformer", "rnn"])
def test_resuming_twice_equals_never_stopping(
    tmp_path: Path, files: dict[str, Path], model: dict[str, Any]
) -> None:
    """Two stops; the first in the middle of an epoch, the second after the rate began to fall."""
    start(files, tmp_path / "whole", model)
    stopped = start(files, tmp_path / "parts", model, stop=7)
    assert not stopped.report["finished"]
    train(resume=tmp_path / "parts", callbacks=[resume.StopAt(16)])
    assert train(resume=tmp_path / "parts").report["finished"]
    resume.assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_files_that_a_recipe_names_are_found_from_another_directory(
    tmp_path: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"dog {n} ran\tran {n} dog\n" for n in range(9))
    (tmp_path / "held.tsv").write_text(rows, "utf-8")
    monkeypatch.chdir(tmp_path)
    settings = {**SETTINGS, "text": {"tokenizer": "word", "validation": "held.tsv"}}
    stop = resume.StopAt(7)
    train(recipe_from_dict(settings), **files, out=tmp_path / "run", callbacks=[stop])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert train(resume=tmp_path / "run").report["finished"]


def test_a_branch_is_the_run_that_was_asked_for_its_length(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    start(files, tmp_path / "short", {}, steps=12)
    before = sorted(p.name for p in (tmp_path / "short" / "checkpoints").iterdir())
    assert "trunk-00000009" in before
    start(files, tmp_path / "long", {}, steps=18)
    branch = train(resume=tmp_path / "short", out=tmp_path / "branch", settings={"steps": 18})
    assert branch.report["step"] == 18
    resume.assert_same_run(tmp_path / "long", tmp_path / "branch")
    assert before == sorted(p.name for p in (tmp_path / "short" / "checkpoints").iterdir())
    assert "trunk-00000014" in {p.name for p in (tmp_path / "branch" / "checkpoints").iterdir()}


def test_a_trunk_is_kept_after_a_kill_right_before_it(
    tmp_path: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("budgerigar.training.loop.keep_trunk", killed)
    with pytest.raises(KeyboardInterrupt):
        start(files, tmp_path / "run", {}, steps=4, bleu_sentences=0, best_by="loss")
    monkeypatch.undo()
    train(resume=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints" / "trunk-00000003" / "state.json").is_file()


def test_what_cannot_branch_is_said(tmp_path: Path, files: dict[str, Path]) -> None:
    start(files, tmp_path / "run", {}, steps=12)
    with pytest.raises(UserError, match="at least 12 steps"):
        train(resume=tmp_path / "run", out=tmp_path / "less", settings={"steps": 9})
    with pytest.raises(UserError, match="--steps or --minutes"):
        train(resume=tmp_path / "run", out=tmp_path / "none")
    start(files, tmp_path / "flat", {}, steps=3, schedule="constant")
    with pytest.raises(UserError, match="no checkpoint to branch from"):
        train(resume=tmp_path / "flat", out=tmp_path / "other", settings={"steps": 20})
    assert not [n for n in ("less", "none", "other") if (tmp_path / n).exists()]


def test_changed_pairs_are_refused(tmp_path: Path, files: dict[str, Path]) -> None:
    start(files, tmp_path / "run", {}, steps=3)
    target = files["target"].read_text("utf-8")
    files["target"].write_text(target.replace("cat", "dog"), encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.xx has changed"):
        train(resume=tmp_path / "run", settings={"steps": 6})
    files["target"].unlink()
    with pytest.raises(UserError, match=r"there is no .*a\.xx"):
        train(resume=tmp_path / "run", settings={"steps": 6})


def killed_pairs(files: dict[str, Path], tmp_path: Path, seed: int, least: int) -> int:
    """Runs that are killed at random moments and go on, compared with one that never was."""
    start(files, tmp_path / "whole", {})
    rng, kills = random.Random(seed), 0
    for attempt in range(10):
        out = tmp_path / f"attempt-{attempt}" / "run"
        out.parent.mkdir()
        for _ in range(100):
            number = os.fork()
            if not number:
                try:
                    resuming = (out / "config.json").is_file()
                    train(resume=out) if resuming else start(files, out, {})
                    os._exit(0)
                finally:
                    os._exit(1)
            killed, _ = resume.kill_at_random(number, out, rng)
            if not killed:
                break
            kills += 1
        resume.assert_same_run(tmp_path / "whole", out)
        if kills >= least:
            break
    return kills


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_killed_a_few_times_equals_never_killed(tmp_path: Path, files: dict[str, Path]) -> None:
    assert killed_pairs(files, tmp_path, seed=3, least=2) >= 2
