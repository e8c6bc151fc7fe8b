"""`Model.embed`, names that `load` and `card` take, and `budgie embed`, on tiny random models."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import saved, theirs

import budgerigar as bg
from budgerigar.api.cards import card
from budgerigar.api.embedding import embed
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.formats import names
from budgerigar.text import model_catalogue
from budgerigar.text.tokenizers import train_tokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "mat", "on", "##s", "."]
TEXTS = ["the cat sat on the mat.", "cats", "", "the mats sat. the mats sat."]


def declare(folder: Path, way: str = "mean_tokens", most: int = 96, normalise: bool = True) -> None:
    """What sentence-transformers writes beside an encoder."""
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling: dict[str, Any] = {f"pooling_mode_{mode}": mode == way for mode in modes}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    steps = ["Transformer", "Pooling", *(["Normalize"] if normalise else [])]
    types = [{"type": f"sentence_transformers.models.{step}"} for step in steps]
    (folder / "modules.json").write_text(json.dumps(types))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": most}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny encoder in the form in which sentence-transformers saves them."""
    path = saved("minilm", tmp_path / "minilm")
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    declare(path)
    return path


def wanted(folder: Path, texts: list[str], way: str, most: int = 96) -> np.ndarray:
    """The same by `transformers`, one text at a time in float64."""
    reader = transformers.BertTokenizer.from_pretrained(folder)
    other = theirs("minilm").double()
    rows = []
    for text in texts:
        ids = reader(text, truncation=True, max_length=most, return_tensors="pt").input_ids
        with torch.inference_mode():
            vectors = other(ids).last_hidden_state[0]
        rows.append({"mean": vectors.mean(0), "cls": vectors[0], "last": vectors[-1]}[way])
    return torch.stack(rows).numpy()


def test_vectors_are_those_of_transformers(folder: Path) -> None:
    model = bg.load(folder)
    want = wanted(folder, TEXTS, "mean")
    unit = want / np.linalg.norm(want, axis=1, keepdims=True)
    assert model.embed(TEXTS).numpy() == pytest.approx(unit, abs=1e-5)
    assert model.embed(TEXTS, normalise=False).numpy() == pytest.approx(want, abs=1e-5)
    one = model.embed(TEXTS[0])
    assert one.shape == (24,)
    assert one.numpy() == pytest.approx(unit[0], abs=1e-5)
    for way in ("cls", "last"):  # asked for: the folder's own settings do not count
        assert model.embed(TEXTS, pooling=way).numpy() == pytest.approx(
            wanted(folder, TEXTS, way), abs=1e-5
        )
    assert model.embed([]).shape == (0, 24)


@pytest.mark.parametrize(("theirs", "ours"), [("cls_token", "cls"), ("lasttoken", "last")])
def test_what_the_folder_declares_is_done(folder: Path, theirs: str, ours: str) -> None:
    declare(folder, theirs, most=6, normalise=False)
    found = embed(bg.load(folder), TEXTS)
    assert (found.pooling, found.normalised) == (ours, False)
    assert found.vectors == pytest.approx(wanted(folder, TEXTS, ours, 6), abs=1e-5)
    assert found.n_tokens == (6, 4, 2, 6)
    assert "2 of 4 texts (first: number 1)" in found.notes[0]
    # a newer way of writing the same
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": ours}))
    assert embed(bg.load(folder), TEXTS).vectors == pytest.approx(found.vectors)


def test_steps_that_are_not_known_are_refused(folder: Path) -> None:
    declare(folder, "mean_sqrt_len_tokens")
    model = bg.load(folder)
    with pytest.raises(UserError, match="mean_sqrt_len_tokens"):
        model.embed("the cat")
    assert model.embed("the cat", pooling="mean").shape == (24,)
    declare(folder)
    (folder / "modules.json").write_text(
        json.dumps([{"type": "sentence_transformers.models.Dense"}])
    )
    with pytest.raises(UserError, match="Dense"):
        model.embed("the cat")
    for content in ("[", "[1]", '{"pooling_mode_mean_tokens": false}'):
        (folder / "1_Pooling" / "config.json").write_text(content)
        with pytest.raises(UserError, match="1_Pooling"):
            model.embed("the cat")
    with pytest.raises(UserError, match="mean, cls, last, max"):
        model.embed("the cat", pooling="median")


