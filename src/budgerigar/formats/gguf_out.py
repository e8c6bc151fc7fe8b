"""Models of the Llama and GPT-2 shapes as GGUF files, which llama.cpp and all built on it load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.formats.atomic import file_aside
from budgerigar.formats.families.fitting import differences
from budgerigar.formats.gguf_architectures import GPT2, LLAMA, Architecture
from budgerigar.formats.gguf_blocks import BY_NAME
from budgerigar.formats.gguf_file import TensorEntry
from budgerigar.formats.gguf_rotary import FREQUENCIES, as_stored, divisors, rotary_metadata
from budgerigar.formats.gguf_tokenizer import tokenizer_metadata
from budgerigar.formats.gguf_writer import Planned, kind_for, write_gguf
from budgerigar.formats.run import Loaded
from budgerigar.formats.weight_rules import give, shapes_of
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer

KINDS = {"F32": 0, "F16": 1, "Q8_0": 7}
"""number formats that are written, with the format's number for a file of them"""
_GELU_NOTE = (
    "This model has the exact GELU and llama.cpp's GPT-2 its approximation by tanh: an activation "
    "differs by up to 0.0005."
)


@dataclass(frozen=True)
class ExportedGguf:
    """A file that was written."""

    path: Path
    architecture: str
    stored: dict[str, int]
    """numbers of values by type"""
    notes: list[str]
    """what a reader should know, a sentence each"""


@dataclass(frozen=True)
class GgufFit:
    """How an architecture says a configuration of ours."""

    architecture: Architecture
    config: TransformerConfig
    """what the reader makes of the metadata: ours, perhaps with scales and biases without effect"""
    metadata: dict[str, Any]
    lacking: list[str]
    notes: list[str]


class _Contents:
    """What a file will hold, for the reader's own function to say what it makes of it."""

    where = "the file"

    def __init__(self, architecture: Architecture, config: TransformerConfig) -> None:
        self.metadata = _shape_metadata(architecture, config)
        self.extra = _divisors(config)
        rules = architecture.rules(config)
        entries = [TensorEntry(r.theirs[0], (1,), BY_NAME["F32"], 0) for r in rules]
        if self.extra is not None:
            entries.append(TensorEntry(FREQUENCIES, tuple(self.extra.shape), BY_NAME["F32"], 0))
        self.entries = {entry.name: entry for entry in entries}
        self.vocab_size, self.n_parameters = config.vocab_size, 1 << 62

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.vocab_size,)

    def get(self, name: str) -> Tensor:
        assert self.extra is not None
        return self.extra


def _shape_metadata(architecture: Architecture, config: TransformerConfig) -> dict[str, Any]:
    values = architecture.metadata(config)
    if not architecture.learned_positions:
        said = rotary_metadata(config)
        values |= {f"{architecture.name}.{key}": value for key, value in said.items()}
    return values


def _divisors(config: TransformerConfig) -> Tensor | None:
    """Llama 3's scaling as a tensor."""
    scaling = config.rotary_scaling
    if (
        config.positions != "rotary"
        or scaling is None
        or scaling.kind not in ("llama3", "longrope")
    ):
        return None
    return divisors(scaling, config.head_width, config.rotary_base)


def fit_gguf(config: Any) -> GgufFit:
    """The architecture that says what `config` is.

    Raises:
        UserError: none does; the dials without a counterpart are named.
    """
    if not isinstance(config, TransformerConfig) or config.assembly != "decoder-only":
        what = getattr(config, "assembly", type(config).__name__)
        raise UserError(
            "GGUF files are written for decoder-only Transformers of the shapes of Llama and GPT-2, "
            f"and this model is {what}."
        )
    architecture = GPT2 if config.positions == "learned" else LLAMA
    asked, notes = as_stored(config), list[str]()
    if architecture is GPT2 and config.activation == "gelu":
        asked, notes = asked.replace(activation="gelu-tanh"), [_GELU_NOTE]
    contents: Any = _Contents(architecture, asked)
    back = architecture.config(contents)
    lacking = differences(asked, back)
    if lacking:
        lines = "\n".join(f"  - {words}" for words in lacking)
        raise UserError(
            f"GGUF's {architecture.name} has no counterpart for dials of this model:\n{lines}"
        )
    return GgufFit(architecture, back, contents.metadata, lacking, notes)


