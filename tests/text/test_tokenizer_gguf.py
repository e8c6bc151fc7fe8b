from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foreign_tokenizers as foreign
import numpy as np
import pytest
from foreign_tokenizers import NASTY
from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Backend

from budgerigar.errors import UserError
from budgerigar.text.imported_tokenizer import ImportedTokenizer, tokenizer_from_gguf
from budgerigar.text.tokenizer import Tokenizer

TEMPLATE = "{{ messages[0].content }}"


def metadata(backend: Backend, pre: str | None = "gpt-2", **more: Any) -> dict[str, Any]:
    """What a GGUF file says of a byte-level BPE tokenizer."""
    vocabulary = backend.get_vocab(with_added_tokens=True)
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    kinds = [3 if token.startswith("<|") else 4 if token == "<tool>" else 1 for token in tokens]
    merges = json.loads(backend.to_str())["model"]["merges"]
    found = {
        "model": "gpt2",
        "tokens": tokens,
        "token_type": np.array(kinds, dtype=np.int32),
        "merges": [" ".join(merge) for merge in merges],
        "bos_token_id": np.uint32(1),
        "eos_token_id": np.uint32(2),
        **({} if pre is None else {"pre": pre}),
        **more,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in found.items()}


# The patterns of the files that llama.cpp's names stand for, as the models' authors write them.
WORDS: dict[str, list[Any]] = {
    "gpt-2": [],
    "smollm": [pre_tokenizers.Digits(individual_digits=True)],
    "llama-bpe": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "qwen2": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
}


@pytest.mark.parametrize("name", WORDS)
def test_ids_are_those_of_the_file_that_the_name_stands_for(tmp_path: Path, name: str) -> None:
    backend = foreign.byte_level(tmp_path)
    steps = [
        pre_tokenizers.Split(Regex(step), "isolated") if isinstance(step, str) else step
        for step in WORDS[name]
    ]
    own = name in ("gpt-2", "smollm")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=own)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*steps, level])
    backend.encode_special_tokens = True
    ours = tokenizer_from_gguf(metadata(backend, name))
    assert ours.lossy == ("loses decomposed letters (e + ́)" if name == "qwen2" else None)
    for text in NASTY:
        if name == "qwen2" and "\u0301" in text:
            continue  # its authors normalise to NFC
        assert ours.encode(text) == backend.encode(text, add_special_tokens=False).ids, text
        assert ours.decode(ours.encode(text)) == text


def test_what_the_metadata_declare(tmp_path: Path) -> None:
    backend = foreign.byte_level(tmp_path)
    values = metadata(backend, eot_token_id=5, add_bos_token=True)
    values["tokenizer.chat_template"] = TEMPLATE
    ours = tokenizer_from_gguf(values)
    assert ours.start_ids == (1,)
    assert ours.end_id == 2
    assert ours.end_ids == {0, 2, 5}  # <|endoftext|> by its name, <|im_end|>, and the turn's end
    assert ours.chat_template == TEMPLATE
    assert ours.names == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    tool = ours.encode("a<tool>b")[1]
    assert ours.token_bytes(tool) == b"<tool>"  # the authors' own word, no special token
    ours.save(tmp_path / "ours")
    loaded = Tokenizer.load(tmp_path / "ours")
    assert isinstance(loaded, ImportedTokenizer)
    assert (loaded.end_ids, loaded.chat_template) == (ours.end_ids, TEMPLATE)


def test_an_unknown_pre_tokenizer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = foreign.byte_level(tmp_path)
    with pytest.raises(UserError, match=r"pre-tokenizer 'tekken'.*Known are gpt-2"):
        tokenizer_from_gguf(metadata(backend, "tekken"))
    tokenizer_from_gguf(metadata(backend, None), "my.gguf")
    assert "my.gguf names no pre-tokenizer" in capsys.readouterr().err


@pytest.mark.parametrize("symbols", [False, True])
def test_sentencepiece_with_scores(tmp_path: Path, symbols: bool) -> None:
    processor = foreign.sentencepiece_model(
        tmp_path / "m.model",
        "bpe",
        byte_fallback=True,
        vocab_size=360,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        **({"user_defined_symbols": ["<tool>"]} if symbols else {}),
    )
    n = processor.vocab_size()
    kinds = [
        2 if processor.is_unknown(i)
        else 3 if processor.is_control(i)
        else 6 if processor.is_byte(i)
        else 4 if processor.id_to_piece(i) == "<tool>"
        else 1
        for i in range(n)
    ]  # fmt: skip
    values = {
        "model": "llama",
        "tokens": [processor.id_to_piece(i) for i in range(n)],
        "scores": np.array([processor.get_score(i) for i in range(n)], dtype=np.float32),
        "token_type": kinds,
    }
    ours = tokenizer_from_gguf({f"tokenizer.ggml.{key}": value for key, value in values.items()})
    assert ours.start_ids == (1,)
    assert ours.end_ids == {2}
    for text in [*NASTY, "x <tool> y"]:
        if "\0" not in text:
            assert ours.encode(text) == processor.encode(text), text
            assert ours.decode(ours.encode(text)) == processor.decode(processor.encode(text))


def test_damaged_metadata_are_an_error(tmp_path: Path) -> None:
    good = metadata(foreign.byte_level(tmp_path))
    bad: list[tuple[dict[str, Any], str]] = [
        ({}, "holds no tokenizer"),
        ({"tokenizer.ggml.model": "rwkv"}, "of kind 'rwkv'"),
        (good | {"tokenizer.ggml.tokens": []}, "no list of tokens"),
        (good | {"tokenizer.ggml.tokens": [1, 2]}, "no list of tokens"),
        (good | {"tokenizer.ggml.token_type": [1]}, "it is damaged"),
        (good | {"tokenizer.ggml.merges": ["a"]}, "a merge that is no pair"),
        (good | {"tokenizer.ggml.merges": ["nobody knows"]}, "which the vocabulary lacks"),
    ]
    for values, words in bad:
        with pytest.raises(UserError, match=words):
            tokenizer_from_gguf(values)
    odd = good | {"tokenizer.ggml.eos_token_id": 10**9, "tokenizer.ggml.bos_token_id": 10**9}
    assert tokenizer_from_gguf(odd).end_id is None
    tokens = [*good["tokenizer.ggml.tokens"], "[PAD]", "[PAD]"]
    padded = good | {"tokenizer.ggml.tokens": tokens}
    padded["tokenizer.ggml.token_type"] = [*good["tokenizer.ggml.token_type"], 5, 5]
    assert tokenizer_from_gguf(padded).vocab_size == len(tokens)


@pytest.mark.parametrize(
    "n", [pytest.param(150, id="few"), pytest.param(2000, id="many", marks=pytest.mark.slow)]
)
def test_changed_metadata_are_read_or_refused(tmp_path: Path, n: int) -> None:
    good = metadata(foreign.byte_level(tmp_path), scores=[0.0] * 421)
    plain = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in good.items()}
    random = np.random.Generator(np.random.PCG64(4))
    refused = 0
    for k in range(n):
        kind = {} if k % 2 else {"tokenizer.ggml.model": "llama"}
        try:
            tokenizer = tokenizer_from_gguf(foreign.damaged(plain | kind, random))
            tokenizer.decode(tokenizer.encode("The <s> budgerigar 虎"))
        except UserError:
            refused += 1
    assert 0 < refused < n
