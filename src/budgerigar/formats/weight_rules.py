"""Which tensor of a foreign file fills which weight of ours, through which transform; and the way back.

A family declares the exact weights it holds, as rules. What is missing, unused or of another shape
is told all at once; what was filled from where is a report. A running model knows no file's format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.formats.load_report import Entry, LoadReport, grouped, indented
from budgerigar.formats.tensors import plain_name
from budgerigar.layers.lora import merged

Shape = tuple[int, ...]


class TensorSource(Protocol):
    """Named tensors of a file or folder: shapes at once, values when asked for (memory-mapped)."""

    @property
    def where(self) -> str:
        """The file or folder, for messages."""
        ...

    def names(self) -> Iterable[str]:
        """All tensors' names."""
        ...

    def shape(self, name: str) -> Shape:
        """Its shape, from the header alone."""
        ...

    def dtype(self, name: str) -> str:
        """What it is stored as, in the format's own word: F32, BF16, Q4_K …"""
        ...

    def get(self, name: str) -> Tensor:
        """The tensor itself, of a floating type."""
        ...


# -- transforms ------------------------------------------------------------------------------------
class Transform:
    """From a tensor of theirs to one of ours. This one changes nothing; the others derive from it."""

    name = "as is"

    def source_shape(self, ours: Shape) -> Shape:
        """The shape that theirs must have for ours to have this one."""
        return ours

    def fits(self, theirs: Shape, ours: Shape) -> bool:
        """Whether a tensor of that shape gives ours."""
        return theirs == self.source_shape(ours)

    def read(self, theirs: Tensor, ours: Shape) -> Tensor:
        """Ours from theirs."""
        return theirs

    def write(self, ours: Tensor) -> Tensor:
        """Theirs from ours: what `read` undoes."""
        return ours

    def words(self, theirs: Shape, ours: Shape) -> str:
        """What was done, for the report."""
        return self.name


class Transposed(Transform):
    """GPT-2 keeps matrices as (inputs, outputs), as if they were convolutions of width 1."""

    name = "transposed (Conv1D)"

    def source_shape(self, ours: Shape) -> Shape:
        return ours[::-1]

    def read(self, theirs: Tensor, ours: Shape) -> Tensor:
        return theirs.T.contiguous()

    def write(self, ours: Tensor) -> Tensor:
        return ours.T.contiguous()


class OnlyRow(Transform):
    """Marian's bias of the logits is a matrix of one row."""

    name = "its only row"

    def source_shape(self, ours: Shape) -> Shape:
        return (1, *ours)

    def read(self, theirs: Tensor, ours: Shape) -> Tensor:
        return theirs[0]

    def write(self, ours: Tensor) -> Tensor:
        return ours[None]


class FirstRows(Transform):
    """A table that was padded to a round number of rows; the rows beyond the vocabulary stand for no
    token. Written without them."""

    name = "first rows"

    def fits(self, theirs: Shape, ours: Shape) -> bool:
        return len(theirs) == len(ours) and theirs[1:] == ours[1:] and theirs[0] >= ours[0]

    def read(self, theirs: Tensor, ours: Shape) -> Tensor:
        return theirs[: ours[0]]

    def words(self, theirs: Shape, ours: Shape) -> str:
        if theirs == ours:
            return AS_IS.name
        return f"first {ours[0]:,} of {theirs[0]:,} rows (padded vocabulary)"


@dataclass(frozen=True)
class Interleaved(Transform):
    """Rows of queries or keys whose rotary pairs stand side by side (2i, 2i + 1), where ours are half
    a head apart (i, i + E/2). `heads`: of this very tensor (key-value heads for keys)."""

    heads: int
    name = "interleaved to half-split RoPE"

    def read(self, theirs: Tensor, ours: Shape) -> Tensor:
        rows = theirs.unflatten(0, (self.heads, -1, 2))
        return rows.transpose(1, 2).flatten(0, 2)

    def write(self, ours: Tensor) -> Tensor:
        rows = ours.unflatten(0, (self.heads, 2, -1))
        return rows.transpose(1, 2).flatten(0, 2)


