"""What a family of models is: how its config.json and its weights are read and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from budgerigar.formats.families.values import Values
from budgerigar.formats.weight_rules import FIRST_ROWS, Rule, TensorSource, Transform
from budgerigar.layers.config import TransformerConfig

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
    "relu2": "squared-relu",
}
"""their names of a plain feed-forward's activation -> ours; the first of each is written"""
GATES = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_new": "geglu-tanh",
    "gelu_pytorch_tanh": "geglu-tanh",
}
"""the same of a gate"""


class Family(ABC):
    """One family. `config_from` and `rules` read; `config_to` and `rules` write."""

    name: str
    assembly: str
    architectures: tuple[str, ...]
    """classes of `transformers` whose weights are known; the first is written unless told otherwise"""
    model_types: tuple[str, ...]

    @abstractmethod
    def config_from(self, values: Values, tensors: TensorSource | None = None) -> TransformerConfig:
        """Our dials for a config.json; `tensors` (headers) decide what it leaves open."""

    @abstractmethod
    def config_to(self, config: TransformerConfig) -> dict[str, Any]:
        """The config.json that comes nearest to our dials; `fitting.fit` says what it lacks."""

    @abstractmethod
    def rules(self, config: TransformerConfig) -> list[Rule]:
        """A rule for each weight."""

    @abstractmethod
    def ignored(self, name: str) -> str | None:
        """Why nothing is lost without a tensor of that name; None where something is."""


def theirs_of(ours: str, options: dict[str, str]) -> str | None:
    """Their name of one of our activations; None where they have none."""
    return next((theirs for theirs, mine in options.items() if mine == ours), None)


def held(tensors: TensorSource | None) -> set[str]:
    """Names of the tensors that are there."""
    return set() if tensors is None else set(tensors.names())


def either(prefixes: Iterable[str], name: str) -> tuple[str, ...]:
    """A name with each prefix that the files of a family are found with."""
    return tuple(prefix + name for prefix in prefixes)


def affine(
    ours: str, theirs: tuple[str, ...], bias: bool = True, transform: Transform | None = None
) -> list[Rule]:
    """Rules for `.weight` and, with `bias`, `.bias` of a norm or a linear layer.

    `transform` is the weight's. Old files of BERT call the two of a norm gamma and beta.
    """
    old = {"weight": "gamma", "bias": "beta"} if ours.endswith("norm") else {}
    rules = []
    for leaf in ("weight", "bias") if bias else ("weight",):
        names = tuple(f"{name}.{leaf}" for name in theirs)
        names += tuple(f"{name}.{old[leaf]}" for name in theirs if leaf in old)
        given = {"transform": transform} if transform is not None and leaf == "weight" else {}
        rules.append(Rule(f"{ours}.{leaf}", names, **given))
    return rules


def table(ours: str, theirs: tuple[str, ...]) -> Rule:
    """A table with a row for each token; a padded one is cut."""
    return Rule(ours, theirs, FIRST_ROWS)
