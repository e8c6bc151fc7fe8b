"""Each fault planted alone in a tiny model is found, healthy ones have none, nothing crashes."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from gguf_models import tiny_llama, write_model
from planted_faults import BESIDE, CHAT, PLANTED, TEXT, Q, changed, learnt, put
from tiny_models import CASES, V, saved
from tokenizers import Tokenizer as Backend
from tokenizers import models as backends

import budgerigar as bg
from budgerigar.api import doctor
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.experiments.doctor import Diagnosis
from budgerigar.formats.gguf_out import save_gguf
from budgerigar.formats.hugging_face_out import save_hugging_face
from budgerigar.formats.run import save_model


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Healthy ones: a Hugging Face folder (with the output layer apart, and tied), GGUF, a run."""
    base = tmp_path_factory.mktemp("doctor")
    apart, tied = learnt(tied_embeddings=False), learnt(tied_embeddings=True)
    for name, loaded in (("apart", apart), ("tied", tied)):
        save_hugging_face(loaded, base / name)
        (base / name / "tokenizer_extras.json").unlink()  # as others write it
    save_gguf(tied, base / "model.gguf", "F32")
    save_model(base / "run", apart.network, apart.tokenizer, apart.config)
    return {name: base / name for name in ("apart", "tied", "model.gguf", "run")}


def names(found: Diagnosis) -> list[str]:
    return [fault.name for fault in found.faults]


def said(found: Diagnosis) -> str:
    return "\n".join(found.lines())


# -- healthy ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["apart", "tied", "model.gguf", "run"])
def test_a_healthy_model_has_no_fault(name: str, folders: dict[str, Path]) -> None:
    found = doctor(folders[name], TEXT)
    assert found.faults == [], said(found)
    assert found.healthy
    assert found.measured["perplexity as stored"] < 3
    assert (
        found.measured["perplexity in another rotary order"]
        > 2 * (found.measured["perplexity as stored"])
    )
    assert set(found.skipped) <= {"chat template"}, found.skipped


@pytest.mark.parametrize("name", [name for name in CASES if name != "marian-two"])
def test_healthy_models_of_each_family(name: str, tmp_path: Path) -> None:
    folder = saved(name, tmp_path / name)
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;", "<unk>", "[MASK]"]
    order = ["<s>", "</s>", *letters][:V]
    backend = Backend(
        backends.BPE({piece: i for i, piece in enumerate(order)}, [], unk_token="<unk>")
    )
    backend.save(str(folder / "tokenizer.json"))
    changed(folder, "tokenizer_config.json", eos_token="</s>", unk_token="<unk>")
    for file in ("config.json", "generation_config.json"):
        if (folder / file).is_file():
            changed(folder, file, eos_token_id=1, bos_token_id=0)
    found = doctor(folder)
    assert [f for f in found.faults if f.severity != "note"] == [], said(found)


def test_a_trained_run_has_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(f"{TEXT}\n" * 60)
    small: dict[str, Any] = {
        "n_layers": 1,
        "n_heads": 2,
        "d_model": 16,
        "context_length": 32,
        "batch_size": 2,
    }
    run = bg.train(file, recipe=bg.Recipe(), out=tmp_path / "run", steps=2, threads=1,
                   baselines=False, sample_every=0, **small)  # fmt: skip
    found = doctor(run.folder)
    assert found.faults == [], said(found)


# -- one fault each --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, folders: dict[str, Path], tmp_path: Path) -> None:
    base, plant, name, severity = PLANTED[fault]
    shutil.copytree(folders[base], tmp_path / "model")
    plant(tmp_path / "model")
    found = doctor(tmp_path / "model", TEXT)
    assert set(names(found)) - BESIDE.get(fault, set()) == {name}, said(found)
    assert len([f for f in found.faults if f.name == name]) == 1
    one = next(f for f in found.faults if f.name == name)
    assert one.severity == severity
    assert one.evidence
    assert one.advice
    assert found.healthy == (severity == "note")


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"tokenizer.ggml.pre": "unheard-of"}, "unknown pre-tokenizer"),
        ({"tokenizer.ggml.pre": None}, "no pre-tokenizer named"),
        ({"tokenizer.ggml.eos_token_id": 5000}, "an end beyond the vocabulary"),
        ({"tokenizer.chat_template": "<|im_start|>" + CHAT}, "a template for another tokenizer"),
        (
            {
                "tokenizer.chat_template": "{{ bos_token }}" + CHAT,
                "tokenizer.ggml.add_bos_token": True,
            },
            "BOS twice",
        ),
        ({"llama.context_length": 90_000}, "context beyond training"),
    ],
)
def test_faults_of_gguf_files(metadata: dict[str, Any], name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, tiny_llama(), said=metadata)
    assert names(doctor(path)) == [name]


def test_a_healthy_gguf_of_a_random_model_and_one_without_a_tensor(tmp_path: Path) -> None:
    write_model(tmp_path / "a.gguf", tiny_llama(), quantise="Q8_0")
    assert names(doctor(tmp_path / "a.gguf")) == []
    write_model(tmp_path / "b.gguf", tiny_llama(), leave_out=("blk.1.attn_q.weight",))
    found = doctor(tmp_path / "b.gguf")
    assert names(found) == ["missing, unused or misshapen tensors"]
    assert "blk.1.attn_q.weight" in said(found)


# -- broken files ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("base", "file"),
    [
        ("apart", "config.json"),
        ("apart", "model.safetensors"),
        ("apart", "tokenizer.json"),
        ("apart", "tokenizer_config.json"),
        ("apart", "generation_config.json"),
        ("run", "config.json"),
        ("run", "model.safetensors"),
        ("run", "tokenizer.json"),
    ],
)
def test_a_file_cut_short_is_told_and_the_rest_examined(
    base: str, file: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders[base], tmp_path / "model")
    path = tmp_path / "model" / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = doctor(tmp_path / "model", TEXT)
    assert not found.healthy
    assert file in said(found)
    assert found.examined


def test_mutated_files_never_crash(folders: dict[str, Path], tmp_path: Path) -> None:
    draw = random.Random(0)
    shutil.copytree(folders["apart"], tmp_path / "model")
    for _ in range(40):
        path = draw.choice(sorted((tmp_path / "model").iterdir()))
        whole = path.read_bytes()
        mutated = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            mutated[draw.randrange(min(len(mutated), 2000))] = draw.randrange(256)
        path.write_bytes(mutated)
        assert doctor(tmp_path / "model", TEXT).lines()
        path.write_bytes(whole)


# -- the command -----------------------------------------------------------------------------------
def test_the_status_says_what_was_found(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(folders["apart"]), "--text", TEXT]) == 0
    assert "nothing wrong was found" in capsys.readouterr().out
    shutil.copytree(folders["apart"], tmp_path / "model")
    put(Q, float("nan"))(tmp_path / "model")
    assert main(["doctor", str(tmp_path / "model"), "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["healthy"] is False
    assert values["faults"][0]["name"] == "numbers that are infinite or none"
    assert set(values["faults"][0]) == {"name", "evidence", "advice", "severity"}
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("hello")
    for nothing in ("empty", "note.txt", "not-there"):
        assert main(["doctor", str(tmp_path / nothing)]) == 2
        assert capsys.readouterr().out == ""


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        doctor(tmp_path / "away")
