"""Which tensor of a foreign file fills which weight of ours, through which transform; and the way back.

A family declares the exact weights it holds, as rules. What is missing, unused or of another shape
is told all at once; what was filled from where is a report. A running model knows no file's format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from budgerigar.errors import UserError
from budgerigar.formats.tensors import plain_name

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


@dataclass(frozen=True)
class Entry:
    """What filled one weight."""

    ours: str
    theirs: str
    transform: str
    shape: Shape
    stored: str
    """the type in the file"""


@dataclass
class LoadReport:
    """For each weight the source tensor and the transform that filled it; and what else was there."""

    where: str
    entries: list[Entry] = field(default_factory=list)
    tied: list[tuple[str, str]] = field(default_factory=list)
    """(tensor, the equal one that was taken instead)"""
    ignored: list[tuple[str, str]] = field(default_factory=list)
    """(tensor, why nothing is lost without it)"""
    remarks: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The report as lines of text, layers that are alike on one line."""
        lines = grouped(
            f"{e.ours}  ←  {e.theirs}  {e.shape}  {e.stored}, {e.transform}" for e in self.entries
        )
        tied = grouped(f"{name}: the same numbers as {first}" for name, first in self.tied)
        ignored = grouped(f"{name}: {why}" for name, why in self.ignored)
        parts = [f"{len(self.entries)} weights from {self.where}", *_indented(lines)]
        parts += ["stored twice", *_indented(tied)] if tied else []
        parts += ["left out", *_indented(ignored)] if ignored else []
        return "\n".join([*parts, *self.remarks])


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


_NUMBER = re.compile(r"\.(\d+)(?=\.)")


def grouped(lines: Iterable[str]) -> list[str]:
    """Lines that differ in the number of the layer alone as one: `h.0–11.ln_1.weight`."""
    groups: dict[str, list[int]] = {}
    for line in lines:
        numbers = _NUMBER.findall(line)
        one = bool(numbers) and len({*numbers}) == 1  # of a line "ours ← theirs": the same on both
        pattern = _NUMBER.sub(".\0", line) if one else line
        groups.setdefault(pattern, []).append(int(numbers[0]) if one else -1)
    return [pattern.replace("\0", _ranges(numbers)) for pattern, numbers in groups.items()]


def _ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] -> "0–2,5"."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number <= found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(a) if a == b else f"{a}–{b}" for a, b in found)


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
        lines = "\n".join(_indented(found.problems))
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
    network: nn.Module, rules: Sequence[Rule], shapes: Mapping[str, Shape] | None = None
) -> dict[str, Tensor]:
    """The weights under their names: what `fill` undoes.

    `shapes`: of the weights that the rules speak of, where the network may lack some of them: norms
    without a scale are given ones, missing biases and token types zeros, which changes nothing.
    """
    own = {plain_name(name): p.detach() for name, p in network.named_parameters()}
    wanted = shapes or {name: tuple(p.shape) for name, p in own.items()}
    assert {rule.ours for rule in rules} == set(wanted), "rules that do not fit the network"
    assert set(own) <= set(wanted), "weights without a rule"
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(rule.theirs[0], []).append(rule)

    def ours(rule: Rule) -> Tensor:
        return own[rule.ours] if rule.ours in own else neutral(rule.ours, wanted[rule.ours])

    given: dict[str, Tensor] = {}
    for name, group in groups.items():
        first = group[0].transform
        if isinstance(first, Part):
            order = sorted(group, key=lambda rule: rule.transform.index)  # type: ignore[attr-defined]
            given[name] = first.inner.write(torch.cat([ours(rule) for rule in order]))
        else:
            given[name] = first.write(ours(group[0]))
    return given


def neutral(name: str, shape: Shape) -> Tensor:
    """A weight that changes nothing: a norm's scale of ones; a bias or a token type of zeros."""
    if name.endswith("norm.weight"):
        return torch.ones(shape)
    assert name.endswith(("bias", "types.weight")), f"{name} has no neutral value"
    return torch.zeros(shape)
