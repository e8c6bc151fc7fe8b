"""GGUF files as models: one Transformer, its quantised matrices kept as integers and scales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.formats.gguf_architectures import Architecture, architecture_of
from budgerigar.formats.gguf_blocks import read_codes
from budgerigar.formats.gguf_file import GgufFile
from budgerigar.formats.load_report import Entry, LoadReport
from budgerigar.formats.run import Loaded, make_config
from budgerigar.formats.weight_rules import Rule, TensorSource, fill, match, shapes_of
from budgerigar.layers import shapes
from budgerigar.layers.config import TransformerConfig
from budgerigar.layers.packed_linear import PackedEmbedding, PackedLinear, PackedMatrix
from budgerigar.models.transformer import Transformer

_AT_ONCE = 1 << 20  # numbers of a quantised matrix that are unpacked at a time


@dataclass(frozen=True)
class DescribedGguf:
    """What a GGUF file holds, from its header."""

    file: GgufFile
    architecture: Architecture
    config: TransformerConfig

    @property
    def stored(self) -> dict[str, int]:
        """Numbers of values by the type that they are stored as: {"Q4_1": 106168320, …}."""
        counted: Counter[str] = Counter()
        for entry in self.file.entries.values():
            counted[entry.kind.name] += entry.n_elements
        return dict(counted)


def describe_gguf(path: str | Path) -> DescribedGguf:
    """What a GGUF file holds. Reads no weights.

    Raises:
        UserError: it cannot be read, or describes a model that cannot be built here.
    """
    file = GgufFile(path)
    architecture = architecture_of(file)
    try:
        config = architecture.config(file)
    except UserError as error:
        words = str(error)
        raise UserError(words if file.where in words else f"{file.where}: {words}") from None
    described, there = shapes.parameters(config).total, file.n_parameters
    if described > 2 * there + 1_000_000:
        raise UserError(
            f"{file.where} describes a model of {described:,} weights and holds {there:,}: it is "
            "damaged."
        )
    return DescribedGguf(file, architecture, config)


def load_gguf(path: str | Path, device: str = "cpu", packed: bool = True) -> Loaded:
    """The model of a GGUF file, ready to run.

    `packed`: keep quantised matrices as integers and scales (`layers/packed_linear.py`); False makes
    float32 numbers of them, which take three times the memory and can be trained.

    Raises:
        UserError: names all that does not fit: see `describe_gguf` and `weight_rules.fill`.
    """
    from budgerigar.text.imported_tokenizer import tokenizer_from_gguf

    found = describe_gguf(path)
    tokenizer = tokenizer_from_gguf(found.file.metadata, found.file.where)
    network, report = load_weights(found, packed)
    unread = found.architecture.unread(found.file)
    if unread:
        report.remarks.append(f"metadata that nothing here knows: {', '.join(sorted(unread))}")
        progress.note(f"note: {found.file.where}: {report.remarks[-1]}")
    return Loaded(network.to(device), tokenizer, run_config(found), None, Path(path), None, report)


def problems(found: DescribedGguf) -> list[str]:
    """All tensors that are missing, unused or of another shape; from the header alone."""
    shapes_here = shapes_of(Transformer.unfilled(found.config))
    rules, ignored = found.architecture.rules(found.config), found.architecture.ignored
    return match(shapes_here, rules, found.file, ignored).problems


def memory_bytes(found: DescribedGguf) -> int:
    """Bytes of the weights once they are loaded, the quantised ones packed; from the header alone."""
    total = 0
    for entry in found.file.entries.values():
        kind, per_block = entry.kind, 4 * entry.kind.values
        if kind.quantised and len(entry.shape) == 2:
            empty = read_codes(np.zeros((1, kind.n_bytes), dtype=np.uint8), kind)
            per_block = sum(part.nbytes for part in empty if part is not None)
        total += entry.n_elements // kind.values * per_block
    return total


def run_config(found: DescribedGguf) -> dict[str, Any]:
    """What a run's config.json would say of it."""
    said = found.file.metadata
    imported = {
        "form": "GGUF file",
        "family": found.architecture.name,
        "architecture": found.architecture.name,
        "stored": found.stored,
    }
    for key in ("name", "license"):
        value = said.get(f"general.{key}")
        if isinstance(value, str):
            imported[key] = value
    return make_config(found.config, {"documents": "none"}, imported=imported)


