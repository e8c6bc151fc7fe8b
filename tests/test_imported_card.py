"""Cards of what others made: from headers alone, with the numbers that the loaded model has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from test_gguf_out import LLAMA, run_of_ours
from test_llama2c import VOCAB, tiny_llama, write_file
from tiny_models import saved

import budgerigar as bg
from budgerigar.api.cards import card
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.formats.gguf_file import GgufFile
from budgerigar.formats.gguf_out import save_gguf
from budgerigar.formats.llama2c import Llama2cFile
from budgerigar.formats.safetensors_files import SafetensorsFile
from budgerigar.layers.packed_linear import n_weights


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """From here on reading a weight is an error."""

    def refuse(*_: Any) -> NoReturn:
        raise AssertionError("a weight was read")

    monkeypatch.setattr(SafetensorsFile, "get", refuse)
    monkeypatch.setattr(GgufFile, "get", refuse)
    monkeypatch.setattr(GgufFile, "raw", refuse)
    monkeypatch.setattr(Llama2cFile, "get", refuse)
    return monkeypatch


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0"])
def test_a_gguf_file(kind: str, tmp_path: Path, closed: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    save_gguf(run_of_ours(**LLAMA), path, kind)
    facts = card(path).as_dict()
    assert facts["imported"]["form"] == "GGUF file, version 3"
    assert f"as {kind}" in facts["imported"]["values_stored"]
    assert facts["imported"]["tokenizer"] == "BPE, from model.gguf"
    assert (facts["sizes"]["n_layers"], facts["sizes"]["d_model"]) == (2, 64)
    assert not [note for note in facts["notes"] if "missing" in note]
    assert 0 < facts["imported"]["weights_in_the_files_bytes"] < path.stat().st_size
    closed.undo()
    network = bg.load(path).network
    assert facts["parameters"]["total"] == n_weights(network)
    there = sum(t.nbytes for t in [*network.parameters(), *network.buffers()])
    said = facts["imported"].get("weights_in_memory_bytes", facts["memory"]["weights_bytes"])
    assert said == pytest.approx(there, abs=512)  # a table of rotary angles beside the weights


def test_a_gguf_file_with_a_tensor_missing(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "model.gguf"
    save_gguf(run_of_ours(**LLAMA), path, "F32")
    known = GgufFile.__init__

    def without(self: GgufFile, path: Path) -> None:
        known(self, path)
        del self.entries["output_norm.weight"]

    monkeypatch.setattr(GgufFile, "__init__", without)
    notes = [note for note in card(path).notes if note.startswith("weights")]
    assert len(notes) == 1
    assert "output_norm.weight" in notes[0]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.usefixtures("closed")
def test_a_llama2c_file(version: int, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "model.bin"
    write_file(path, tiny_llama(vocab_size=VOCAB), version)
    found = card(path)
    assert found.facts["imported"]["form"] == f"llama2.c file, version {version}"
    assert found.facts["imported"]["output_layer_tied"] == "no"
    assert found.facts["imported"]["pieces_of_the_tokenizer"] == VOCAB
    assert found.facts["sizes"]["n_kv_heads"] == 2
    (tmp_path / "tokenizer.bin").unlink()
    assert main(["card", str(path)]) == 0
    assert "no tokenizer.bin" in capsys.readouterr().out


@pytest.mark.usefixtures("closed")
def test_a_hugging_face_folder(tmp_path: Path) -> None:
    found = card(saved("qwen2", tmp_path / "qwen2"))
    assert found.facts["imported"]["values_stored"].endswith("as F32")
    assert found.facts["imported"]["output_layer_tied"] == "yes"
    assert "vector_of_a_text" not in found.facts["imported"]
    assert [note for note in found.notes if note.startswith("tokenizer")]  # it has none


def test_damaged_files_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    save_gguf(run_of_ours(**LLAMA), path, "F32")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(UserError, match=r"damaged|cut short"):
        card(path)
    path.write_bytes(b"no")
    with pytest.raises(UserError, match="GGUF"):
        card(path)
