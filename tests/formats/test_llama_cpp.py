"""Files that we write, in llama.cpp itself. Only where llama-cpp-python is installed: it is compiled
on the spot, which takes many minutes, so it is not among the tools that tests install."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_gguf_out import GPT2, LLAMA, SCALINGS, TEXT, run_of_ours

from budgerigar.formats.gguf_out import save_gguf

llama_cpp = pytest.importorskip("llama_cpp")
pytestmark = pytest.mark.slow

SHAPES: dict[str, dict[str, Any]] = {
    "llama": LLAMA | {"n_kv_heads": 2, "tied_embeddings": False},
    "llama with biases": LLAMA | {"qkv_bias": True, "output_bias": True},
    "gpt2": GPT2,
    "gpt2 without biases": GPT2 | {"qkv_bias": False, "output_bias": False, "ff_bias": False},
    **{name: LLAMA | {"rotary_scaling": scaling} for name, scaling in SCALINGS.items()},
}


def _their_logits(llama: Any, ids: list[int]) -> np.ndarray:
    """Logits (V,) after the last token."""
    llama.reset()
    llama.eval(ids)
    found = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
    return np.array(np.ctypeslib.as_array(found, shape=(llama.n_vocab(),)))


@pytest.mark.parametrize("name", SHAPES)
def test_llama_cpp_computes_the_same(tmp_path: Path, name: str) -> None:
    run = run_of_ours(**SHAPES[name])
    save_gguf(run, tmp_path / "out.gguf", "F32")
    llama = llama_cpp.Llama(str(tmp_path / "out.gguf"), n_ctx=64, n_threads=1, verbose=False)
    ids = list(run.tokenizer.encode(TEXT))[:40]
    for n in (1, 7, 40):
        with torch.inference_mode():
            ours = run.network(torch.tensor([ids[:n]]))[0, -1].numpy()
        theirs = _their_logits(llama, ids[:n])
        # llama.cpp's keys and values are float16, its GELU a table of float16
        assert np.abs(ours - theirs).max() < 5e-3 * np.abs(ours).max()


@pytest.mark.parametrize("kind", ["bpe", "byte", "character", "symbols"])
def test_llama_cpp_cuts_texts_the_same(tmp_path: Path, kind: str) -> None:
    run = run_of_ours(kind, **LLAMA)
    save_gguf(run, tmp_path / "out.gguf", "F16")
    llama = llama_cpp.Llama(str(tmp_path / "out.gguf"), n_ctx=64, n_threads=1, verbose=False)
    known = TEXT if kind == "symbols" else TEXT + "Ünseen 音 🦜"
    theirs = llama.tokenize(known.encode(), add_bos=False, special=False)
    assert theirs == list(run.tokenizer.encode(known))
    assert llama.detokenize(theirs).decode() == known
    assert llama.token_eos() == run.tokenizer.end_id
    assert llama.tokenize(b"", add_bos=True) == [run.tokenizer.end_id]
