"""A little GPT of the tests in this folder, as a run on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

import budgerigar as bg


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