def test_a_decoder_gives_the_mean_of_its_last_layer_and_says_so(tmp_path: Path) -> None:
    path = saved("llama", tmp_path / "llama")
    train_tokenizer(["the cat sat on the mat."], "symbols").save(path)
    model = bg.load(path)
    texts = ["the cat sat", "mat. the mat"]
    found = embed(model, texts)
    assert "decoder" in found.notes[0]
    assert found.pooling == "mean"
    for text, vector in zip(texts, found.vectors, strict=True):
        with torch.inference_mode():
            out = theirs("llama").model(torch.tensor([model.encode(text)]))
        assert vector == pytest.approx(out.last_hidden_state[0].mean(0).numpy(), rel=1e-4, abs=1e-5)


def test_models_without_such_vectors_say_so(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 30)
    run = bg.train(tmp_path / "text.txt", recipe="ngram", out=tmp_path / "run")
    with pytest.raises(UserError, match="minilm-l6"):
        run.model.embed("the cat")


# -- on the command line ---------------------------------------------------------------------------
def test_a_few_texts_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", str(folder), *TEXTS[:2], TEXTS[3]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "1", "2", "3"]
    unit = bg.load(folder).embed([*TEXTS[:2], TEXTS[3]]).double().numpy()
    shown = np.array([[float(cell) for cell in line.split()[1:4]] for line in lines[1:]])
    assert shown == pytest.approx(unit @ unit.T, abs=6e-4)
    assert lines[2].endswith("cats")


