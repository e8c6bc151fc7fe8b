"""What is converted is the same model: logits before and after, in every form; or a clear no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import saved

import budgerigar as bg
from budgerigar.api import convert
from budgerigar.cli import main
from budgerigar.errors import UserError
from budgerigar.formats import convert as forms
from budgerigar.formats.load import load_any
from budgerigar.formats.run import make_config, save_model
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import train_tokenizer

TEXT = "the cat sat on the mat. a dog ran to the cat!\n" * 20
PLAIN: dict[str, Any] = {"qkv_bias": False, "output_bias": False, "ff_bias": False}
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {"norm": "rms", "norm_bias": False, "activation": "swiglu", "n_kv_heads": 2, **PLAIN},
    "gpt2": {"positions": "learned", "activation": "gelu-tanh"},
    "t5": {"assembly": "encoder-decoder", "positions": "relative", "activation": "relu",
           "norm": "rms", "norm_bias": False, "tied_embeddings": False, **PLAIN},
    "vectors": {"assembly": "encoder-only", "positions": "learned", "norm_place": "post",
                "embedding_norm": True, "token_head": False},
    "alibi": {"positions": "alibi"},
    "window": {"norm": "rms", "norm_bias": False, "activation": "swiglu", "attention_window": 8,
               **PLAIN},
    "translator": {"assembly": "encoder-decoder", "positions": "sinusoidal", "norm_place": "pre",
                   "activation": "relu"},
}  # fmt: skip


def made(folder: Path, shape: str) -> Path:
    """A run of that shape with random weights."""
    tokenizer = train_tokenizer([TEXT], "byte", end=True)
    dials = SHAPES[shape]
    both = dials.get("assembly") == "encoder-decoder"
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, context_length=48, d_model=32, n_layers=2, n_heads=4,
        init_std=0.3, decoder_start=tokenizer.end_id if both else None, **dials,
    )  # fmt: skip
    text = {"documents": "lines", **({"pairs": True} if both else {})}
    save_model(folder, Transformer(config, seed=1), tokenizer, make_config(config, text))
    return folder


@pytest.mark.parametrize(
    ("shape", "to", "kind", "most"),
    [
        ("llama", "hugging-face", None, 1e-5),
        ("gpt2", "hugging-face", None, 1e-5),
        ("t5", "hugging-face", None, 1e-5),
        ("vectors", "hugging-face", None, 1e-5),
        ("llama", "gguf", "f32", 1e-5),
        ("llama", "gguf", "f16", 1e-2),
        ("gpt2", "gguf", "Q8_0", 8e-2),
    ],
)
def test_runs_in_other_forms(
    shape: str, to: str, kind: str | None, most: float, tmp_path: Path
) -> None:
    run = made(tmp_path / "run", shape)
    done = convert(run, tmp_path / "out", to, kind)
    assert done.form == to
    assert done.difference is not None
    assert done.difference <= most
    assert (done.agreement is None) == (shape == "vectors")
    assert done.n_positions == 64
    if most <= 1e-5 and done.agreement is not None:
        assert done.agreement == 1.0
    # the number is what an independent look at both gives
    ids = torch.randint(0, 250, (3, 20), generator=torch.Generator().manual_seed(5))
    source = {"source": ids.flip(1)} if shape == "t5" else {}
    with torch.inference_mode():
        ours, theirs = (load_any(p).network(ids, **source) for p in (run, tmp_path / "out"))
    assert float((ours - theirs).abs().max() / ours.abs().max()) <= most
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "run"]


@pytest.mark.parametrize("name", ["llama3", "mistral", "qwen2"])
def test_imported_models_as_runs_of_ours(name: str, tmp_path: Path) -> None:
    """Their folder -> a run; and the run -> their form again."""
    folder = saved(name, tmp_path / name)
    pieces = {piece: i for i, piece in enumerate("abcdefghijklmnopqrstuvwxyz .,;!?")}
    document: dict[str, Any] = {
                "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
                "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
                "model": {"type": "BPE", "vocab": pieces, "merges": []}}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(document))
    done = convert(folder, tmp_path / "run", "run")
    assert done.difference == 0
    assert bg.load(tmp_path / "run").network.config == bg.load(folder).network.config
    again = convert(tmp_path / "run", tmp_path / "again", "hugging-face")
    assert again.difference is not None
    assert again.difference <= 1e-5
    before = json.loads((folder / "config.json").read_text())["architectures"]
    assert json.loads((tmp_path / "again" / "config.json").read_text())["architectures"] == before


@pytest.mark.parametrize("to", ["gguf", "hugging-face", "run"])
def test_a_padded_vocabulary_is_compared_on_the_same_tokens(to: str, tmp_path: Path) -> None:
    import foreign_tokenizers as foreign
    from tiny_models import transformers

    foreign.llama_like(tmp_path / "hf")
    config = transformers.LlamaConfig(
        vocab_size=576, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "hf")
    assert load_any(tmp_path / "hf").tokenizer.vocab_size < 576
    done = convert(tmp_path / "hf", tmp_path / "out", to)
    assert done.difference is not None
    assert done.difference < 1e-2  # float16


def test_the_form_goes_by_the_name(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "llama")
    assert convert(run, tmp_path / "a.gguf").form == "gguf"
    assert (tmp_path / "a.gguf").is_file()
    assert convert(tmp_path / "a.gguf", tmp_path / "b").form == "hugging-face"
    again = convert(tmp_path / "a.gguf", tmp_path / "c", "run")
    assert again.difference is not None
    assert again.difference < 1e-5


@pytest.mark.parametrize(
    ("shape", "to", "kind", "words"),
    [
        ("alibi", "hugging-face", None, "positions = alibi"),
        ("alibi", "gguf", None, "positions = alibi"),
        ("t5", "gguf", None, "encoder-decoder"),
        ("llama", "run", None, "already"),
        ("llama", "onnx", None, "hugging-face, gguf, run, ctranslate2"),
        ("llama", "ctranslate2", None, "this model is decoder-only"),
        ("t5", "ctranslate2", None, "positions = relative"),
        ("llama", "gguf", "q2_k", "f32, f16, q8_0"),
        ("llama", "hugging-face", "f16", "gguf alone"),
    ],
)
def test_what_has_no_counterpart_is_refused_and_nothing_written(
    shape: str, to: str, kind: str | None, words: str, tmp_path: Path
) -> None:
    run = made(tmp_path / "run", shape)
    with pytest.raises(UserError, match=words):
        convert(run, tmp_path / "out", to, kind)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_what_exists_stays(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "llama")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(UserError, match="exists already"):
        convert(run, tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "x"


def test_another_model_than_was_read_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that gets rotary pairs wrong is found by the comparison."""
    from budgerigar.formats.weight_rules import Interleaved

    run = made(tmp_path / "run", "llama")
    monkeypatch.setattr(Interleaved, "write", lambda self, ours: ours)
    with pytest.raises(UserError, match="another model"):
        convert(run, tmp_path / "out.gguf")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert forms.FAR_OFF <= 0.1


