"""llama2.c's files, written here byte by byte as its exporter does, against `transformers`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf_models import interleave, tiny_llama

from budgerigar.errors import UserError
from budgerigar.formats.llama2c import MAGIC, load_llama2c, read_header

VOCAB = 266
WORDS = ["▁", "t", "h", "e", "▁t", "he", "▁the"]


def write_file(path: Path, model: Any, version: int) -> None:
    """A Llama of `transformers` as a file, in the order of llama2.c's `export.py`."""
    c, state = model.config, {k: v.float().numpy() for k, v in model.state_dict().items()}
    shared = c.tie_word_embeddings
    vocab = c.vocab_size if version or shared else -c.vocab_size
    sizes = (
        c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.num_attention_heads,
        c.num_key_value_heads, vocab, c.max_position_embeddings,
    )  # fmt: skip
    head = struct.pack("<7i", *sizes)
    if version:
        head = (MAGIC + struct.pack("<i", version) + head + bytes([shared])).ljust(256, b"\0")

    def each(name: str, heads: int = 0) -> list[np.ndarray]:
        found = [state[f"model.layers.{i}.{name}.weight"] for i in range(c.num_hidden_layers)]
        return [interleave(one, heads) for one in found] if heads else found

    norms = each("input_layernorm"), each("post_attention_layernorm")
    attention = [
        *each("self_attn.q_proj", c.num_attention_heads),
        *each("self_attn.k_proj", c.num_key_value_heads),
        *each("self_attn.v_proj"),
        *each("self_attn.o_proj"),
    ]
    feed_forward = [*each("mlp.gate_proj"), *each("mlp.down_proj"), *each("mlp.up_proj")]
    embedding, final = [state["model.embed_tokens.weight"]], [state["model.norm.weight"]]
    output = [] if shared else [state["lm_head.weight"]]
    if version:
        order = [*norms[0], *norms[1], *final, *embedding, *attention, *feed_forward, *output]
    else:
        turns = [np.zeros((c.max_position_embeddings, 8))] * 2
        order = [
            *embedding,
            *norms[0],
            *attention,
            *norms[1],
            *feed_forward,
            *final,
            *turns,
            *output,
        ]
    path.write_bytes(head + b"".join(np.asarray(x, "<f4").tobytes() for x in order))
    write_vocabulary(path.with_name("tokenizer.bin"))


def write_vocabulary(path: Path, old: bool = False) -> None:
    """Special tokens, 256 bytes, seven pieces; `old`: bytes as characters, as it was at first."""
    tokens = ["<unk>", "\n<s>\n", "\n</s>\n"]
    tokens += [chr(byte) if old else f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [word.replace("▁", " ") for word in WORDS]
    scores = [0.0] * 259 + [-float(i) for i in range(len(WORDS))]
    raw = struct.pack("<I", 7)
    for token, score in zip(tokens, scores, strict=True):
        raw += struct.pack("<fI", score, len(token.encode())) + token.encode()
    path.write_bytes(raw)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_those_of_transformers(tmp_path: Path, version: int, tied: bool) -> None:
    model = tiny_llama(vocab_size=VOCAB, tie_word_embeddings=tied, rope_theta=10_000.0)
    write_file(tmp_path / "tiny.bin", model, version)
    loaded = load_llama2c(tmp_path / "tiny.bin")
    ids = torch.randint(0, VOCAB, (2, 20))
    with torch.inference_mode():
        ours, theirs = loaded.network(ids), model(ids).logits
    assert ((ours - theirs).abs().max() / theirs.abs().max()).item() < 1e-4
    assert "rotary base" in loaded.report.text()
    assert "interleaved to half-split" in loaded.report.text()


@pytest.mark.parametrize("old", [True, False])
def test_the_vocabulary_beside_it(tmp_path: Path, old: bool) -> None:
    write_file(tmp_path / "tiny.bin", tiny_llama(vocab_size=VOCAB), 1)
    write_vocabulary(tmp_path / "tokenizer.bin", old)
    tokenizer = load_llama2c(tmp_path / "tiny.bin").tokenizer
    assert tokenizer.encode("the") == [265]
    assert tokenizer.decode([265, 3 + ord("\n")]) == "the\n"
    assert set(tokenizer.end_ids) == {1, 2}


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tiny.bin"
    write_file(path, tiny_llama(vocab_size=VOCAB), 1)
    good = path.read_bytes()
    cases = {
        "version 2": MAGIC + struct.pack("<i", 2) + good[8:],
        "cut short": good[:-4],
        "header says d_model -5": good[:8] + struct.pack("<i", -5) + good[12:],
        "bytes, and it has": good[:16] + struct.pack("<i", 1 << 29) + good[20:],
    }
    for words, data in cases.items():
        path.write_bytes(data)
        with pytest.raises(UserError, match=words):
            load_llama2c(path)
    path.write_bytes(good[28:])
    assert read_header(path) is None
    with pytest.raises(UserError, match=r"no model of llama2\.c"):
        load_llama2c(path)
    path.write_bytes(good)
    (tmp_path / "tokenizer.bin").write_bytes(b"\0" * 400)
    with pytest.raises(UserError, match="49 tokens and the model knows 266"):
        load_llama2c(path)
    (tmp_path / "tokenizer.bin").write_bytes(b"\0" * 4 + struct.pack("<fI", 0.0, 1 << 31))
    with pytest.raises(UserError, match="token 0 would be 2,147,483,648 bytes"):
        load_llama2c(path)
    (tmp_path / "tokenizer.bin").unlink()
    with pytest.raises(UserError, match=r"has no tokenizer\.bin or tok266\.bin"):
        load_llama2c(path)
