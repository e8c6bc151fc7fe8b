"""Tiny models of `transformers` as GGUF files, written by the `gguf` package and its table of names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from budgerigar.text.pieces import BYTE_TO_CHARACTER

VOCAB = 259  # 256 bytes, one merge, a start and an end
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def tiny_llama(**changes: Any) -> LlamaForCausalLM:
    """Two layers of grouped attention, with scales of norms that are not 1."""
    settings = {
        "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "rope_theta": 5000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    }  # fmt: skip
    return _random(LlamaForCausalLM(LlamaConfig(**settings | changes)))


def tiny_qwen2(**changes: Any) -> Qwen2ForCausalLM:
    """The same with biases of queries, keys and values."""
    settings = {
        "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "tie_word_embeddings": True,
    }  # fmt: skip
    return _random(Qwen2ForCausalLM(Qwen2Config(**settings | changes)))


def tiny_gpt2(**changes: Any) -> GPT2LMHeadModel:
    """Two layers of GPT-2."""
    settings = {"vocab_size": VOCAB, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
    return _random(GPT2LMHeadModel(GPT2Config(**settings | changes)))


def _random(model: Any) -> Any:
    """Weights large enough that a wrong order shows in the logits."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            draw = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(draw * 0.15 if parameter.dim() > 1 else parameter + draw * 0.1)
    return model.eval()


def tokenizer_metadata() -> dict[str, Any]:
    """A byte-level BPE with one merge, start and end."""
    tokens = [BYTE_TO_CHARACTER[byte] for byte in range(256)] + ["th", "<s>", "<|endoftext|>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 257 + [3, 3],
        "tokenizer.ggml.merges": ["t h"],
        "tokenizer.ggml.bos_token_id": 257,
        "tokenizer.ggml.eos_token_id": 258,
    }


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's order of the rows of queries and keys, from that of `transformers`."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def write_model(
    path: Path,
    model: Any,
    quantise: str | None = None,
    leave_out: tuple[str, ...] = (),
    more: dict[str, np.ndarray] | None = None,
    said: dict[str, Any] | None = None,
) -> dict[str, np.ndarray]:
    """The model as a GGUF file -> the numbers that the file holds, by GGUF's names.

    `quantise`: type of all matrices; `said`: metadata in place of the usual (None: left out).
    """
    kind = model.config.model_type
    writer = gguf.GGUFWriter(path, kind)
    for key, value in (_metadata(model.config, kind) | tokenizer_metadata() | (said or {})).items():
        if value is not None:
            _add(writer, key, value)
    held = {}
    for name, numbers in (_tensors(model, kind) | (more or {})).items():
        if name in leave_out:
            continue
        packed, raw_type = numbers, None
        if quantise and numbers.ndim == 2 and name != "position_embd.weight":
            raw_type = gguf.GGMLQuantizationType[quantise]
            packed = gguf.quantize(numbers, raw_type)
            numbers = gguf.dequantize(packed, raw_type).reshape(numbers.shape)
        writer.add_tensor(name, packed, raw_dtype=raw_type)
        held[name] = numbers
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _metadata(config: Any, kind: str) -> dict[str, Any]:
    if kind == "gpt2":
        values = {
            "context_length": config.n_positions, "embedding_length": config.n_embd,
            "feed_forward_length": 4 * config.n_embd, "block_count": config.n_layer,
            "attention.head_count": config.n_head,
            "attention.layer_norm_epsilon": config.layer_norm_epsilon,
        }  # fmt: skip
    else:
        values = {
            "context_length": config.max_position_embeddings,
            "embedding_length": config.hidden_size, "block_count": config.num_hidden_layers,
            "feed_forward_length": config.intermediate_size,
            "attention.head_count": config.num_attention_heads,
            "attention.head_count_kv": config.num_key_value_heads,
            "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
            "rope.freq_base": config.rope_parameters["rope_theta"],
        }  # fmt: skip
    return {f"{kind}.{key}": value for key, value in values.items()}


def _tensors(model: Any, kind: str) -> dict[str, np.ndarray]:
    """The weights under GGUF's names, in GGUF's layout."""
    config = model.config
    arch = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}[kind]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tied = config.tie_word_embeddings
    found = {}
    for name, weight in model.state_dict().items():
        if (tied and name == "lm_head.weight") or name.endswith(
            (".attn.bias", ".attn.masked_bias")
        ):
            continue
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert theirs is not None, name
        numbers = weight.detach().float().numpy()
        if kind == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            numbers = np.ascontiguousarray(numbers.T)
        if kind == "llama" and ".q_proj." in name:
            numbers = interleave(numbers, config.num_attention_heads)
        if kind == "llama" and ".k_proj." in name:
            numbers = interleave(numbers, config.num_key_value_heads)
        found[theirs] = numbers
    return found