AS_IS, TRANSPOSED, ONLY_ROW, FIRST_ROWS = Transform(), Transposed(), OnlyRow(), FirstRows()


@dataclass(frozen=True)
class Part(Transform):
    """A stretch of the rows of a tensor that holds several of ours, one below the other (fused QKV).

    `sizes`: rows of each; `inner` is applied to the whole before it is cut.
    """

    index: int
    sizes: tuple[int, ...]
    inner: Transform = AS_IS

    @property
    def name(self) -> str:  # type: ignore[override]
        """The transform in words."""
        before = "" if self.inner is AS_IS else f"{self.inner.name}, then "
        return f"{before}part {self.index + 1} of {len(self.sizes)} (fused QKV)"

    def source_shape(self, ours: Shape) -> Shape:
        return self.inner.source_shape((sum(self.sizes), *ours[1:]))

    def fits(self, theirs: Shape, ours: Shape) -> bool:
        return ours[0] == self.sizes[self.index] and super().fits(theirs, ours)

    def read(self, theirs: Tensor, ours: Shape) -> Tensor:
        whole = self.inner.read(theirs, (sum(self.sizes), *ours[1:]))
        return whole.narrow(0, sum(self.sizes[: self.index]), self.sizes[self.index])

    def write(self, ours: Tensor) -> Tensor:
        raise AssertionError("parts are written together, by `give`")


# -- rules -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Rule:
    """One weight of ours and the tensor that fills it.

    `theirs`: names under which the same numbers may be found, the one to be written first. Where
    several are there (tied weights) they must be equal.
    """

    ours: str
    theirs: tuple[str, ...]
    transform: Transform = AS_IS


# -- reading ---------------------------------------------------------------------------------------
Ignored = Callable[[str], str | None]
"""Why a tensor of that name may be left out; None where it may not."""


@dataclass
class Match:
    """Which tensor goes where, from names and shapes alone; and all that does not fit."""

    pairs: list[tuple[Rule, str]] = field(default_factory=list)
    tied: list[tuple[str, str]] = field(default_factory=list)
    ignored: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def match(
    shapes: Mapping[str, Shape],
    rules: Sequence[Rule],
    tensors: TensorSource,
    ignored: Ignored = lambda name: None,
) -> Match:
    """Pair each weight (`shapes`: ours) with a tensor. Reads headers only."""
    assert {rule.ours for rule in rules} == set(shapes), "rules that do not fit the network"
    held, found = set(tensors.names()), Match()
    missing, misshapen = [], []
    for rule in rules:
        names = [name for name in rule.theirs if name in held]
        if not names:
            missing.append(f"{rule.theirs[0]} is missing (it fills {rule.ours})")
            continue
        found.pairs.append((rule, names[0]))
        found.tied += [(other, names[0]) for other in names[1:]]
        ours = tuple(shapes[rule.ours])
        for name in names:
            theirs = tuple(tensors.shape(name))
            if not rule.transform.fits(theirs, ours):
                wanted = rule.transform.source_shape(ours)
                misshapen.append(f"{name} is {theirs}, not {wanted}")
    used = {name for rule in rules for name in rule.theirs}
    unused = []
    for name in sorted(held - used):
        why = ignored(name)
        if why is None:
            unused.append(f"{name} {tuple(tensors.shape(name))} is not part of this model")
        else:
            found.ignored.append((name, why))
    found.problems = grouped([*missing, *misshapen, *unused])
    return found


def shapes_of(network: nn.Module) -> dict[str, Shape]:
    """The shape of each weight, by name."""
    return {plain_name(name): tuple(p.shape) for name, p in network.named_parameters()}


