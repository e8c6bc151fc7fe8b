"""Models written as GGUF files: read again by us and by the `gguf` package, equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf.gguf_reader import GGUFReader
from gguf_models import tiny_llama, write_model

from budgerigar.errors import UserError
from budgerigar.formats.gguf_model import load_gguf
from budgerigar.formats.gguf_out import save_gguf
from budgerigar.formats.gguf_tokenizer import tokenizer_metadata
from budgerigar.formats.run import Loaded, make_config
from budgerigar.layers.config import RotaryScaling, TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.imported_tokenizer import tokenizer_from_gguf
from budgerigar.text.tokenizers import train_tokenizer

TEXT = (
    "Xuanyuan has a budgerigar ; it has green feathers . It doesn't fly far.\n轩辕有一只虎皮鹦鹉。"
    "  He's seen 12 of them, or 345!\n\n\tnaïve café — “quoted”, 100%.\n"
) * 8

LLAMA: dict[str, Any] = {
    "positions": "rotary", "norm": "rms", "norm_bias": False, "activation": "swiglu",
    "qkv_bias": False, "output_bias": False, "ff_bias": False, "norm_epsilon": 1e-6,
}  # fmt: skip
GPT2: dict[str, Any] = {"positions": "learned", "activation": "gelu-tanh"}
SCALINGS = {
    "linear": RotaryScaling("linear", 2.0, 32),
    "yarn": RotaryScaling("yarn", 4.0, 16, attention_factor=1.3),
    "llama3": RotaryScaling("llama3", 8.0, 8192),
    "llama3 of a short context": RotaryScaling("llama3", 8.0, 16),
    "longrope": RotaryScaling(
        "longrope", 1.0, 32, 1.0, short_factors=(1.0,) * 8, long_factors=(1.0, 2.0) * 4
    ),
}
SHAPES: dict[str, dict[str, Any]] = {
    "llama": LLAMA | {"n_kv_heads": 2, "tied_embeddings": False},
    "llama with biases": LLAMA | {"qkv_bias": True, "ff_bias": True, "d_head": 32},
    "llama without norm weights": LLAMA | {"norm_weight": False},
    "gpt2": GPT2,
    "gpt2 without biases": GPT2
    | {"norm_bias": False, "qkv_bias": False, "output_bias": False, "ff_bias": False},
    "gpt2 untied": GPT2 | {"tied_embeddings": False},
    **{name: LLAMA | {"rotary_scaling": scaling} for name, scaling in SCALINGS.items()},
}


def run_of_ours(kind: str = "bpe", end: bool = True, **dials: Any) -> Loaded:
    """A model of ours with random weights and a tokenizer of that kind, as if it had been loaded."""
    tokenizer = train_tokenizer([TEXT], kind, end=end)
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, context_length=64, d_model=64, n_layers=2, **dials
    )
    network = Transformer(config, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    settings = make_config(config, {"documents": "blank-lines"})
    return Loaded(network, tokenizer, settings, None, Path("runs/tiny"))


def _relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_written_is_read_again_equal(tmp_path: Path, name: str) -> None:
    run = run_of_ours(**SHAPES[name])
    written = save_gguf(run, tmp_path / "out.gguf", "F32")
    assert written.architecture == name.split()[0] or name in SCALINGS
    loaded = load_gguf(tmp_path / "out.gguf")
    ids = torch.randint(0, run.network.config.vocab_size, (2, 40))
    with torch.inference_mode():
        assert _relative(loaded.network(ids), run.network(ids)) < 1e-5
    assert list(loaded.tokenizer.encode(TEXT)) == list(run.tokenizer.encode(TEXT))
    assert loaded.tokenizer.start_ids == (run.tokenizer.end_id,)
    assert run.tokenizer.end_id in loaded.tokenizer.end_ids
    names = {tensor.name for tensor in GGUFReader(tmp_path / "out.gguf").tensors}
    assert ("rope_freqs.weight" in names) == name.startswith(("llama3", "longrope"))


@pytest.mark.parametrize(("kind", "near"), [("F16", 2e-3), ("Q8_0", 5e-2)])
def test_smaller_numbers(tmp_path: Path, kind: str, near: float) -> None:
    run = run_of_ours(**SHAPES["llama"], d_ff=96)
    written = save_gguf(run, tmp_path / "out.gguf", kind)
    assert set(written.stored) == {"F32", kind}
    loaded = load_gguf(tmp_path / "out.gguf")
    ids = torch.randint(0, 256, (2, 40))
    with torch.inference_mode():
        assert 0 < _relative(loaded.network(ids), run.network(ids)) < near
    for tensor in GGUFReader(tmp_path / "out.gguf").tensors:
        assert tensor.tensor_type.name == (kind if tensor.n_elements > 64 else "F32")


def test_rows_that_blocks_do_not_divide_are_float16(tmp_path: Path) -> None:
    run = run_of_ours(**SHAPES["llama"] | {"d_ff": 72})
    written = save_gguf(run, tmp_path / "out.gguf", "Q8_0")
    assert written.stored["F16"] == 2 * 64 * 72
    load_gguf(tmp_path / "out.gguf")


@pytest.mark.parametrize("kind", ["bpe", "byte", "character", "symbols"])
def test_tokenizers_give_the_same_ids(kind: str) -> None:
    tokenizer = train_tokenizer([TEXT], kind, end=True)
    metadata, notes = tokenizer_metadata(tokenizer, starts_documents=True)
    back = tokenizer_from_gguf(metadata)
    known = TEXT if kind == "symbols" else TEXT + "Ünseen 音 🦜"
    assert list(back.encode(known)) == list(tokenizer.encode(known))
    assert back.decode(back.encode(known)) == known
    assert bool(notes) == (kind in ("bpe", "symbols"))


def test_an_imported_tokenizer_comes_out_as_it_went_in(tmp_path: Path) -> None:
    write_model(tmp_path / "in.gguf", tiny_llama(), quantise="Q8_0")
    loaded = load_gguf(tmp_path / "in.gguf")
    save_gguf(loaded, tmp_path / "out.gguf", "Q8_0")
    again = load_gguf(tmp_path / "out.gguf")
    assert again.tokenizer.encode("the cat's 1234") == loaded.tokenizer.encode("the cat's 1234")
    assert again.tokenizer.end_ids == loaded.tokenizer.end_ids
    ids = torch.randint(0, 256, (1, 30))
    with torch.inference_mode():  # the scales of blocks that were Q8_0 already are found again
        assert _relative(again.network(ids), loaded.network(ids)) < 1e-3


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "dials": ("activation = squared-relu", LLAMA | {"activation": "squared-relu"}),
    "norm": ("qk_norm = head", LLAMA | {"qk_norm": "head"}),
    "window": ("attention_window", LLAMA | {"attention_window": 16}),
    "encoder": ("encoder-only", {"assembly": "encoder-only"}),
    "tokenizer": ("kind word has no counterpart", LLAMA | {"kind": "word"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_counterpart_is_named(tmp_path: Path, name: str) -> None:
    words, dials = WRONG[name]
    with pytest.raises(UserError, match=words):
        save_gguf(run_of_ours(**dials), tmp_path / "out.gguf")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out.gguf").write_bytes(b"precious")
    with pytest.raises(UserError, match="exists already"):
        save_gguf(run_of_ours(**LLAMA), tmp_path / "out.gguf")
    with pytest.raises(UserError, match="'Q3_K' is none"):
        save_gguf(run_of_ours(**LLAMA), tmp_path / "other.gguf", "Q3_K")


def test_metadata_as_the_gguf_package_reads_them(tmp_path: Path) -> None:
    save_gguf(run_of_ours(**SHAPES["llama"]), tmp_path / "out.gguf")
    fields = GGUFReader(tmp_path / "out.gguf").fields
    assert fields["general.architecture"].contents() == "llama"
    assert fields["llama.attention.head_count_kv"].contents() == 2
    np.testing.assert_allclose(
        fields["llama.attention.layer_norm_rms_epsilon"].contents(), 1e-6, rtol=1e-6
    )