def save_gguf(loaded: Loaded, path: str | Path, kind: str = "F16") -> ExportedGguf:
    """Write `loaded` as a new GGUF file; it appears whole or not at all.

    `kind`: F32, F16 or Q8_0, of the matrices; norms and biases are float32 always. A row that Q8_0's
    blocks of 32 do not divide is written as F16.

    Raises:
        UserError: the model or its tokenizer has no counterpart (named), or something is at `path`.
    """
    path = Path(path)
    if path.exists():
        raise UserError(f"{path} exists already; choose another name or remove it first.")
    if kind not in KINDS:
        raise UserError(
            f"GGUF files are written with {', '.join(KINDS)}; {kind!r} is none of them."
        )
    found = fit_gguf(loaded.network.config)
    starts = (loaded.config.get("text") or {}).get("starts_documents", True)
    tokenizer, notes = tokenizer_metadata(loaded.tokenizer, bool(starts))
    metadata = {**_general(loaded, path, found, kind), **found.metadata, **tokenizer}
    _fill_vocabulary(metadata, found.config.vocab_size)
    tensors = _planned(loaded, found, kind)
    with file_aside(path) as aside:
        write_gguf(aside, metadata, tensors)
    stored: dict[str, int] = {}
    for tensor in tensors:
        size = int(np.prod(tensor.shape))
        stored[tensor.kind.name] = stored.get(tensor.kind.name, 0) + size
    return ExportedGguf(path, found.architecture.name, stored, [*found.notes, *notes])


def _general(loaded: Loaded, path: Path, found: GgufFit, kind: str) -> dict[str, Any]:
    imported = loaded.config.get("imported") or {}
    values = {
        "general.architecture": found.architecture.name,
        "general.type": "model",
        "general.name": str(imported.get("name") or path.stem),
        "general.file_type": KINDS[kind],
        "general.quantization_version": 2,
    }
    return values | ({"general.license": imported["license"]} if "license" in imported else {})


def _fill_vocabulary(metadata: dict[str, Any], rows: int) -> None:
    """A padded embedding has rows that stand for no token; the format wants a name for each."""
    tokens = metadata["tokenizer.ggml.tokens"]
    missing = rows - len(tokens)
    if missing <= 0:
        return
    metadata["tokenizer.ggml.tokens"] = tokens + [f"[PAD{len(tokens) + i}]" for i in range(missing)]
    metadata["tokenizer.ggml.token_type"] = metadata["tokenizer.ggml.token_type"] + [4] * missing
    if "tokenizer.ggml.scores" in metadata:
        metadata["tokenizer.ggml.scores"] = metadata["tokenizer.ggml.scores"] + [0.0] * missing


def _planned(loaded: Loaded, found: GgufFit, kind: str) -> list[Planned]:
    """Every tensor with its type."""
    shapes = shapes_of(Transformer.unfilled(found.config))
    given = give(loaded.network, found.architecture.rules(found.config), shapes)
    extra = _divisors(found.config)
    if extra is not None:
        given[FREQUENCIES] = extra
    planned = []
    for name, tensor in given.items():
        asked = "F32" if name == "position_embd.weight" else kind  # llama.cpp adds it as it is
        largest = float(tensor.abs().max())
        shape = tuple(tensor.shape)
        planned.append(Planned(name, shape, kind_for(asked, shape, largest), _numbers(tensor)))
    return planned


def _numbers(tensor: Tensor) -> Any:
    return lambda: tensor.detach().to("cpu", torch.float32).numpy()
