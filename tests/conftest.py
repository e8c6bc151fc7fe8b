"""What all tests share: one thread, and the folder of real text where it lies beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Two OpenMP threads beside a second test process measured three times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("MPLBACKEND", "Agg")

DATA = Path(
    os.environ.get("BUDGIE_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need real text where there is none; they run where it is there."""
    if DATA.is_dir():
        return
    skip = pytest.mark.skip(reason=f"no folder of real text at {DATA}")
    for item in items:
        if item.get_closest_marker("needs_data"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real text (see the marker `needs_data`)."""
    return DATA


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Each test process computes with one thread."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def private_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep token stores and downloads of tests out of the user's cache."""
    monkeypatch.setenv("BUDGIE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def translator_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a tiny encoder-decoder, Chinese to English, after a few steps on generated pairs.

    It lies at runs/zh-en of the folder `translator_folder.parents[1]`.
    """
    import budgerigar as bg

    folder = tmp_path_factory.mktemp("translator") / "runs" / "zh-en"
    tiny = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 64, "n_heads": 2, "d_ff": 96}
    quick = {"steps": 100, "batch_tokens": 512, "n_pairs": 1000, "evaluate_every": 100}
    silent = {"bleu_sentences": 0, "sample_every": 0, "baselines": False, "threads": 1}
    bg.train(recipe="stories-zh-en", out=folder, **tiny, **quick, **silent)
    return folder
