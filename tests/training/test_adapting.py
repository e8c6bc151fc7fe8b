"""Fine-tuning models of others, in full and with adapters: files, resuming, memory, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf_models import tiny_llama, write_model

import budgerigar as bg
from budgerigar import models
from budgerigar.errors import UserError
from budgerigar.formats import adapters
from budgerigar.formats.load import load_any
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.tensors import read_tensors
from budgerigar.layers.lora import has_adapters, merged
from budgerigar.layers.packed_linear import PackedLinear
from budgerigar.training import adapting
from budgerigar.training.recipe import load_recipe
from budgerigar.training.run import train

TEXT = "The cat sat on the mat. Then the dog sat on the log, and the cat ran off.\n" * 40
QUICK: dict[str, Any] = {
    "threads": 1, "steps": 6, "evaluate_every": 3, "sample_tokens": 5, "window_length": 32,
    "precision": "float32", "learning_rate": 3e-3,
}  # fmt: skip


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "cats.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_model(path, tiny_llama(intermediate_size=128), "Q4_1")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, gguf_file: Path) -> Path:
    """The same as a Hugging Face folder."""
    from budgerigar.formats.hugging_face_out import save_hugging_face

    path = tmp_path_factory.mktemp("hf") / "tiny"
    save_hugging_face(load_any(gguf_file), path)
    return path


def logits(run: Path | str) -> torch.Tensor:
    loaded = load_any(run)
    with torch.no_grad():
        found: torch.Tensor = loaded.network(torch.tensor([loaded.tokenizer.encode("the cat sat")]))
    return found


@pytest.mark.parametrize("form", ["gguf", "folder"])
def test_adapters_are_kept_apart_and_load_with_their_base(
    form: str, gguf_file: Path, folder: Path, text: Path, tmp_path: Path
) -> None:
    base = gguf_file if form == "gguf" else folder
    run = train(None, [text], out=tmp_path / "run", start_from=base, settings={**QUICK, "lora": 4})
    names = {path.name for path in run.folder.iterdir()}
    assert adapters.ADAPTERS in names
    assert "model.safetensors" not in names
    kept = read_tensors(run.folder / adapters.ADAPTERS)
    assert len(kept) == 2 * 2 * 7
    assert {name.rpartition(".")[2] for name in kept} == {"lora_down", "lora_up"}
    told = json.loads((run.folder / "config.json").read_text())
    assert told["adapters"]["base"] == str(base.resolve())
    assert len(told["adapters"]["base_fingerprint"]) == 64
    assert told["imported"]["family"] in ("llama", "Llama")

    loaded = load_any(run.folder)
    packed = [m for m in loaded.network.modules() if isinstance(m, PackedLinear)]
    assert bool(packed) == (form == "gguf")  # what was quantised stays so
    assert loaded.tokenizer.fingerprint == load_any(base).tokenizer.fingerprint
    ours, theirs = logits(run.folder), logits(base)
    assert float((ours - theirs).abs().max()) > 1e-3
    one = merged(loaded.network)
    with torch.no_grad():
        alone = one(torch.tensor([loaded.tokenizer.encode("the cat sat")]))
    assert float((alone - ours).abs().max()) < 1e-4 * float(ours.abs().max())
    report = run.report
    assert report["bits_per_byte_after"] < report["bits_per_byte_before"]
    before = read_metrics(run.folder / "metrics.jsonl", "before")[0]
    assert before["n_tokens"] == report["evaluation"]["n_tokens"]


def test_the_verbs_work_on_a_run_with_adapters(folder: Path, text: Path, tmp_path: Path) -> None:
    run = bg.train(text, out=tmp_path / "run", start_from=folder, settings={**QUICK, "lora": 2})
    model = bg.load(run.folder)
    assert isinstance(model.generate("the cat", max_new_tokens=5), str)
    assert model.trace("the cat sat").attention("L1.H0").difference < 1e-5
    assert model.evaluate(text).nats_per_token > 0
    again = bg.train(
        text, out=tmp_path / "more", start_from=run.folder, settings={**QUICK, "lora": 2}
    )
    assert has_adapters(again.model.network)  # over those of the run before, which are frozen now
    assert json.loads((again.folder / "config.json").read_text())["adapters"]["base"] == str(
        run.folder
    )


def test_converting_merges(gguf_file: Path, text: Path, tmp_path: Path) -> None:
    from budgerigar.formats.convert import convert
    from budgerigar.formats.eject import eject

    run = train(
        None, [text], out=tmp_path / "run", start_from=gguf_file, settings={**QUICK, "lora": 2}
    )
    for out in (tmp_path / "one", tmp_path / "hf", tmp_path / "one.gguf"):
        form = "run" if out.name == "one" else None
        convert(run.folder, out, form, "f32" if out.suffix else None)
        ours, theirs = logits(out), logits(run.folder)
        assert float((ours - theirs).abs().max()) < 1e-4 * float(theirs.abs().max())
        assert not has_adapters(load_any(out).network)
    with pytest.raises(UserError, match="budgie convert"):
        eject(run.folder)


def test_before_the_first_update_it_is_the_base(gguf_file: Path) -> None:
    told = {"rank": 3, "alpha": 6.0, "targets": ["query", "down"]}
    network = adapters.with_new_adapters(load_any(gguf_file).network, told)
    with torch.no_grad():
        ids = torch.tensor([[5, 6, 7, 8]])
        assert torch.equal(network.eval()(ids), load_any(gguf_file).network(ids))


@pytest.mark.parametrize("more", [{"lora": 4, "recompute": True}, {}])
def test_stopped_and_resumed_it_is_the_same_run_bit_for_bit(
    more: dict[str, Any], gguf_file: Path, text: Path, tmp_path: Path
) -> None:
    class Stop:
        def on_step(self, event: Any) -> bool:
            return bool(event.step == 4)

    settings = {**QUICK, "log_every": 1, **more}
    whole = train(None, [text], out=tmp_path / "a", start_from=gguf_file, settings=settings)
    part = train(
        None,
        [text],
        out=tmp_path / "b",
        start_from=gguf_file,
        settings=settings,
        callbacks=[Stop()],
    )
    assert not part.report["finished"]
    resumed = train(resume=part.folder)
    assert resumed.report["best_loss"] == whole.report["best_loss"]
    assert resumed.report["bits_per_byte_after"] == whole.report["bits_per_byte_after"]
    losses = [
        [m["loss"] for m in read_metrics(r.folder / "metrics.jsonl", "step")]
        for r in (whole, resumed)
    ]
    assert losses[0] == losses[1]
    name = adapters.ADAPTERS if "lora" in more else adapters.WEIGHTS
    ours, theirs = (read_tensors(r.folder / name) for r in (whole, resumed))
    assert all(torch.equal(ours[n], theirs[n]) for n in ours)


def test_in_full_all_weights_are_learnt_in_float32(
    gguf_file: Path, text: Path, tmp_path: Path
) -> None:
    run = train(None, [text], out=tmp_path / "run", start_from=gguf_file, settings=QUICK)
    assert run.report["bits_per_byte_after"] < run.report["bits_per_byte_before"]
    network = load_any(run.folder).network
    assert not any(isinstance(m, PackedLinear) for m in network.modules())
    first = load_any(gguf_file, "cpu").network
    assert not torch.equal(network.embedding.tokens.weight, first.embedding.tokens.weight)
    stored = read_tensors(run.folder / "model.safetensors")
    assert set(stored) == set(models.build(network.config).state_dict())


def test_another_base_is_refused_and_a_lost_one_named(
    gguf_file: Path, text: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base.gguf"
    shutil.copyfile(gguf_file, base)
    run = train(None, [text], out=tmp_path / "run", start_from=base, settings={**QUICK, "lora": 2})
    write_model(base, tiny_llama(intermediate_size=128, rope_theta=10000.0), "Q4_0")
    with pytest.raises(UserError, match="another one lies there"):
        load_any(run.folder)
    base.unlink()
    with pytest.raises(UserError, match="not there"):
        load_any(run.folder)
    with pytest.raises(UserError, match="not there"):
        train(resume=run.folder, settings={"steps": 12})


def test_long_files_are_known_by_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_WHOLE", 64)
    monkeypatch.setattr(adapters, "_SAMPLE", 8)
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(1000))
    first = adapters.fingerprint(path)
    for place in (0, 999):
        changed = bytearray(1000)
        changed[place] = 1
        path.write_bytes(changed)
        assert adapters.fingerprint(path) != first
    path.write_bytes(bytes(1001))
    assert adapters.fingerprint(path) != first


def test_what_adapters_cannot_be_put_on(gguf_file: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--from"):
        train(None, [text], out=tmp_path / "x", settings={**QUICK, "lora": 2})
    with pytest.raises(UserError, match="heads"):
        train(
            None, [text], out=tmp_path / "x", start_from=gguf_file,
            settings={**QUICK, "lora": 2, "lora_targets": "heads"},
        )  # fmt: skip
    with pytest.raises(UserError, match="at least 1"):
        train(None, [text], out=tmp_path / "x", start_from=gguf_file, settings={"lora": 0})
    with pytest.raises(UserError, match="cannot be given"):
        train(None, [text], out=tmp_path / "x", start_from=gguf_file, settings={"n_layers": 9})
    assert not (tmp_path / "x").exists()


def test_a_step_is_made_to_fit_the_memory(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = load_any(gguf_file)
    recipe = adapting.fine_tuning_recipe(base, {"lora": 2})
    recipe = recipe.replace(training={"lora": 2, "batch_size": 6})
    network, _ = adapting.prepared(recipe, base)
    monkeypatch.setattr(adapting, "_measuring", lambda recipe, network: 0)
    need = adapting.needed(recipe, network)
    device = torch.device("cpu")
    monkeypatch.setattr(adapting, "_free", lambda device: int(need.total / 0.5))
    assert adapting.fit_to_memory(recipe, network, device) == recipe

    again = adapting.needed(recipe.replace(training={"recompute": True}), network)
    assert again.batch < need.batch
    monkeypatch.setattr(adapting, "_free", lambda device: int(again.total / 0.6) + 9)
    fitted = adapting.fit_to_memory(recipe, network, device).training
    assert (fitted.recompute, fitted.batch_size) == (True, 6)
    monkeypatch.setattr(
        adapting, "_free", lambda device: int((again.total - again.batch / 2) / 0.6)
    )
    fitted = adapting.fit_to_memory(recipe, network, device).training
    assert fitted.batch_size < 6
    assert fitted.batch_size * fitted.accumulate >= 6
    assert "to fit" in capsys.readouterr().err
    monkeypatch.setattr(adapting, "memory_of", lambda device: 1000)
    with pytest.raises(UserError, match="this machine has"):
        adapting.fit_to_memory(recipe, network, device)


def test_rates_suit_what_is_learnt(gguf_file: Path) -> None:
    base = load_any(gguf_file)
    published = load_recipe("fine-tune").training
    assert (
        adapting.fine_tuning_recipe(base, {"lora": 2}).training.learning_rate
        == published.learning_rate
    )
    in_full = adapting.fine_tuning_recipe(base, {}).training
    assert in_full.learning_rate == pytest.approx(0.1 * published.learning_rate)
    assert in_full.window_length == 128  # the base reads no more
