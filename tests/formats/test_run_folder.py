"""Run folders: made whole, loaded, and refused with words that name what is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar import models
from budgerigar.errors import UserError
from budgerigar.formats import run as run_module
from budgerigar.formats.run import (
    RunFolder,
    load_model,
    make_config,
    resolve_run,
    save_model,
    save_weights,
)
from budgerigar.formats.tensors import read_tensors
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.configs import NgramConfig
from budgerigar.models.ngram import NgramModel
from budgerigar.text.tokenizers import train_tokenizer

TEXT = "the cat sat on the mat\n" * 20


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer([TEXT], kind="symbols")


def small(tokenizer: Any, **changes: Any) -> Any:
    values = {"vocab_size": tokenizer.vocab_size, "context_length": 8, "d_model": 8, "n_heads": 2}
    return models.build(TransformerConfig(**{**values, "n_layers": 2, **changes}), seed=3)


@pytest.mark.parametrize("tied", [True, False])
def test_saved_and_loaded_gives_the_same_logits(tmp_path: Path, tokenizer: Any, tied: bool) -> None:
    network = small(tokenizer, tied_embeddings=tied).eval()
    save_model(tmp_path / "m", network, tokenizer, make_config(network.config, {}))
    loaded = load_model(tmp_path / "m")
    ids = torch.tensor([tokenizer.encode("the cat")])
    assert torch.equal(network(ids), loaded.network(ids))
    assert not loaded.network.training
    assert loaded.recipe is None
    stored = read_tensors(tmp_path / "m" / "model.safetensors")
    assert ("head.weight" in stored) is not tied
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in network.parameters())


def test_compiling_never_leaks_into_names(tmp_path: Path, tokenizer: Any) -> None:
    class Wrapped(torch.nn.Module):
        def __init__(self, network: torch.nn.Module) -> None:
            super().__init__()
            self._orig_mod = network

    save_weights(tmp_path, Wrapped(small(tokenizer)))
    assert not [n for n in read_tensors(tmp_path / "model.safetensors") if "_orig_mod" in n]


def test_an_ngram_survives(tmp_path: Path, tokenizer: Any) -> None:
    ids = tokenizer.encode_array(TEXT)
    network = NgramModel.fit(ids, NgramConfig(tokenizer.vocab_size, order=3))
    save_model(tmp_path / "n", network, tokenizer, make_config(network.config, {}))
    loaded = load_model(tmp_path / "n").network
    tokens = torch.from_numpy(ids[:12].astype("int64"))[None]
    one, _ = network.step(tokens, network.start(1), all_positions=True)
    other, _ = loaded.step(tokens, loaded.start(1), all_positions=True)
    assert torch.equal(one, other)


def test_an_existing_folder_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match="never overwrites"):
        RunFolder.create(tmp_path / "taken", {}, "", tokenizer)


def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    class Broken:
        def save(self, folder: Path) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="disk is full"):
        RunFolder.create(tmp_path / "run", {}, "", Broken())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, tokenizer: Any, name: str) -> None:
    network = small(tokenizer)
    save_model(tmp_path / "m", network, tokenizer, make_config(network.config, {}))
    (tmp_path / "m" / name).unlink()
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        load_model(tmp_path / "m")


def test_damage_is_named(tmp_path: Path, tokenizer: Any) -> None:
    network = small(tokenizer)
    folder = tmp_path / "m"
    save_model(folder, network, tokenizer, make_config(network.config, {}))
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cut short"):
        load_model(folder)
    (folder / "model.safetensors").write_bytes(whole)
    config = json.loads((folder / "config.json").read_text())
    config["model"]["d_ff"] = 20
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"feed_forward\.up\.weight is \(32, 8\), not \(20, 8\)"):
        load_model(folder)
    config["format_version"] = 99
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="version 99"):
        load_model(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(UserError, match="format_version"):
        load_model(folder)
    (folder / "config.json").write_text("{nonsense")
    with pytest.raises(UserError, match="cannot be read"):
        load_model(folder)
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"no config\.json"):
        load_model(folder)
    with pytest.raises(UserError, match="no run folder"):
        load_model(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format_version", "9"),
        ("format_version", None),
        ("format_version", True),
        ("kind", 3),
        ("model", 3),
        ("model", None),
        ("text", []),
        ("text", None),
        ("text", {"files": 3}),
        ("text", {"sources": [1]}),
    ],
)
def test_a_config_with_something_else_in_it_is_named(
    tmp_path: Path, tokenizer: Any, key: str, value: Any
) -> None:
    network = small(tokenizer)
    config = {**make_config(network.config, {}), key: value}
    save_model(tmp_path / "m", network, tokenizer, config)
    with pytest.raises(UserError, match=key):
        load_model(tmp_path / "m")


def test_no_name_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for nothing in ("", " "):
        with pytest.raises(UserError, match="empty name"):
            resolve_run(nothing)


def test_a_folder_of_runs_names_them(tmp_path: Path, tokenizer: Any) -> None:
    network = small(tokenizer)
    save_model(tmp_path / "runs" / "one", network, tokenizer, make_config(network.config, {}))
    with pytest.raises(UserError, match="holds runs: one"):
        load_model(tmp_path / "runs")


def test_last_is_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Any
) -> None:
    monkeypatch.setattr(run_module, "RUNS", tmp_path / "runs")
    with pytest.raises(UserError, match="no run under"):
        resolve_run("last")
    for age, name in ((100, "old"), (0, "new"), (50, "middle")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        os.utime(folder / "config.json", (2_000_000_000 - age, 2_000_000_000 - age))
    assert resolve_run("last").name == "new"
    assert resolve_run("old") == tmp_path / "runs" / "old"
    with pytest.raises(UserError, match="middle"):
        resolve_run("none")


def test_a_second_trainer_is_kept_out(tmp_path: Path, tokenizer: Any) -> None:
    folder = RunFolder.create(tmp_path / "run", {}, "", tokenizer)
    with folder.lock():
        second = RunFolder.open(folder.path).lock()
        with pytest.raises(UserError, match="Another process"):
            second.__enter__()
    with folder.lock():
        pass


def test_a_config_of_ten_thousand_brackets_is_no_fault_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"config\.json cannot be read"):
        load_model(tmp_path)