def test_vectors_out(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    want = bg.load(folder).embed(TEXTS).numpy()
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS) + "\n")
    for name in ("out.npy", "out.tsv"):
        out = tmp_path / name
        assert (
            main(["embed", str(folder), "--file", str(tmp_path / "lines.txt"), "--out", str(out)])
            == 0
        )
        assert capsys.readouterr().out.strip() == str(out)
        found = np.load(out) if name == "out.npy" else np.loadtxt(out, dtype=np.float32)
        assert found.dtype == np.float32
        assert np.array_equal(found, want)  # blank lines keep their place; every digit comes back
        assert main(["embed", str(folder), "x", "--out", str(out)]) == 2  # never over a file
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(TEXTS)))
    assert main(["embed", str(folder)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert np.array_equal(np.loadtxt(rows, dtype=np.float32), want)
    assert main(["embed", str(folder), "cats", "--json", "--no-normalise", "--pooling", "cls"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pooling"], told["normalised"], told["width"]) == ("cls", False, 24)
    assert told["texts"][0]["vector"] == pytest.approx(wanted(folder, ["cats"], "cls")[0], abs=1e-5)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["a", "--out", "vectors.txt"], ".npy or .tsv"),
        (["a", "--out", "no/where.npy"], "no folder"),
        (["a", "--file", "b"], "not both"),
        (["a", "--pooling", "median"], "mean, cls"),
        ([], "no text"),
    ],
)
def test_mistakes(
    folder: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["embed", str(folder), *more]) == 2
    assert words in capsys.readouterr().err


# -- names -----------------------------------------------------------------------------------------
def test_a_model_of_the_catalogue_is_loaded_by_its_name(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry = model_catalogue.models()["minilm-l6"]
    here = SimpleNamespace(path=folder, files={"config.json": folder / "config.json"}, entry=entry)
    monkeypatch.setattr(names, "fetch_model", lambda *_, **__: here)
    assert bg.load("minilm-l6").folder == folder
    found = card("minilm-l6")
    assert found.facts["imported"]["vector_of_a_text"].startswith("mean of its tokens, of length 1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm-l6").mkdir()  # a folder here wins over the name
    with pytest.raises(UserError, match=r"config\.json"):
        bg.load("minilm-l6")
    with pytest.raises(UserError, match="Did you mean the model smollm2"):
        bg.load("smollm2-135m")
    assert main(["list", "models"]) == 0
    assert "Apache-2.0" in capsys.readouterr().out
    assert main(["list", "models", "--json"]) == 0
    assert "smollm2-135m-instruct" in json.loads(capsys.readouterr().out)["models"]


class RepositoryNotFoundError(Exception):
    """As huggingface_hub's own."""


def fake_hub(
    monkeypatch: pytest.MonkeyPatch, answer: Any, headers: Any = None
) -> list[tuple[Any, Any]]:
    """A library that gives `answer`; a list of what it will have been asked."""
    hub: Any = ModuleType("huggingface_hub")
    asked: list[tuple[Any, Any]] = []

    def give(*names: Any, **wanted: Any) -> Any:
        asked.append((names, wanted))
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    hub.snapshot_download = hub.hf_hub_download = give
    hub.get_safetensors_metadata = lambda _: headers
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", hub)
    return asked


def test_hub_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runs/nothing", "a/b/c", "/a/b", "../a/b", "a", "", "a/b.c/../d.gguf/"):
        assert not names.is_hub_name(name), name
    assert names.is_hub_name("owner/model-1.5")
    assert names.is_hub_name("owner/model/deep/file.Q4_0.gguf")
    fake_hub(monkeypatch, folder)
    assert bg.load("owner/model").folder == folder
    fake_hub(monkeypatch, OSError("Name or service not known"))
    with pytest.raises(UserError, match=r"cannot be reached .*Name or service"):
        bg.load("owner/model")
    fake_hub(monkeypatch, RepositoryNotFoundError("404"))
    with pytest.raises(UserError, match="no model of this name"):
        bg.load("owner/model")
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"pip install 'budgerigar\[hub\]'"):
        bg.load("owner/model")


def test_what_is_asked_of_the_hub(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = fake_hub(monkeypatch, folder)
    assert main(["embed", "owner/model", "a cat", "--json"]) == 0
    named = json.loads(capsys.readouterr().out)
    assert main(["embed", str(folder), "a cat", "--json"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert named["texts"] == same["texts"]
    ((repository, *_), wanted) = asked[0]
    assert repository == "owner/model"
    assert "*.safetensors" in wanted["allow_patterns"]
    assert not any(".bin" in one or "pickle" in one for one in wanted["allow_patterns"])
    assert "onnx/*" in wanted["ignore_patterns"]
    fake_hub(monkeypatch, OSError("no network"))  # what is here is never asked for there
    assert main(["embed", str(folder), "a cat"]) == 0
    asked = fake_hub(monkeypatch, folder / "model.gguf")
    with pytest.raises(UserError):
        bg.load("owner/model/deep/model.Q4_0.gguf")
    assert asked == [(("owner/model", "deep/model.Q4_0.gguf"), {})]


def test_a_gated_model_names_its_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub(monkeypatch, type("GatedRepoError", (Exception,), {})("403"))
    with pytest.raises(UserError, match=r"licence.*https://huggingface.co/owner/model"):
        bg.load("owner/model")


def test_the_card_of_a_hub_model_fetches_no_weights(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = card(folder)
    tensors = {
        name: SimpleNamespace(shape=list(tensor.shape), dtype="F32")
        for name, tensor in theirs("minilm").state_dict().items()
    }
    (folder / "model.safetensors").unlink()
    file = SimpleNamespace(tensors=tensors)
    fake_hub(monkeypatch, folder, SimpleNamespace(files_metadata={"model.safetensors": file}))
    remote = card("owner/model")
    assert remote.name == "owner/model"
    assert remote.facts["parameters"] == whole.facts["parameters"]
    assert not [note for note in remote.notes if note.startswith("weights")]


def test_the_card_of_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(UserError, match=r"\.gguf file or llama2\.c's"):
        card(tmp_path / "a.txt")
