"""Models that carry a state: trained on streams, stopped, gone on with, and never the wiser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from budgerigar.errors import UserError
from budgerigar.formats.checkpoints import read_latest_checkpoint
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.run import load_model
from budgerigar.layers.taps import Taps
from budgerigar.training.recipe import load_recipe, recipe_from_dict
from budgerigar.training.run import train

TEXT = "\n\n".join(f"The {n}th cat sat on mat number {n * 7 % 31}." for n in range(40)) + "\n"
MODELS: dict[str, dict[str, Any]] = {
    "lstm": {"kind": "recurrent", "n_layers": 2, "d_embedding": 6, "d_hidden": 8, "dropout": 0.2},
    "wide": {"kind": "recurrent", "d_embedding": 8, "d_hidden": 32},
    "elman": {"kind": "recurrent", "cell": "elman", "d_embedding": 6, "d_hidden": 8},
    "feed-forward": {"kind": "feed-forward", "order": 4, "d_embedding": 6, "d_hidden": 8},
}
TRAINING: dict[str, Any] = {
    "steps": 12, "batch_size": 4, "window_length": 16, "window_order": "streams",
    "reset_share": 0.2, "evaluate_every": 6, "checkpoint_every": 3, "log_every": 1, "threads": 1,
    "sample_every": 0, "seed": 5, "precision": "float32", "baselines": False,
}  # fmt: skip


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "cats.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def start(
    text: Path, out: Path, model: str, callbacks: Any = (), documents: str = "none", **more: Any
) -> Any:
    settings = {
        "model": MODELS[model],
        "text": {"tokenizer": "symbols" if documents == "none" else "character",
                 "documents": documents},
        "training": {**TRAINING, **more},
    }  # fmt: skip
    return train(recipe_from_dict(settings), [text], out=out, callbacks=callbacks)


class StopAt:
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, event: Any) -> bool:
        return bool(event.step == self.step)


def history(folder: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in e.items() if k != "clock"} for e in read_metrics(folder / "metrics.jsonl")
    ]


@pytest.mark.parametrize(
    ("model", "more"),
    [("lstm", {"accumulate": 2, "documents": "blank-lines"}), ("elman", {}), ("feed-forward", {})],
)
def test_stopped_and_resumed_equals_never_stopped(
    tmp_path: Path, text: Path, model: str, more: dict[str, Any]
) -> None:
    start(text, tmp_path / "whole", model, **more)
    stopped = start(text, tmp_path / "parts", model, [StopAt(7)], **more)
    assert not stopped.report["finished"]
    carried = read_latest_checkpoint(tmp_path / "parts").training
    assert any(name.startswith("carried/") for name in carried)
    assert int(carried["carried/lengths"].max()) > 0
    train(resume=tmp_path / "parts")
    assert history(tmp_path / "whole") == history(tmp_path / "parts")
    ends = [read_latest_checkpoint(tmp_path / name) for name in ("whole", "parts")]
    for tensors in ("weights", "training"):
        one, other = (getattr(end, tensors) for end in ends)
        assert one.keys() == other.keys()
        assert not [k for k in one if not torch.equal(one[k], other[k])]


def test_killed_before_its_first_checkpoint_begins_as_it_began(tmp_path: Path, text: Path) -> None:
    """What the text set in the new network (the output's bias) is set again."""
    start(text, tmp_path / "whole", "lstm")
    start(text, tmp_path / "killed", "lstm", [StopAt(2)])
    shutil.rmtree(tmp_path / "killed" / "checkpoints")
    train(resume=tmp_path / "killed")
    assert history(tmp_path / "whole") == history(tmp_path / "killed")


def test_a_new_network_knows_how_often_each_token_occurs(tmp_path: Path, text: Path) -> None:
    """At a rate of nearly 0 the guess at the very start is the counts' own."""
    start(text, tmp_path / "run", "lstm", steps=1, learning_rate=1e-12)
    model = load_model(tmp_path / "run")
    train_text = TEXT[: round(0.9 * len(TEXT))]
    counts = np.bincount(
        model.tokenizer.encode_array(train_text), minlength=len(model.network.head.bias)
    )
    expected = np.maximum(counts, 0.5) / np.maximum(counts, 0.5).sum()
    found = model.network.head.bias.detach().double().softmax(0).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_state_is_carried_and_matters(tmp_path: Path, text: Path) -> None:
    """Two runs that differ in one thing: whether each window begins with an empty state."""
    start(text, tmp_path / "carried", "lstm", reset_share=0.0, steps=4)
    start(text, tmp_path / "emptied", "lstm", reset_share=0.999999, steps=4)
    one, other = (
        [e["loss"] for e in history(tmp_path / name) if e["kind"] == "step"]
        for name in ("carried", "emptied")
    )
    assert one[0] == other[0]
    assert one[1:] != other[1:]


def test_evaluating_in_between_leaves_the_carried_state_alone(tmp_path: Path, text: Path) -> None:
    start(text, tmp_path / "seldom", "lstm", steps=6, evaluate_every=6)
    start(text, tmp_path / "often", "lstm", steps=6, evaluate_every=2, sample_every=2)
    ends = [read_latest_checkpoint(tmp_path / name).weights for name in ("seldom", "often")]
    assert all(torch.equal(ends[0][k], ends[1][k]) for k in ends[0])


def test_learns_its_text_and_runs_from_its_folder(tmp_path: Path, text: Path) -> None:
    more = {"learning_rate": 0.03, "warmup_steps": 5, "evaluate_every": 60}
    start(text, tmp_path / "run", "wide", steps=60, **more)
    losses = [e["loss"] for e in history(tmp_path / "run") if e["kind"] == "step"]
    assert losses[-1] < 0.55 * losses[0]
    loaded = load_model(tmp_path / "run")
    taps = Taps(record=["decoder.0.forget_gate"])
    loaded.network(torch.tensor([loaded.tokenizer.encode("The cat")]), taps=taps)
    assert taps.values["decoder.0.forget_gate"].shape == (1, 7, 32)


def test_windows_shrink_with_a_short_text_and_no_more_than_fits_is_asked(
    tmp_path: Path, text: Path
) -> None:
    text.write_text("ab ab ab ab ab ab", encoding="utf-8")
    done = start(text, tmp_path / "run", "lstm", window_length=200, steps=2, batch_size=2)
    assert done.report["finished"]
    assert "window_length = 200" not in (tmp_path / "run" / "recipe.toml").read_text("utf-8")


def test_streams_are_refused_to_models_that_carry_nothing() -> None:
    with pytest.raises(UserError, match=r"streams.*recurrent"):
        recipe_from_dict({"training": {"window_order": "streams"}})
    with pytest.raises(UserError, match="window_length = 90 is more"):
        recipe_from_dict({"model": {"context_length": 64}, "training": {"window_length": 90}})
    with pytest.raises(UserError, match="reset_share"):
        recipe_from_dict({"model": MODELS["lstm"], "training": {"reset_share": 1.5}})


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn", "feed-forward"])
def test_the_packages_recipes_run(tmp_path: Path, text: Path, name: str) -> None:
    small = {
        "d_hidden": 8, "steps": 2, "batch_size": 2, "threads": 1, "baselines": False,
        "precision": "float32",
    }  # fmt: skip
    done = train(load_recipe(name), [text], out=tmp_path / "run", settings=small)
    assert done.report["finished"]
