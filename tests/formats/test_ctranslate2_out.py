"""Translators as CTranslate2's folders: the library itself gives our log-probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from budgerigar.api import convert
from budgerigar.errors import UserError
from budgerigar.formats import ctranslate2_out as out
from budgerigar.formats.run import Loaded, load_model, make_config, save_model
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import train_tokenizer

TEXT = "the cat sat on the mat. a dog ran to the cat! viele Vögel\n" * 20
RMS: dict[str, Any] = {"norm": "rms", "norm_bias": False}
BARE: dict[str, Any] = {"qkv_bias": False, "output_bias": False, "ff_bias": False}
MODELS: dict[str, dict[str, Any]] = {
    "ours": {"positions": "sinusoidal", "activation": "squared-relu", **RMS, **BARE},
    "the paper's": {
        "positions": "sinusoidal", "sinusoid_layout": "split", "norm_place": "post",
        "activation": "relu", "embedding_scale": "sqrt",
    },
    "learned, gated": {
        "positions": "learned", "activation": "swiglu", "norm_bias": False,
        "tied_embeddings": False, "head_bias": True, "norm_epsilon": 1e-3,
    },
    "two vocabularies": {
        "positions": "learned", "activation": "geglu", "shared_embeddings": False,
        "norm_weight": False, "n_encoder_layers": 1, **RMS,
    },
}  # fmt: skip


def translator(folder: Path, **dials: Any) -> Loaded:
    """A translator with random weights, as a run."""
    target = train_tokenizer([TEXT], "bpe", 300, end=True)
    apart = dials.get("shared_embeddings") is False
    source = train_tokenizer([TEXT[::-1]], "bpe", 280, end=True) if apart else target
    config = TransformerConfig(
        assembly="encoder-decoder", vocab_size=target.vocab_size, context_length=48, d_model=32,
        n_layers=2, n_heads=4, init_std=0.3, decoder_start=target.end_id,
        source_vocab_size=source.vocab_size if apart else None, **dials,
    )  # fmt: skip
    values = make_config(config, {"pairs": True})
    network = Transformer(config, seed=1)
    with torch.no_grad():  # biases and scales that are not what they begin as
        for weight in network.parameters():
            if weight.dim() == 1:
                weight.add_(
                    torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)) / 5
                )
    save_model(folder, network, target, values, source_tokenizer=source)
    return load_model(folder)


@pytest.mark.parametrize("name", MODELS)
def test_the_library_gives_our_log_probabilities(name: str, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    loaded = translator(tmp_path / "run", **MODELS[name])
    done = convert(tmp_path / "run", tmp_path / "out", "ctranslate2")
    assert done.difference is not None
    assert done.difference < 1e-4
    target, source = out.vocabularies(loaded)
    reader = ctranslate2.Translator(str(tmp_path / "out"), device="cpu", intra_threads=1)
    end = loaded.tokenizer.end_id
    for text, answer in (("the cat sat", "a dog"), ("a mat.", "Vögel on the mat!")):
        read, wanted = loaded.source_tokenizer.encode(text), loaded.tokenizer.encode(answer)
        found = reader.score_batch([[source[i] for i in read]], [[target[i] for i in wanted]])[0]
        with torch.inference_mode():
            logits = loaded.network(
                torch.tensor([[end, *wanted]]),
                source=torch.tensor([[*read, loaded.source_tokenizer.end_id]]),
            )
        expected = logits[0].log_softmax(-1)[range(len(wanted) + 1), [*wanted, end]]
        assert torch.allclose(torch.tensor(found.log_probs), expected, atol=1e-3, rtol=0)


def test_the_files_say_what_the_model_is(tmp_path: Path) -> None:
    loaded = translator(tmp_path / "run", **MODELS["two vocabularies"])
    out.save_ctranslate2(loaded, tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert settings["eos_token"] == settings["decoder_start_token"] == "<end>"
    assert settings["add_source_eos"] is True
    sizes = [
        len(json.loads((tmp_path / "out" / f"{side}_vocabulary.json").read_text()))
        for side in ("source", "target")
    ]
    assert sizes == [loaded.source_tokenizer.vocab_size, loaded.tokenizer.vocab_size]
    with pytest.raises(UserError, match="exists already"):
        out.save_ctranslate2(loaded, tmp_path / "out")


def test_without_the_library_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator(tmp_path / "run", **MODELS["ours"])
    monkeypatch.setattr(out, "has_library", lambda: False)
    done = convert(tmp_path / "run", tmp_path / "out", "ctranslate2")
    assert done.difference is None
    assert "pip install ctranslate2" in done.lines()[-1]


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ({"positions": "rotary"}, "positions = rotary"),
        ({"positions": "sinusoidal", "n_kv_heads": 2}, "n_kv_heads = 2"),
        ({"positions": "sinusoidal", "attention_window": 8}, "attention_window = 8"),
        ({"positions": "sinusoidal", "qk_norm": "head"}, "qk_norm = head"),
        ({"positions": "sinusoidal", "logit_softcap": 9.0}, "logit_softcap = 9"),
        ({"positions": "sinusoidal", "attention_scale": 0.5}, "attention_scale = 0.5"),
    ],
)
def test_dials_without_a_counterpart_are_named(
    dials: dict[str, Any], words: str, tmp_path: Path
) -> None:
    loaded = translator(tmp_path / "run", **dials)
    with pytest.raises(UserError, match=words):
        out.save_ctranslate2(loaded, tmp_path / "out")
    assert not (tmp_path / "out").exists()
