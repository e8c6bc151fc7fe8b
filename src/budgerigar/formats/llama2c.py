"""llama2.c's `.bin` files (Karpathy 2023), of version 0 (the legacy one) and 1, all float32.

Version 0: seven int32 (d_model, d_ff, layers, heads, key-value heads, vocabulary, context; a negative
vocabulary: the head has a matrix of its own), then the weights, kind by kind over all layers, and
among them a table of the rotary turns. Version 1: "24ka", the version, the same seven, whether the
head is shared, zeros up to byte 256, then the norms and the matrices. Queries and keys stand in
interleaved order. Neither says the rotary base; the program has 10,000. The vocabulary lies beside
it in a file of its own, tokenizer.bin.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.families.family import table
from budgerigar.formats.load_report import LoadReport
from budgerigar.formats.run import Loaded, make_config
from budgerigar.formats.weight_rules import AS_IS, Interleaved, Rule, fill
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer

MAGIC = struct.pack("<I", 0x616B3432)
_FIELDS = ("d_model", "d_ff", "layers", "heads", "key-value heads", "vocabulary", "context")
_MOST = 1 << 30  # of any of them
_MOST_TOKEN_BYTES = 1 << 10
_NORMS = ("attention_norm", "ffn_norm")
_ATTENTION = ("attention.wq", "attention.wk", "attention.wv", "attention.wo")
_FEED_FORWARD = ("feed_forward.w1", "feed_forward.w2", "feed_forward.w3")

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """The numbers at the front of a file."""

    version: int
    d_model: int
    d_ff: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    context_length: int
    shared: bool
    """the head uses the embedding's matrix"""

    @property
    def config(self) -> TransformerConfig:
        """Our dials for it."""
        return TransformerConfig(
            vocab_size=self.vocab_size,
            context_length=self.context_length,
            d_model=self.d_model,
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads,
            d_ff=self.d_ff,
            activation="swiglu",
            norm="rms",
            norm_bias=False,
            norm_epsilon=1e-5,
            qkv_bias=False,
            output_bias=False,
            ff_bias=False,
            tied_embeddings=self.shared,
            initialisation="normal",
        )

    def layout(self) -> list[tuple[str, Shape]]:
        """Names and shapes in the order of the file; "" is what carries nothing."""
        one, keys = self.d_model, self.d_model // self.n_heads * self.n_kv_heads
        shapes: dict[str, Shape] = {
            **dict.fromkeys(_NORMS, (one,)),
            **dict.fromkeys(_ATTENTION, (one, one)),
            "attention.wk": (keys, one),
            "attention.wv": (keys, one),
            **dict.fromkeys(_FEED_FORWARD, (self.d_ff, one)),
            "feed_forward.w2": (one, self.d_ff),
        }

        def layers(*kinds: str) -> list[tuple[str, Shape]]:
            depth = range(self.n_layers)
            return [(f"layers.{i}.{kind}.weight", shapes[kind]) for kind in kinds for i in depth]

        embedding = [("tok_embeddings.weight", (self.vocab_size, one))]
        head = [] if self.shared else [("output.weight", (self.vocab_size, one))]
        final = [("norm.weight", (one,))]
        if self.version:
            first = [*layers(*_NORMS), *final, *embedding]
            return [*first, *layers(*_ATTENTION, *_FEED_FORWARD), *head]
        turns = [("", (self.context_length, one // self.n_heads // 2))] * 2  # cosines, sines
        first = [*embedding, *layers(_NORMS[0], *_ATTENTION, _NORMS[1], *_FEED_FORWARD)]
        return [*first, *final, *turns, *head]

    @property
    def n_bytes(self) -> int:
        """Bytes of a whole file."""
        one, keys = self.d_model, self.d_model // self.n_heads * self.n_kv_heads
        layer = 2 * one + 2 * one * one + 2 * keys * one + 3 * one * self.d_ff
        values = self.n_layers * layer + one + self.vocab_size * one * (1 if self.shared else 2)
        if self.version:
            return 256 + 4 * values
        return 28 + 4 * (values + self.context_length * (one // self.n_heads // 2) * 2)


def read_header(path: str | Path) -> Header | None:
    """The header of a file; None where it is not one of llama2.c's.

    Raises:
        UserError: it is one, of a version that is not read, damaged or cut short.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    named = head.startswith(MAGIC)
    if len(head) < (256 if named else 28):
        return None
    version = struct.unpack_from("<i", head, 4)[0] if named else 0
    if named and version != 1:
        raise UserError(
            f"{path} has version {version} of llama2.c's format; versions 0 and 1 (float32) are read. "
            "Export the model again with --version 1."
        )
    numbers = struct.unpack_from("<7i", head, 8 if named else 0)
    shared = bool(head[36]) if named else numbers[5] > 0
    sizes = (*numbers[:5], abs(numbers[5]), numbers[6])
    sane = all(0 < number <= _MOST for number in sizes)
    sane = sane and sizes[0] % sizes[3] == 0 and sizes[3] % sizes[4] == 0
    header = Header(version, *sizes, shared) if sane else None  # type: ignore[call-arg]
    if not named:  # nothing but the sizes tells such a file from any other
        return header if header is not None and header.n_bytes == size else None
    if header is None:
        listed = ", ".join(f"{name} {number}" for name, number in zip(_FIELDS, sizes, strict=True))
        raise UserError(f"{path} is damaged: its header says {listed}.")
    if header.n_bytes != size:
        raise UserError(
            f"{path} is damaged or was cut short: the model of its header takes {header.n_bytes:,} "
            f"bytes, and it has {size:,}."
        )
    return header


class Llama2cFile:
    """The tensors of a file, mapped into memory: a source for `weight_rules.fill`."""

    def __init__(self, path: str | Path, header: Header) -> None:
        self.path = Path(path)
        with self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != header.n_bytes:
                raise UserError(f"{path} has changed while it was read.")
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._places: dict[str, tuple[int, Shape]] = {}
        place = 256 if header.version else 28
        for name, shape in header.layout():
            if name:
                self._places[name] = place, shape
            place += 4 * math.prod(shape)
        assert place == header.n_bytes

    @property
    def where(self) -> str:
        """The file, for messages."""
        return str(self.path)

    def names(self) -> Iterable[str]:
        """All tensors' names."""
        return self._places.keys()

    def shape(self, name: str) -> Shape:
        """Its shape."""
        return self._places[name][1]

    def dtype(self, name: str) -> str:
        """F32, all of them."""
        return "F32"

    def get(self, name: str) -> Tensor:
        """The tensor, where the file is mapped."""
        place, shape = self._places[name]
        values = np.frombuffer(self._bytes, "<f4", math.prod(shape), place)
        return torch.from_numpy(np.require(values, np.float32, "A").reshape(shape))


def rules(config: TransformerConfig) -> list[Rule]:
    """A rule for each weight."""
    found = [table("embedding.tokens.weight", ("tok_embeddings.weight",))]
    found.append(Rule("decoder.final_norm.weight", ("norm.weight",)))
    if not config.tied_embeddings:
        found.append(table("head.weight", ("output.weight",)))
    queries, keys = Interleaved(config.n_heads), Interleaved(config.kv_heads)
    for layer in range(config.n_layers):
        for ours, theirs, transform in (
            ("attention_norm", "attention_norm", AS_IS),
            ("feed_forward_norm", "ffn_norm", AS_IS),
            ("self_attention.query", "attention.wq", queries),
            ("self_attention.key", "attention.wk", keys),
            ("self_attention.value", "attention.wv", AS_IS),
            ("self_attention.output", "attention.wo", AS_IS),
            ("feed_forward.gate", "feed_forward.w1", AS_IS),
            ("feed_forward.down", "feed_forward.w2", AS_IS),
            ("feed_forward.up", "feed_forward.w3", AS_IS),
        ):
            name = f"layers.{layer}.{theirs}.weight"
            found.append(Rule(f"decoder.{layer}.{ours}.weight", (name,), transform))
    return found


def load_llama2c(path: str | Path, device: str = "cpu") -> Loaded:
    """The model of a llama2.c file, with the vocabulary that lies beside it.

    Raises:
        UserError: it is none, is damaged, or has no tokenizer.bin beside it.
    """
    header = read_header(path)
    if header is None:
        raise UserError(f"{path} is no model of llama2.c: its size and its header do not fit.")
    tokenizer = tokenizer_beside(path, header)
    network, report = load_weights(path, header)
    imported = {
        "form": "llama2.c file",
        "family": "llama",
        "architecture": f"llama2.c version {header.version}",
        "stored": {"F32": sum(p.numel() for p in network.parameters())},
    }
    config = make_config(header.config, {"documents": "none"}, imported=imported)
    return Loaded(network.to(device), tokenizer, config, None, Path(path), None, report)


def load_weights(path: str | Path, header: Header) -> tuple[Transformer, LoadReport]:
    """The network, filled, and what filled it."""
    config = header.config.validate()
    network = Transformer.unfilled(config)
    report = fill(network, rules(config), Llama2cFile(path, header))
    report.remarks.append(
        "the format does not say the rotary base; 10,000 is taken, as llama2.c does"
    )
    return network.eval(), report


# -- the vocabulary --------------------------------------------------------------------------------
def tokenizer_beside(path: str | Path, header: Header) -> Any:
    """The tokenizer of the file that lies beside a model's.

    Raises:
        UserError: there is none, it is damaged, or of another model.
    """
    from budgerigar.text.imported_tokenizer import tokenizer_from_gguf

    metadata = read_vocabulary(_vocabulary_of(Path(path), header.vocab_size), header.vocab_size)
    return tokenizer_from_gguf(metadata, str(path))


def _vocabulary_of(path: Path, vocab_size: int) -> Path:
    names = ("tokenizer.bin", f"tok{vocab_size}.bin")
    for name in names:
        if path.with_name(name).is_file():
            return path.with_name(name)
    raise UserError(
        f"{path.parent} has no {' or '.join(names)}: llama2.c keeps a model's vocabulary in that file. "
        f"Put the one that belongs to {path.name} beside it."
    )


def read_vocabulary(path: Path, vocab_size: int) -> dict[str, Any]:
    """A tokenizer.bin as the metadata of a SentencePiece vocabulary.

    The longest token (uint32), then of each its score (float32), length (uint32) and bytes.
    """
    data = path.read_bytes()
    place, tokens, scores = 4, list[str](), list[float]()
    while len(tokens) < vocab_size:
        if place + 8 > len(data):
            raise UserError(
                f"{path} holds {len(tokens):,} tokens and the model knows {vocab_size:,}: it is of "
                "another model, or damaged."
            )
        score, length = struct.unpack_from("<fI", data, place)
        raw = data[place + 8 : place + 8 + length]
        if length > _MOST_TOKEN_BYTES or len(raw) < length:
            raise UserError(
                f"{path} is damaged: token {len(tokens)} would be {length:,} bytes long."
            )
        tokens.append(raw.decode("utf-8", errors="replace"))
        scores.append(score)
        place += 8 + length
    return _metadata(tokens, scores)


def _metadata(tokens: list[str], scores: list[float]) -> dict[str, Any]:
    """As SentencePiece has them: ids 0 to 2 are special, then come the 256 bytes, spaces are "▁"."""
    pieces, kinds = [], []
    for i, token in enumerate(tokens):
        byte = f"<0x{i - 3:02X}>" if 3 <= i < 259 else ""
        if i < 3:
            pieces.append(("<unk>", "<s>", "</s>")[i])
            kinds.append(2 if i == 0 else 3)
        elif byte and token in (byte, chr(i - 3)):
            pieces.append(byte)
            kinds.append(6)
        else:
            pieces.append(token.replace(" ", "▁"))
            kinds.append(1)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 1,  # the start of the next text ends one
    }