def load_weights(found: DescribedGguf, packed: bool = True) -> tuple[Transformer, LoadReport]:
    """The network, filled, and what filled it."""
    file, architecture = found.file, found.architecture
    file.need_readable(name for name in file.names() if architecture.ignored(name) is None)
    network = Transformer.unfilled(found.config)
    rules = architecture.rules(found.config)
    matched = match(shapes_of(network), rules, file, architecture.ignored)
    entries: list[Entry] = []
    pairs = matched.pairs if packed and not matched.problems else []
    with progress.track(f"read {file.path.name}", len(pairs), "tensors") as job:
        for rule, name in pairs:
            if file.entries[name].kind.quantised and len(file.shape(name)) == 2:
                entries.append(_pack(network, rule, name, file))
            job.advance()
    done = {entry.ours for entry in entries}
    rest = [rule for rule in rules if rule.ours not in done]
    report = fill(network, rest, _Without(file, {e.theirs for e in entries}), architecture.ignored)
    order = {rule.ours: i for i, rule in enumerate(rules)}
    report.entries = sorted([*entries, *report.entries], key=lambda entry: order[entry.ours])
    file.release()
    return network.eval(), report


@dataclass(frozen=True)
class _Without:
    """The tensors of a file but for some that have found their place."""

    source: TensorSource
    left_out: set[str]

    @property
    def where(self) -> str:
        return self.source.where

    def names(self) -> Iterable[str]:
        return [name for name in self.source.names() if name not in self.left_out]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.source.shape(name)

    def dtype(self, name: str) -> str:
        return self.source.dtype(name)

    def get(self, name: str) -> Tensor:
        return self.source.get(name)


# -- quantised matrices as they are ----------------------------------------------------------------
def _pack(network: nn.Module, rule: Rule, name: str, file: GgufFile) -> Entry:
    """Put a quantised tensor into the network without multiplying it out."""
    module, _, leaf = rule.ours.rpartition(".")
    owner: Any = network.get_submodule(module)
    shape = tuple(getattr(owner, leaf).shape)
    rows = _rows(rule, file.shape(name)[0], shape[0])
    parent, _, own = module.rpartition(".")
    matrix = packed_matrix(file, name, rows)
    if isinstance(owner, nn.Linear):
        setattr(network.get_submodule(parent), own, PackedLinear(matrix, owner.bias))
    elif isinstance(owner, nn.Embedding):
        setattr(network.get_submodule(parent), own, PackedEmbedding(matrix))
    else:  # the output layer, which holds its matrix itself
        owner.weight, owner.packed = None, matrix
    words = rule.transform.words(file.shape(name), shape)
    return Entry(rule.ours, name, f"{words}, kept packed", file.shape(name), file.dtype(name))


def _rows(rule: Rule, theirs: int, ours: int) -> Tensor | None:
    """Which of their rows are ours, in order; None: all as they are.

    Every transform between quantised matrices moves whole rows, so it is told what it does to their
    numbers.
    """
    rows = rule.transform.read(torch.arange(theirs)[:, None], (ours, 1)).flatten()
    assert len(rows) == ours, f"{rule.transform.name} does more than move rows"
    return None if torch.equal(rows, torch.arange(theirs)) else rows


def packed_matrix(file: GgufFile, name: str, rows: Tensor | None = None) -> PackedMatrix:
    """A quantised tensor of a file, or some of its rows.

    Raises:
        UserError: a scale is infinite or no number.
    """
    raw, kind = file.raw(name), file.entries[name].kind
    picked = np.arange(len(raw)) if rows is None else rows.numpy()
    step = max(1, _AT_ONCE // file.shape(name)[-1])
    parts: list[Any] = []
    for start in range(0, len(picked), step):  # a large table is never there twice
        some = read_codes(raw[picked[start : start + step]], kind)
        if not parts:
            parts = [x if x is None else np.empty((len(picked), x.shape[1]), x.dtype) for x in some]
        for part, x in zip(parts, some, strict=True):
            if part is not None:
                part[start : start + step] = x
    if not all(np.isfinite(part).all() for part in parts[1:] if part is not None):
        raise UserError(
            f"{file.where}: {name} holds numbers that are infinite or none. The file is damaged, or "
            "the model was before it was quantised."
        )
    codes, scales, minima = (x if x is None else torch.from_numpy(x) for x in parts)
    assert codes is not None
    assert scales is not None
    return PackedMatrix(codes, scales, minima)
