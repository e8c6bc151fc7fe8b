"""Of the tests of commands that look inside: a folder with runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import budgerigar as bg

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 40


@pytest.fixture(scope="session")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """runs/gpt, with its checkpoints, and runs/ngram of the same text."""
    folder = tmp_path_factory.mktemp("looked_at")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    common = {"batch_size": 2, "baselines": False, "threads": 1, "sample_every": 0}
    sizes = {"context_length": 32, "d_model": 16, "n_layers": 2, "n_heads": 2, "tokenizer": "word"}
    bg.train(
        folder / "text.txt",
        recipe="nanogpt-char-cpu",
        out=folder / "runs" / "gpt",
        steps=4,
        checkpoint_every=1,
        keep_checkpoints=3,
        **common,
        **sizes,
    )  # type: ignore[arg-type]
    bg.train(folder / "text.txt", recipe="ngram", out=folder / "runs" / "ngram", order=3)
    return folder