def test_the_command_prints_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path / "run", "gpt2")
    assert main(["convert", str(run), str(tmp_path / "a.gguf"), "--type", "F16"]) == 0
    out = capsys.readouterr().out
    assert "gguf, gpt2" in out
    assert "largest difference of the logits" in out
    assert main(["convert", str(run), str(tmp_path / "b"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["form"] == "hugging-face"
    assert values["difference"] <= 1e-5
    assert main(["convert", str(run), str(tmp_path / "b")]) == 2


@pytest.mark.parametrize(
    ("shape", "to", "says", "way"),
    [
        ("window", "gguf", "attention_window = 8 (there: none)", "--to hugging-face"),
        ("t5", "gguf", "encoder-decoder", "--to hugging-face"),
        ("translator", "hugging-face", "norm_place", "--to ctranslate2"),
        ("alibi", "hugging-face", "positions = alibi", "budgie eject"),
    ],
)
def test_what_does_not_fit_is_said_before_any_work_with_what_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, to: str, says: str, way: str
) -> None:
    def no_work(*_: Any) -> Any:
        raise AssertionError("work before the check")

    monkeypatch.setattr(forms, "answers", no_work)
    with pytest.raises(UserError) as refused:
        convert(made(tmp_path / "run", shape), tmp_path / "out", to)
    words = str(refused.value)
    assert says in words
    assert way in words
    assert "sink_tokens" not in words
    assert not (tmp_path / "out").exists()