def fill(
    network: nn.Module,
    rules: Sequence[Rule],
    tensors: TensorSource,
    ignored: Ignored = lambda name: None,
) -> LoadReport:
    """Put the tensors into the network, one after the other, as float32.

    A tensor that needs no change stays where the file is mapped into memory.

    Raises:
        UserError: lists all that is missing, unused or of another shape.
    """
    found = match(shapes_of(network), rules, tensors, ignored)
    if not found.problems:
        found.problems = _unequal(found, tensors)
    if found.problems:
        lines = "\n".join(indented(found.problems))
        raise UserError(
            f"{tensors.where} does not hold the weights of the model that is described there:\n"
            f"{lines}\nThe description or the weights were changed, or the download is not complete."
        )
    report = LoadReport(tensors.where, tied=_once(found.tied), ignored=found.ignored)
    shapes = shapes_of(network)
    for rule, name in found.pairs:
        ours = shapes[rule.ours]
        theirs = tensors.get(name)
        if not theirs.is_floating_point():
            raise UserError(
                f"{tensors.where}: {name} holds {tensors.dtype(name)}, whole numbers of a quantised "
                "model; take the one that is not quantised, or a .gguf file of it"
            )
        place(network, rule.ours, rule.transform.read(theirs, ours).to(torch.float32).contiguous())
        words = rule.transform.words(tuple(theirs.shape), ours)
        entry = Entry(rule.ours, name, words, tuple(theirs.shape), tensors.dtype(name))
        report.entries.append(entry)
    return report


def _once(tied: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(tied))


def _unequal(found: Match, tensors: TensorSource) -> list[str]:
    """Tensors that should be the same numbers and are not."""
    return [
        f"{name} differs from {first}, although the two are declared to be one (tied): set "
        "tie_word_embeddings to false in config.json if they are two"
        for name, first in _once(found.tied)
        if not torch.equal(tensors.get(name), tensors.get(first))
    ]


def place(network: nn.Module, name: str, tensor: Tensor) -> None:
    """Make `tensor` the weight of that name, without copying it."""
    module, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(module), leaf, nn.Parameter(tensor))


# -- writing ---------------------------------------------------------------------------------------
def give(
    network: nn.Module,
    rules: Sequence[Rule],
    shapes: Mapping[str, Shape] | None = None,
    query_factor: float = 1.0,
) -> dict[str, Tensor]:
    """The weights under their names: what `fill` undoes.

    `shapes`: of the weights that the rules speak of, where the network may lack some of them: norms
    without a scale are given ones, missing biases and token types zeros, which changes nothing.
    `query_factor`: what weights and biases of queries are multiplied by. Adapters are merged.
    """
    network = merged(network)
    wanted = shapes or shapes_of(network)
    assert {rule.ours for rule in rules} == set(wanted), "rules that do not fit the network"
    assert set(shapes_of(network)) <= set(wanted), "weights without a rule"
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(rule.theirs[0], []).append(rule)

    def ours(rule: Rule) -> Tensor:
        own = weight_of(network, rule.ours)
        if own is None:
            return neutral(rule.ours, wanted[rule.ours])
        return own * query_factor if query_factor != 1.0 and ".query." in rule.ours else own

    given: dict[str, Tensor] = {}
    for name, group in groups.items():
        first = group[0].transform
        if isinstance(first, Part):
            order = sorted(group, key=lambda rule: rule.transform.index)  # type: ignore[attr-defined]
            given[name] = first.inner.write(torch.cat([ours(rule) for rule in order]))
        else:
            given[name] = first.write(ours(group[0]))
    return given


def weight_of(network: nn.Module, name: str) -> Tensor | None:
    """The weight of that name, a packed one's values too; None where the network has none."""
    found: Any = network
    for part in name.split("."):
        owner, found = found, getattr(found, part, None)
    if found is None and getattr(owner, "packed", None) is not None:  # an output layer's own
        found = owner.packed.dense
    return found.detach() if isinstance(found, Tensor) else None


def neutral(name: str, shape: Shape) -> Tensor:
    """A weight that changes nothing: a norm's scale of ones; a bias or a token type of zeros."""
    if name.endswith("norm.weight"):
        return torch.ones(shape)
    assert name.endswith(("bias", "types.weight")), f"{name} has no neutral value"
    return torch.zeros(shape)
