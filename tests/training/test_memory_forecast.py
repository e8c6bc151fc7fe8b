"""What fine-tuning says that it takes, beside the most that the process had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import foreign_tokenizers as foreign
import pytest

from budgerigar.formats.hugging_face_out import save_hugging_face
from budgerigar.formats.run import Loaded, make_config
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import train_tokenizer
from budgerigar.training import adapting
from budgerigar.training.recipe import load_recipe
from budgerigar.training.timing import MeasuredStep

TEXT = "The cat sat on the mat. Then the dog sat on the log, and the cat ran off.\n" * 500
LLAMA: dict[str, Any] = {
    "norm": "rms", "norm_bias": False, "activation": "swiglu", "qkv_bias": False,
    "output_bias": False, "ff_bias": False, "norm_epsilon": 1e-6, "n_heads": 8,
    "context_length": 1024,
}  # fmt: skip


def base(folder: Path, **shape: Any) -> Path:
    tokenizer = train_tokenizer([TEXT], "byte", end=True)
    config = TransformerConfig(**LLAMA, **shape)
    loaded = Loaded(Transformer(config, seed=1), tokenizer, make_config(config, {}), None, folder)
    save_hugging_face(loaded, folder)
    for ours in folder.glob("*token*"):
        ours.unlink()
    foreign.llama_like(folder)  # another's model is fine-tuned; ours are gone on with
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux' own numbers")
@pytest.mark.parametrize("lora", [None, 8])
@pytest.mark.parametrize(
    "shape",
    [
        {"vocab_size": 512, "d_model": 512, "n_layers": 8},
        {"vocab_size": 32_000, "d_model": 256, "n_layers": 2},
    ],
)
def test_the_forecast_is_near_what_it_takes(
    lora: int | None, shape: dict[str, int], tmp_path: Path
) -> None:
    text = tmp_path / "cats.txt"
    text.write_text(TEXT, encoding="utf-8")
    command = [sys.executable, "-m", "budgerigar", "train", str(text), "--steps", "3"]
    command += ["--threads", "1", "--from", str(base(tmp_path / "base", **shape))]
    command += ["--out", str(tmp_path / "run"), *(["--lora", str(lora)] if lora else [])]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    said = re.search(r"memory: about ([\d.]+) GB", done.stderr)
    took = re.search(r"([\d.]+) GB of memory at the most", done.stderr)
    assert said is not None
    assert took is not None
    forecast, peak = float(said[1]), float(took[1])
    assert abs(forecast - peak) <= 0.2 * peak + 0.05, f"said {forecast} GB, took {peak} GB"


@pytest.mark.parametrize(
    ("lora", "recompute", "passes"), [(None, False, 3), (8, False, 2), (8, True, 3)]
)
def test_minutes_are_shared_with_measuring(
    lora: int | None, recompute: bool, passes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = load_recipe("fine-tune").replace(
        training={"minutes": 10.0, "lora": lora, "recompute": recompute}
    )
    step = MeasuredStep(seconds=2.0, tokens=500.0)
    corpus: Any = SimpleNamespace(validation=SimpleNamespace(n_tokens=5_000))
    per_token = 2.0 / 500 / passes
    measuring = per_token * (2 * 5_000 + 4 * 5_000)  # before, after and four times along the way
    found = adapting.seconds_for_steps(recipe, corpus, step)
    assert found == pytest.approx(0.95 * 600 - measuring)
    assert "5,000 validation tokens" in capsys.readouterr().err
    corpus.validation.n_tokens = 10**6  # more than there is time for: a quarter is left
    assert adapting.seconds_for_steps(recipe, corpus, step) == pytest.approx(150)
    assert "--validation-fraction" in capsys.readouterr().err
