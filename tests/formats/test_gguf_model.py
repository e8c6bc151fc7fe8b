"""Models out of GGUF files, against `transformers` and the `gguf` package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf_models import LLAMA3, interleave, tiny_gpt2, tiny_llama, tiny_qwen2, write_model
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.gguf_model import describe_gguf, load_gguf
from budgerigar.formats.run import load_model, save_model
from budgerigar.layers.packed_linear import PackedEmbedding, PackedLinear

MODELS: dict[str, Callable[[], Any]] = {
    "llama": tiny_llama,
    "llama tied": lambda: tiny_llama(tie_word_embeddings=True),
    "llama biased": lambda: tiny_llama(attention_bias=True, mlp_bias=True),
    "llama wide heads": lambda: tiny_llama(head_dim=32),
    "qwen2": tiny_qwen2,
    "qwen2 untied": lambda: tiny_qwen2(tie_word_embeddings=False),
    "gpt2": tiny_gpt2,
}


def _close(ours: Tensor, theirs: Tensor, relative: float = 1e-4) -> None:
    assert ((ours - theirs).abs().max() / theirs.abs().max()).item() < relative


def _ids(n: int = 24) -> Tensor:
    return torch.randint(0, 256, (2, n), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_greedy_tokens_equal_those_of_transformers(tmp_path: Path, name: str) -> None:
    model = MODELS[name]()
    width = {"llama.attention.key_length": 32, "llama.attention.value_length": 32}
    write_model(tmp_path / "tiny.gguf", model, said=width if "wide" in name else {})
    loaded = load_gguf(tmp_path / "tiny.gguf")
    network, ids = loaded.network, _ids()
    with torch.inference_mode():
        _close(network(ids), model(ids).logits)
        theirs = model.generate(
            ids[:1], max_new_tokens=64, do_sample=False, pad_token_id=0, eos_token_id=None
        )[0, 24:]
        logits, state = network.step(ids[:1], network.start(1))
        for wanted in theirs:
            assert int(logits.argmax()) == int(wanted)
            logits, state = network.step(wanted.view(1, 1), state)
    assert len(loaded.report.entries) == len(list(network.parameters()))


@pytest.mark.parametrize("name", ["llama", "llama tied", "qwen2", "gpt2"])
@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_quantised_models_compute_with_the_files_own_numbers(
    tmp_path: Path, name: str, kind: str
) -> None:
    model = MODELS[name]()
    held = write_model(tmp_path / "tiny.gguf", model, quantise=kind)
    _put_back(model, held)
    loaded, dense = (load_gguf(tmp_path / "tiny.gguf", packed=p) for p in (True, False))
    packed = [m for m in loaded.network.modules() if isinstance(m, PackedLinear | PackedEmbedding)]
    assert len(packed) == {"gpt2": 13}.get(name, 15)
    ids = _ids()
    with torch.inference_mode():
        theirs = model(ids).logits
        _close(loaded.network(ids), theirs, 1e-5)
        _close(dense.network(ids), theirs, 1e-5)
        # the promise of the cache: any cutting of a text gives the same logits
        state, rows = loaded.network.start(2), []
        for piece in (ids[:, :7], *ids[:, 7:10].split(1, dim=1), ids[:, 10:]):
            logits, state = loaded.network.step(piece, state, all_positions=True)
            rows.append(logits)
        _close(torch.cat(rows, dim=1), theirs, 1e-5)
    assert "kept packed" in loaded.report.text()


def _put_back(model: Any, held: dict[str, np.ndarray]) -> None:
    """Give a model of transformers the numbers that its file holds."""
    config = model.config
    kind = config.model_type
    arch = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}[kind]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    heads = {".q_proj.": config.num_attention_heads}
    heads[".k_proj."] = getattr(config, "num_key_value_heads", 0)
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            numbers = held.get(names.get_name(name, try_suffixes=(".weight", ".bias")) or "")
            if numbers is None:
                continue
            if kind == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
                numbers = numbers.T
            for part, n in heads.items():
                if kind == "llama" and part in name:  # the row that came from row i goes back to i
                    order = interleave(np.arange(len(numbers)), n)
                    back = np.empty_like(numbers)
                    back[order] = numbers
                    numbers = back
            weight.copy_(torch.from_numpy(np.ascontiguousarray(numbers)))


def test_a_packed_model_is_saved_as_a_run_of_float32_numbers(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", tiny_llama(), quantise="Q4_1")
    loaded = load_gguf(tmp_path / "tiny.gguf")
    save_model(tmp_path / "run", loaded.network, loaded.tokenizer, loaded.config)
    again = load_model(tmp_path / "run")
    with torch.inference_mode():
        _close(again.network(_ids()), loaded.network(_ids()), 1e-5)
    assert any(isinstance(m, PackedLinear) for m in loaded.network.modules())  # itself unchanged
    assert again.tokenizer.encode("the") == loaded.tokenizer.encode("the")


def test_llama_3s_scaling_is_known_by_its_divisors(tmp_path: Path) -> None:
    model = tiny_llama(rope_scaling=LLAMA3 | {"rope_theta": 5000.0}, max_position_embeddings=32768)
    plain = 5000.0 ** -(np.arange(0, 16, 2) / 16)
    divisors = (plain / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
    assert divisors.max() == 4
    write_model(tmp_path / "tiny.gguf", model, more={"rope_freqs.weight": divisors})
    loaded = load_gguf(tmp_path / "tiny.gguf")
    scaling = loaded.network.config.rotary_scaling
    assert (scaling.kind, scaling.factor, scaling.original_context_length) == ("llama3", 4.0, 8192)
    with torch.inference_mode():
        _close(loaded.network(_ids()), model(_ids()).logits)
    # divisors that are nobody's formula are taken as they are
    odd = np.linspace(1, 2, 8).astype(np.float32)
    write_model(tmp_path / "odd.gguf", model, more={"rope_freqs.weight": odd})
    with torch.no_grad():
        model.model.rotary_emb.inv_freq.copy_(torch.from_numpy(plain / odd))
    with torch.inference_mode():
        _close(load_gguf(tmp_path / "odd.gguf").network(_ids()), model(_ids()).logits)


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_rotary_scaling_by_metadata(tmp_path: Path, kind: str) -> None:
    scaling = {"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 32}
    model = tiny_llama(rope_scaling=scaling | {"rope_theta": 5000.0})
    said: dict[str, Any] = {
        "llama.rope.scaling.type": kind,
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 32,
    }
    write_model(tmp_path / "tiny.gguf", model, said=said)
    with torch.inference_mode():
        _close(load_gguf(tmp_path / "tiny.gguf").network(_ids()), model(_ids()).logits)


def test_the_tokenizer_and_the_settings_come_along(tmp_path: Path) -> None:
    said = {"general.name": "Tiny", "general.license": "mit", "llama.new.dial": 3}
    write_model(tmp_path / "tiny.gguf", tiny_llama(), quantise="Q8_0", said=said)
    loaded = load_gguf(tmp_path / "tiny.gguf")
    assert loaded.tokenizer.encode("the") == [256, 101]
    assert loaded.tokenizer.decode([256, 101]) == "the"
    assert 258 in loaded.tokenizer.end_ids
    imported = loaded.config["imported"]
    assert (imported["name"], imported["license"]) == ("Tiny", "mit")
    assert set(imported["stored"]) == {"F32", "Q8_0"}
    assert "new.dial" in loaded.report.text()


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "missing": (
        "blk.1.ffn_up.weight is missing.*\n.*stray .* not part",
        {"leave_out": ("blk.1.ffn_up.weight",), "more": {"stray": np.ones(4, np.float32)}},
    ),
    "shape": (
        r"output_norm.weight is \(3,\), not \(64,\)",
        {"more": {"output_norm.weight": np.ones(3, np.float32)}},
    ),
    "heads": ("attention.head_count is missing", {"said": {"llama.attention.head_count": None}}),
    "word": ("block_count = 'two'", {"said": {"llama.block_count": "two"}}),
    "depth": ("block_count = 4,000,000,000", {"said": {"llama.block_count": 4_000_000_000}}),
    "width": (
        "tiny.gguf.*\n.*embedding_length",
        {"said": {"llama.embedding_length": 4_000_000_000}},
    ),
    "key": ("key_length = 4,000,000", {"said": {"llama.attention.key_length": 4_000_000_000}}),
    "experts": ("expert_count = 8", {"said": {"llama.expert_count": 8}}),
    "scaling": ("scaling.type = 'longrope'", {"said": {"llama.rope.scaling.type": "longrope"}}),
    "architecture": ("architecture 'mamba'", {"said": {"general.architecture": "mamba"}}),
    "adapter": ("holds a adapter", {"said": {"general.type": "adapter"}}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_told(tmp_path: Path, name: str) -> None:
    words, changes = WRONG[name]
    write_model(tmp_path / "tiny.gguf", tiny_llama(), **changes)
    with pytest.raises(UserError, match="(?s)" + words):
        load_gguf(tmp_path / "tiny.gguf")


def test_a_scale_that_is_no_number_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", tiny_llama(), quantise="Q8_0")
    path = tmp_path / "tiny.gguf"
    entry = describe_gguf(path).file.entries["blk.0.attn_v.weight"]
    data = bytearray(path.read_bytes())
    data[entry.offset : entry.offset + 2] = np.array([np.nan], np.float16).tobytes()
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"blk.0.attn_v.weight holds numbers that are infinite"):
        load_gguf(path)


def test_100_mutated_models(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", tiny_llama(), quantise="Q8_0")
    good = (tmp_path / "tiny.gguf").read_bytes()
    header = min(e.offset for e in describe_gguf(tmp_path / "tiny.gguf").file.entries.values())
    rng, refused = np.random.default_rng(0), 0
    for _ in range(100):  # in the dials, or in the tensors' places and their first scales
        data = bytearray(good)
        first, last = (20, 700) if rng.random() < 0.5 else (header - 2500, header + 3000)
        data[rng.integers(first, last)] ^= 1 << int(rng.integers(0, 8))
        (tmp_path / "bad.gguf").write_bytes(data)
        try:
            load_gguf(tmp_path / "bad.gguf")
        except UserError:
            refused += 1
    assert refused > 50
