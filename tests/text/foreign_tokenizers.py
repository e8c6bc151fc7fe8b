"""Tokenizers as others make them, trained here on a few lines and saved in each layout."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Backend

LINES = [
    "The budgerigar has green feathers; it doesn't sing, but the budgerigar likes 1234 seeds.",
    "轩辕有一只虎皮鹦鹉，它有绿色的羽毛。 The capital of France is Paris, isn't it? Café naïve.",
    "  if x == 1:\treturn [x, y]  # ¿qué? user assistant system: im_start im_end",
    "She said: \"We'll see <what> they've got!\" (And so on, 42 times — or 1,000.) ｆｕｌｌ ﬁne",
] * 8
NASTY = [
    "",
    " ",
    "  ",
    "\n",
    "a",
    " a",
    "a ",
    "  The  budgerigar\n\n has\tgreen   feathers ",
    "轩辕有一只虎皮鹦鹉，它有绿色的羽毛。",
    "a 🦜🏳️‍🌈 b 𠮷",
    "café cafe\u0301 ﬁne Ａ ½ İstanbul ẞ",
    "<s> </s> <unk> <pad> [MASK] [CLS] <|im_start|>user <|im_end|> <|endoftext|> <extra_id_0>",
    "<s>", "</s>x", "x<unk>", "<0x0A>", "<0xE8> <0x41>", "▁a ▁▁ Ġa ##ing",
    "\u200b\u2028\x85\x0c\u00a0x\u3000y\ufeff",
    "1234567 x1y2 don't WE'LL they'VE",
    "word" * 40,
    "\0\x01\x7f",
    ">>fra<< hello",
    "a\r\nb\rc",
]  # fmt: skip


def byte_level(folder: Path, pattern: str | None = None, **tokens: str) -> Backend:
    """Byte-level BPE with a chat's special tokens, as tokenizer.json."""
    backend = Backend(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    words = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    backend.pre_tokenizer = pre_tokenizers.Sequence([*words, level])
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(LINES, trainer)
    backend.add_tokens([AddedToken("<tool>", normalized=False)])
    write(folder, backend, {"eos_token": "<|im_end|>", "bos_token": "<|im_start|>", **tokens})
    return backend


def llama_like(folder: Path) -> Backend:
    """BPE over ▁ with bytes for the rest and `<s>` before every text, as Llama 2's tokenizer.json."""
    backend = Backend(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", "<s>", "</s>", *bytes_], show_progress=False
    )
    backend.train_from_iterator(LINES, trainer)
    document = json.loads(backend.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    backend = Backend.from_str(json.dumps(document))
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    write(folder, backend, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    return backend


def bert_like(folder: Path, lowercase: bool = True) -> Backend:
    """WordPiece, as vocab.txt (and the backend that made it)."""
    backend = Backend(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    backend.train_from_iterator(LINES, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = backend.get_vocab()
    lines = sorted(vocabulary, key=vocabulary.__getitem__)
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": lowercase}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return backend


def two_files(folder: Path) -> Backend:
    """GPT-2's vocab.json and merges.txt."""
    backend = byte_level(folder)
    backend.model.save(str(folder))
    (folder / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "GPT2Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return backend


def sentencepiece_model(path: Path, kind: str, **settings: Any) -> Any:
    """A SentencePiece model of kind "bpe" or "unigram" at `path`, and its processor."""
    import sentencepiece

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=made,
        model_type=kind,
        **{"vocab_size": 340 if settings.get("byte_fallback") else 110, "minloglevel": 2}
        | {"num_threads": 1, "hard_vocab_limit": False}
        | settings,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())


def write(folder: Path, backend: Backend, settings: dict[str, Any]) -> None:
    """tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def damaged(value: Any, random: np.random.Generator) -> Any:
    """A JSON value with one part of it replaced, left out or repeated."""
    strange = [None, -1, 10**12, 1.5, "", "x" * 50, [], {}, True, [["a"]], {"type": "Sequence"}]
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = list(value)[random.integers(len(value))]
        changed = dict(value)
        if random.random() < 0.1:
            del changed[key]
        else:
            changed[key] = damaged(value[key], random)
        return changed
    if isinstance(value, list) and value and random.random() < 0.9:
        at = random.integers(len(value))
        again = [value[at]] if random.random() < 0.1 else []
        return [*value[:at], damaged(value[at], random), *again, *value[at + 1 :]]
    return strange[random.integers(len(strange))]
